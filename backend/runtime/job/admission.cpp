// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rank 0's side. Any process may connect, so no one of them is waited for: all that have not yet
// said who they are wait side by side, and strangers are turned away while the job's own come in.
//
// On one machine a connection is known by the user whose process made it, as the kernel says it;
// over a network by proof of the job's key.
#include "backend/runtime/job/admission.h"

#include "backend/runtime/clock.h"
#include "backend/runtime/job/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <poll.h>
#include <unistd.h>

namespace dtile::runtime {

namespace {

/// For a process that has connected to say who it is.
constexpr int64_t kGreetingNs = 5'000'000'000;
/// From the first fault on, for the others to come and be told.
constexpr int64_t kTellNs = 2'000'000'000;
constexpr int64_t kVerdictNs = 5'000'000'000;
constexpr int64_t kRetryUs = 20'000;
constexpr int kLookMs = 100;

/// A process that has connected and not yet said who it is.
struct Guest {
  Socket socket;
  Challenge challenge;
  Hello hello;
  size_t got = 0;
  int64_t end = 0;
};

std::string faultText(const Hello &hello) {
  return memberText(hello.rank, hello.member) + " cannot take part: " + hello.fault;
}

class Gathering {
public:
  Gathering(const JobPlace &place, int32_t timeoutMs)
      : place_(place), timeoutMs_(timeoutMs), prover_(place), own_(helloOf(place, prover_)),
        end_(nowNs() + int64_t(timeoutMs) * 1'000'000) {
    const Nonce random = newNonce();
    std::memcpy(&session_, random.data(), sizeof session_);
    hellos_.resize(size_t(place.ranks));
    hellos_[0] = own_;
    for (std::vector<Socket> *each : {&admitted_.exchange, &admitted_.watch})
      each->resize(size_t(place.ranks));
  }
  Status run(Admitted *out);

private:
  Status listen();
  Status listenByTcp();
  void step();
  void take(Socket socket);
  void read(Guest &guest);
  void consider(Guest &guest);
  void turnAway(const Guest &guest, Answer answer, const std::string &words);
  void watchAdmitted();
  void problem(const std::string &words);
  [[nodiscard]] bool isComplete() const;
  [[nodiscard]] std::string missing() const;
  [[nodiscard]] std::string unequalHosts() const;
  Status conclude();
  int answer(int socket, const Hello &hello, Answer answer, const Status &status);

  const JobPlace &place_;
  int32_t timeoutMs_;
  Prover prover_;
  Hello own_;
  int64_t end_;
  uint64_t session_ = 0;
  std::vector<Socket> listeners_;
  std::vector<Guest> guests_;
  std::vector<Hello> hellos_;
  /// By rank and kind, as the nonce of each is another.
  std::map<std::pair<int32_t, Connection>, Hello> answers_;
  Admitted admitted_;
  std::string problem_;
  bool hasStrangers_ = false;
  int64_t nextLook_ = 0;
};

Status Gathering::listenByTcp() {
  std::vector<Endpoint> wanted, own;
  if (Status status = resolve(place_.address, place_.port, &wanted); !status.ok())
    return status;
  if (Status status = localEndpoints(place_.interface, &own); !status.ok())
    return status;
  std::string ours;
  for (const Endpoint &each : own)
    ours += (ours.empty() ? "" : ", ") + each.host();
  std::erase_if(wanted, [&](const Endpoint &each) {
    return std::none_of(own.begin(), own.end(),
                        [&](const Endpoint &local) { return each.hasSameAddress(local); });
  });
  if (wanted.empty())
    return {DTILE_UNAVAILABLE,
            format("rank 0 of the job is to listen at `%s`, but this is no address of %s `%s`, "
                   "which has %s: set MASTER_ADDR or DTILE_JOB_ADDRESS to the host of rank 0",
                   place_.address.c_str(),
                   place_.interface.empty() ? "its host" : "the network interface",
                   place_.interface.empty() ? own_.member.host : place_.interface.c_str(),
                   ours.c_str())};
  // Another job may be about to leave the port.
  for (int error = 0;; usleep(kRetryUs)) {
    for (const Endpoint &each : wanted) {
      Socket listener;
      if (error = listenAt(each, 2 * place_.ranks, &listener); error != 0)
        break;
      listeners_.push_back(std::move(listener));
    }
    if (error == 0)
      return {};
    listeners_.clear();
    if (nowNs() > end_ || error != EADDRINUSE)
      return {DTILE_UNAVAILABLE,
              format("rank 0 of the job cannot listen at %s within %d ms: %s; if another job has "
                     "this port, set DTILE_JOB_PORT or MASTER_PORT to another one",
                     wanted.front().text().c_str(), timeoutMs_, std::strerror(error))};
  }
}

Status Gathering::listen() {
  if (place_.hasSeveralHosts())
    return listenByTcp();
  const Endpoint meeting = unixEndpoint(meetingName(place_));
  Socket listener;
  if (int error = listenAt(meeting, 2 * place_.ranks, &listener); error != 0)
    return {DTILE_UNAVAILABLE,
            format("cannot listen at the job's meeting place `%s`: %s; is the same job name in "
                   "use?",
                   meeting.text().c_str(), std::strerror(error))};
  listeners_.push_back(std::move(listener));
  return {};
}

void Gathering::problem(const std::string &words) {
  if (!problem_.empty())
    return;
  problem_ = words;
  end_ = std::min(end_, nowNs() + kTellNs);
}

int Gathering::answer(int socket, const Hello &hello, Answer answer, const Status &status) {
  Verdict verdict;
  verdict.answer = answer;
  verdict.code = status.code;
  verdict.session = session_;
  const size_t length = std::min(status.message.size(), sizeof verdict.words - 1);
  std::memcpy(verdict.words, status.message.data(), length);
  verdict.proof = prover_.prove(verdict, hello);
  return sendAll(socket, &verdict, sizeof verdict, nowNs() + kVerdictNs);
}

void Gathering::turnAway(const Guest &guest, Answer why, const std::string &words) {
  hasStrangers_ = true;
  (void)answer(guest.socket.get(), guest.hello, why, {DTILE_UNAVAILABLE, words});
}

void Gathering::take(Socket socket) {
  // Any process of the machine may connect; those of other users are no part of the job.
  if (uid_t user = 0;
      !place_.hasSeveralHosts() && (!userAtOtherEnd(socket.get(), &user) || user != geteuid()))
    return;
  keepAlive(socket.get(), lostAfterMs(timeoutMs_));
  Guest guest;
  std::memcpy(guest.challenge.magic, kJobMagic, sizeof kJobMagic);
  guest.challenge.protocol = kJobProtocol;
  guest.challenge.bytes = sizeof(Hello);
  guest.challenge.nonce = newNonce();
  guest.end = nowNs() + kGreetingNs;
  guest.socket = std::move(socket);
  // A new connection has room for it.
  if (sendAll(guest.socket.get(), &guest.challenge, sizeof(Challenge), 0) == 0)
    guests_.push_back(std::move(guest));
}

void Gathering::consider(Guest &guest) {
  const Hello &hello = guest.hello;
  if (!isSame(hello.identity, prover_.identity()))
    return turnAway(guest, Answer::NotOurs,
                    "it is of another job: this one has another name (the launcher's job, "
                    "MASTER_ADDR, MASTER_PORT)");
  if (!isSame(hello.proof, prover_.prove(hello, guest.challenge)))
    return turnAway(guest, Answer::NotOurs,
                    "it is of a job with another key: see DTILE_JOB_KEY of both");
  if (*hello.fault) {
    problem(faultText(hello));
  } else if (std::string difference = differenceOf(own_, hello); !difference.empty()) {
    problem(difference);
  } else if (hello.rank < 1 || hello.rank >= place_.ranks) {
    return turnAway(guest, Answer::Failed,
                    format("there is no rank %d in a job of %d ranks", hello.rank, place_.ranks));
  }
  const bool isWatch = hello.connection == Connection::Watch;
  if (hello.rank < 1 || hello.rank >= place_.ranks)
    return turnAway(guest, Answer::Failed, problem_);
  Socket &slot = (isWatch ? admitted_.watch : admitted_.exchange)[size_t(hello.rank)];
  if (slot) {
    const std::string words =
        format("two processes of the job say that they are rank %d: process %lld on `%s` and "
               "process %lld on `%s`",
               hello.rank, static_cast<long long>(hellos_[size_t(hello.rank)].member.process),
               hellos_[size_t(hello.rank)].member.host,
               static_cast<long long>(hello.member.process), hello.member.host);
    problem(words);
    return turnAway(guest, Answer::Failed, words);
  }
  // Where this fails, the process is gone: watchAdmitted() says so.
  if (!isWatch)
    (void)answer(guest.socket.get(), hello, Answer::Known, {});
  slot = std::move(guest.socket);
  hellos_[size_t(hello.rank)] = hello;
  answers_[{hello.rank, hello.connection}] = hello;
}

void Gathering::read(Guest &guest) {
  auto *at = reinterpret_cast<char *>(&guest.hello);
  const ssize_t got =
      recv(guest.socket.get(), at + guest.got, sizeof(Hello) - guest.got, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0)
    return guest.socket.reset();
  guest.got += size_t(got);
  if (guest.got < sizeof(Hello))
    return;
  guest.hello.member.host[sizeof guest.hello.member.host - 1] = 0;
  guest.hello.member.machine[sizeof guest.hello.member.machine - 1] = 0;
  guest.hello.traits[sizeof guest.hello.traits - 1] = 0;
  guest.hello.fault[sizeof guest.hello.fault - 1] = 0;
  consider(guest);
  guest.socket.reset();
}

/// Whoever has come and gone again will not start with the others.
void Gathering::watchAdmitted() {
  if (nowNs() < nextLook_)
    return;
  nextLook_ = nowNs() + int64_t(kLookMs) * 1'000'000;
  for (auto &[who, hello] : answers_) {
    Socket &socket = admitted_.exchange[size_t(who.first)];
    char byte = 0;
    if (who.second != Connection::Exchange || !socket ||
        recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
      continue;
    problem(memberText(who.first, hello.member) + " came and has ended before all had come");
  }
}

void Gathering::step() {
  std::vector<pollfd> entries;
  for (const Socket &listener : listeners_)
    entries.push_back({listener.get(), POLLIN, 0});
  for (const Guest &guest : guests_)
    entries.push_back({guest.socket.get(), POLLIN, 0});
  if (poll(entries.data(), entries.size(), std::min(millisecondsLeft(end_), kLookMs)) > 0) {
    for (size_t i = 0; i < guests_.size(); ++i)
      if (entries[listeners_.size() + i].revents != 0)
        read(guests_[i]);
    for (size_t i = 0; i < listeners_.size(); ++i)
      if (entries[i].revents != 0)
        for (int socket; (socket = accept4(listeners_[i].get(), nullptr, nullptr,
                                           SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
          take(Socket(socket));
  }
  std::erase_if(guests_, [](const Guest &guest) { return !guest.socket || nowNs() > guest.end; });
  watchAdmitted();
}

bool Gathering::isComplete() const { return missing().empty(); }

std::string Gathering::missing() const {
  constexpr int32_t kShown = 8;
  std::string text;
  int32_t count = 0;
  for (int32_t rank = 1; rank < place_.ranks; ++rank)
    if (!admitted_.exchange[size_t(rank)] || !admitted_.watch[size_t(rank)])
      if (++count <= kShown)
        text += (count == 1 ? "" : ", ") + std::to_string(rank);
  return count > kShown ? text + format(" and %d more", count - kShown) : text;
}

/// Empty where all hosts have as many ranks.
std::string Gathering::unequalHosts() const {
  std::map<std::string, std::pair<std::string, int32_t>> hosts;
  for (const Hello &hello : hellos_) {
    auto &[name, count] = hosts[hello.member.machine];
    name = hello.member.host;
    ++count;
  }
  const int32_t each = hosts.begin()->second.second;
  std::string list;
  bool areEqual = true;
  for (const auto &[machine, host] : hosts) {
    areEqual &= host.second == each;
    list += format("%s%d on `%s`", list.empty() ? "" : ", ", host.second, host.first.c_str());
  }
  return areEqual
             ? std::string()
             : "hosts have unequal numbers of ranks: " + list + "; start as many processes on each";
}

Status Gathering::conclude() {
  const std::string absent = missing();
  if (absent.empty() && problem_.empty() && !place_.hostsMayDiffer)
    problem_ = unequalHosts();
  if (!problem_.empty())
    return {DTILE_INVALID, "the job cannot start: " + problem_};
  if (absent.empty())
    return {};
  const bool isFew = std::count(absent.begin(), absent.end(), ',') == 0;
  std::string words = format("the job lacks %s %s: %s did not come to rank 0 (on `%s`) within %d "
                             "ms",
                             isFew ? "rank" : "ranks", absent.c_str(), isFew ? "it" : "they",
                             own_.member.host, timeoutMs_);
  if (hasStrangers_)
    words += "; processes that are no part of it came to the same port";
  if (!place_.hasSeveralHosts())
    words += "; the launcher says that all ranks are on this host";
  return {DTILE_TIMEOUT, words};
}

Status Gathering::run(Admitted *out) {
  Status status = place_.ranks > 1 ? listen() : Status();
  if (!status.ok())
    return status;
  if (!place_.fault.empty())
    problem(faultText(own_));
  while (!isComplete() && nowNs() < end_)
    step();
  status = conclude();
  listeners_.clear();
  for (const Hello &hello : hellos_)
    admitted_.members.push_back(hello.member);
  for (const auto &[who, hello] : answers_) {
    const bool isWatch = who.second == Connection::Watch;
    const int socket = (isWatch ? admitted_.watch : admitted_.exchange)[size_t(who.first)].get();
    int error = answer(socket, hello, status.ok() ? Answer::Admitted : Answer::Failed, status);
    if (error == 0 && status.ok() && !isWatch)
      error = sendAll(socket, admitted_.members.data(), int64_t(sizeof(JobMember)) * place_.ranks,
                      nowNs() + kVerdictNs);
    if (error != 0 && status.ok())
      status = {DTILE_TIMEOUT,
                memberText(who.first, hello.member) + " came and has ended before all had come"};
  }
  admitted_.session = session_;
  if (status.ok())
    *out = std::move(admitted_);
  return status;
}

} // namespace

Status admitAll(const JobPlace &place, int32_t timeoutMs, Admitted *out) {
  return Gathering(place, timeoutMs).run(out);
}

int32_t lostAfterMs(int32_t timeoutMs) {
  constexpr int32_t kLeastMs = 2'000, kMostMs = 10'000;
  return std::clamp(timeoutMs / 2, kLeastMs, kMostMs);
}

std::string meetingName(const JobPlace &place) {
  return "dtile-" + std::to_string(geteuid()) + "-" + place.name;
}

} // namespace dtile::runtime
