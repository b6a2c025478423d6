// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backend/runtime/job/handshake.h"

#include "backend/runtime/clock.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <sys/random.h>
#include <unistd.h>

namespace dtile::runtime {

namespace {

void copyText(const std::string &text, char *out, size_t bytes) {
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = 0;
}

template <typename T> std::string_view bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}

/// The value of a trait in a hello's lines; false where it has none of that name.
bool traitOf(const Hello &hello, const std::string &name, std::string *out) {
  const std::string lines(hello.traits, strnlen(hello.traits, sizeof hello.traits));
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    if (line.starts_with(name + "=")) {
      *out = line.substr(name.size() + 1);
      return true;
    }
    at = end + 1;
  }
  return false;
}

} // namespace

Nonce newNonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != ssize_t(nonce.size())) {
    // Still other than those of other processes and times.
    const int64_t seeds[2] = {nowNs(), int64_t(getpid())};
    std::memcpy(nonce.data(), seeds, nonce.size());
  }
  return nonce;
}

// Who has seen the digest of a name does not know the name.
Prover::Prover(const JobPlace &place) : key_("dtile job " + place.key + "\n" + place.name) {
  identity_ = sha256("dtile job " + place.name);
}

Digest Prover::prove(const Hello &hello, const Challenge &challenge) const {
  Hello said = hello;
  said.proof = {};
  return hmac(key_, std::string(bytesOf(said)).append(bytesOf(challenge)));
}

Digest Prover::prove(const Verdict &verdict, const Hello &hello) const {
  Verdict said = verdict;
  said.proof = {};
  return hmac(key_, std::string(bytesOf(said)).append(bytesOf(hello.nonce)));
}

JobMember ownMember() {
  JobMember member;
  char host[sizeof member.host] = "";
  if (gethostname(host, sizeof host) != 0 || !*host)
    std::snprintf(host, sizeof host, "an unnamed host");
  copyText(host, member.host, sizeof member.host);
  // Unix sockets reach as far as a network namespace of one running system does.
  char boot[40] = "", network[48] = "";
  if (FILE *file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (!std::fgets(boot, sizeof boot, file))
      boot[0] = 0;
    std::fclose(file);
  }
  boot[std::strcspn(boot, "\n")] = 0;
  const ssize_t length = readlink("/proc/self/ns/net", network, sizeof network - 1);
  network[std::max<ssize_t>(length, 0)] = 0;
  copyText(std::string(*boot ? boot : host) + " " + network, member.machine, sizeof member.machine);
  member.process = getpid();
  return member;
}

Hello helloOf(const JobPlace &place, const Prover &prover) {
  Hello hello;
  hello.rank = place.rank;
  hello.ranks = place.ranks;
  hello.localRank = place.localRank;
  hello.member = ownMember();
  if (!place.host.empty()) {
    copyText(place.host, hello.member.host, sizeof hello.member.host);
    copyText(place.host, hello.member.machine, sizeof hello.member.machine);
  }
  std::string traits;
  for (const auto &[name, value] : place.traits)
    traits += name + "=" + value + "\n";
  copyText(traits, hello.traits, sizeof hello.traits);
  copyText(place.fault, hello.fault, sizeof hello.fault);
  hello.identity = prover.identity();
  return hello;
}

std::string differenceOf(const Hello &one, const Hello &other) {
  const std::string first = memberText(one.rank, one.member);
  const std::string second = memberText(other.rank, other.member);
  if (one.ranks != other.ranks)
    return format("%s belongs to a job of %d ranks, but %s to one of %d", first.c_str(), one.ranks,
                  second.c_str(), other.ranks);
  const std::string lines(one.traits);
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const size_t equals = lines.find('=', at);
    const std::string name = lines.substr(at, equals - at);
    const std::string value = lines.substr(equals + 1, end - equals - 1);
    std::string theirs = "nothing";
    if (!traitOf(other, name, &theirs) || theirs != value)
      return format("ranks differ in %s, which must be the same in all processes of a job: %s has "
                    "`%s`, %s has `%s`",
                    name.c_str(), first.c_str(), value.c_str(), second.c_str(), theirs.c_str());
    at = end + 1;
  }
  return {};
}

bool isCutOff(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN ||
         error == EHOSTDOWN;
}

std::string lostHostText(int32_t rank, const JobMember &member, int error) {
  return memberText(rank, member) + " is lost: its host cannot be reached any more (" +
         std::strerror(error) + ")";
}

std::string memberText(int32_t rank, const JobMember &member) {
  return format("rank %d (process %lld on `%s`)", rank, static_cast<long long>(member.process),
                member.host);
}

} // namespace dtile::runtime
