// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The side of every rank but 0: connects until rank 0 is there, and believes nobody who cannot
// prove that it is of the same job. Whoever else listens at the port may be about to leave, so all
// that is tried again until the budget is used up; the last fault is what the error says. Only a
// rank 0 that has said that it knows this process ends the attempts, by its verdict or by going
// away.
#include "backend/runtime/job/admission.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/job/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace dtile::runtime {

namespace {

constexpr int64_t kGreetingNs = 2'000'000'000;
/// Rank 0's own budget may have begun later, and its verdict has the better words.
constexpr int64_t kGraceNs = 5'000'000'000;
constexpr const char *kNobody =
    "nobody listens there: rank 0 has not started, has failed, or is on another host";
constexpr int64_t kFirstPauseUs = 2'000, kLongestPauseUs = 50'000;

class Knocking {
public:
  Knocking(const JobPlace &place, int32_t timeoutMs)
      : place_(place), timeoutMs_(timeoutMs), prover_(place), hello_(helloOf(place, prover_)),
        end_(nowNs() + int64_t(timeoutMs) * 1'000'000) {}
  Status run(Admitted *out);

private:
  Status findTargets();
  bool knock(Connection kind, Socket *out, Hello *said);
  bool connectToAny(Socket *out);
  Status awaitAnswer(int socket, const Hello &said, int64_t end, Verdict *out);
  bool introduce();
  Status conclude(Admitted *out);
  [[nodiscard]] Status gaveUp() const;

  const JobPlace &place_;
  int32_t timeoutMs_;
  Prover prover_;
  Hello hello_;
  int64_t end_;
  std::vector<Endpoint> targets_, sources_;
  std::string fault_ = kNobody;
  /// What another rank 0 has said, which says more than that it went away since.
  std::string refusal_;
  /// Not to be healed by waiting.
  Status final_;
  Socket exchange_, watch_;
  Hello exchangeHello_, watchHello_;
};

Status Knocking::findTargets() {
  if (!place_.hasSeveralHosts()) {
    targets_ = {unixEndpoint(meetingName(place_))};
    return {};
  }
  if (!place_.interface.empty())
    if (Status status = localEndpoints(place_.interface, &sources_); !status.ok())
      return status;
  return resolve(place_.address, place_.port, &targets_);
}

bool Knocking::connectToAny(Socket *out) {
  for (const Endpoint &target : targets_) {
    const Endpoint *from = nullptr;
    for (const Endpoint &source : sources_)
      if (source.family() == target.family())
        from = &source;
    const int64_t end = std::min(end_, nowNs() + kGreetingNs);
    const int error = connectTo(target, sources_.empty() ? nullptr : from, end, out);
    if (error == 0)
      return true;
    fault_ = error == ECONNREFUSED || error == ENOENT ? kNobody : std::strerror(error);
  }
  return false;
}

/// Connects and says who this process is; false: to be tried again.
bool Knocking::knock(Connection kind, Socket *out, Hello *said) {
  Socket socket;
  if (!connectToAny(&socket))
    return false;
  if (uid_t user = 0;
      !place_.hasSeveralHosts() && (!userAtOtherEnd(socket.get(), &user) || user != geteuid())) {
    final_ = {DTILE_UNAVAILABLE,
              format("the job's meeting place `%s` was taken by a process of another user (uid "
                     "%lld): start the job with another name or port",
                     targets_.front().text().c_str(), static_cast<long long>(user))};
    return false;
  }
  keepAlive(socket.get(), lostAfterMs(timeoutMs_));
  Challenge challenge;
  const int64_t end = std::min(end_, nowNs() + kGreetingNs);
  if (receiveAll(socket.get(), &challenge, sizeof challenge, end) != 0 ||
      std::memcmp(challenge.magic, kJobMagic, sizeof kJobMagic) != 0) {
    fault_ = "what listens there does not answer as rank 0 of a job does; is the port another "
             "program's?";
    return false;
  }
  if (challenge.protocol != kJobProtocol || challenge.bytes != sizeof(Hello)) {
    final_ = {DTILE_INVALID, "rank 0 of the job has another version of this library"};
    return false;
  }
  *said = hello_;
  said->connection = kind;
  said->nonce = newNonce();
  said->proof = prover_.prove(*said, challenge);
  if (sendAll(socket.get(), said, sizeof *said, end) != 0)
    return false;
  *out = std::move(socket);
  return true;
}

Status Knocking::gaveUp() const {
  const std::string &fault = refusal_.empty() ? fault_ : refusal_;
  if (!place_.hasSeveralHosts())
    return {DTILE_TIMEOUT,
            format("rank %d waited %d ms for rank 0 of the job: %s; the launcher says that all "
                   "ranks are on this host (for others set LOCAL_WORLD_SIZE)",
                   place_.rank, timeoutMs_, fault.c_str())};
  return {DTILE_TIMEOUT,
          format("rank %d, on `%s`, waited %d ms for rank 0 of the job at %s (`%s`): %s; see "
                 "MASTER_ADDR and MASTER_PORT, or DTILE_JOB_ADDRESS and DTILE_JOB_PORT, and "
                 "DTILE_JOB_INTERFACE",
                 place_.rank, hello_.member.host, timeoutMs_, targets_.front().text().c_str(),
                 place_.address.c_str(), fault.c_str())};
}

/// What rank 0 says next; an error where nobody who knows the job's key says anything.
Status Knocking::awaitAnswer(int socket, const Hello &said, int64_t end, Verdict *out) {
  if (int error = receiveAll(socket, out, sizeof *out, end); error != 0)
    return {DTILE_TIMEOUT, error == kTooLate ? "rank 0 of the job gives no answer"
                                             : "rank 0 of the job has ended before all had come"};
  out->words[sizeof out->words - 1] = 0;
  if (out->answer == Answer::NotOurs)
    return {DTILE_UNAVAILABLE,
            "what listens there refuses this process: " + std::string(out->words)};
  if (!isSame(out->proof, prover_.prove(*out, said)))
    return {DTILE_UNAVAILABLE, "what listens there does not know the job's key: see DTILE_JOB_KEY"};
  return {};
}

/// Makes the exchange connection where there is none; true once the job's own rank 0 knows it.
/// Another job's may go away before it has read who this is, which is no reason to give up.
bool Knocking::introduce() {
  if (exchange_)
    return true;
  Socket socket;
  if (!knock(Connection::Exchange, &socket, &exchangeHello_))
    return false;
  Verdict first;
  Status status = awaitAnswer(socket.get(), exchangeHello_, end_ + kGraceNs, &first);
  if (status.ok() && first.answer == Answer::Failed)
    final_ = {first.code, first.words};
  else if (!status.ok())
    refusal_ = status.message;
  else
    exchange_ = std::move(socket);
  return bool(exchange_);
}

/// With both connections made, or after rank 0 has given up.
Status Knocking::conclude(Admitted *out) {
  const int64_t end = nowNs() + int64_t(timeoutMs_) * 1'000'000 + kGraceNs;
  Verdict verdict;
  Status status = awaitAnswer(exchange_.get(), exchangeHello_, end, &verdict);
  if (!status.ok())
    return {status.code, format("rank %d: ", place_.rank) + status.message};
  if (verdict.answer == Answer::Failed)
    return {verdict.code, verdict.words};
  out->members.resize(size_t(place_.ranks));
  const int64_t bytes = int64_t(sizeof(JobMember)) * place_.ranks;
  const int64_t restEnd = nowNs() + kGraceNs;
  Verdict second;
  if (receiveAll(exchange_.get(), out->members.data(), bytes, restEnd) != 0 ||
      !awaitAnswer(watch_.get(), watchHello_, restEnd, &second).ok())
    return {DTILE_TIMEOUT, "rank 0 of the job has ended while all came"};
  out->session = verdict.session;
  out->exchange.push_back(std::move(exchange_));
  out->watch.push_back(std::move(watch_));
  return {};
}

Status Knocking::run(Admitted *out) {
  if (Status status = findTargets(); !status.ok())
    return status;
  for (int64_t pause = kFirstPauseUs;; pause = std::min(2 * pause, kLongestPauseUs)) {
    if (introduce() &&
        (knock(Connection::Watch, &watch_, &watchHello_) || waitReadable(exchange_.get(), nowNs())))
      return conclude(out);
    if (!final_.ok())
      return final_;
    if (nowNs() > end_)
      return gaveUp();
    usleep(useconds_t(pause));
  }
}

} // namespace

Status askAdmission(const JobPlace &place, int32_t timeoutMs, Admitted *out) {
  return Knocking(place, timeoutMs).run(out);
}

} // namespace dtile::runtime
