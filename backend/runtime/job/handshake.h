// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages by which a process is admitted to its job. Rank 0 challenges, the other one says
// who it is, rank 0 says that it knows the process and, once all have come, gives its verdict. All
// but the challenge carry a digest under the job's key over the random numbers of both, so that
// none can be played back.
#pragma once

#include "backend/runtime/job/admission.h"
#include "backend/runtime/job/digest.h"

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace dtile::runtime {

constexpr char kJobMagic[8] = {'d', 't', 'i', 'l', 'e', 'j', 'o', 'b'};
constexpr uint32_t kJobProtocol = 3;
using Nonce = std::array<uint8_t, 16>;

enum class Connection : int32_t { Exchange, Watch };

struct Challenge {
  char magic[8] = {};
  uint32_t protocol = 0, bytes = 0;
  Nonce nonce = {};
};

struct Hello {
  int32_t rank = -1, ranks = 0, localRank = 0;
  Connection connection = Connection::Exchange;
  JobMember member;
  /// A line a trait, `NAME=VALUE`.
  char traits[1024] = {};
  /// Why the process cannot take part; empty where it can.
  char fault[1024] = {};
  Nonce nonce = {};
  /// Of the job's name.
  Digest identity = {};
  Digest proof = {};
};

enum class Answer : int32_t {
  Admitted,
  /// The job cannot start; the words say why.
  Failed,
  /// Another job's rank 0, or one with another key.
  NotOurs,
  /// To an exchange connection at once: it is of this job, and the verdict follows.
  Known
};

struct Verdict {
  Answer answer = Answer::NotOurs;
  dtile_status code = DTILE_OK;
  uint64_t session = 0;
  char words[2048] = {};
  Digest proof = {};
};

// What is proved has no padding.
static_assert(std::has_unique_object_representations_v<Challenge> &&
              std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Verdict>);

Nonce newNonce();
/// Of a job with a name and a key.
class Prover {
public:
  explicit Prover(const JobPlace &place);
  [[nodiscard]] const Digest &identity() const { return identity_; }
  [[nodiscard]] Digest prove(const Hello &hello, const Challenge &challenge) const;
  [[nodiscard]] Digest prove(const Verdict &verdict, const Hello &hello) const;

private:
  std::string key_;
  Digest identity_;
};

/// This process, and where it runs.
JobMember ownMember();
/// What this process says of itself.
Hello helloOf(const JobPlace &place, const Prover &prover);
/// Why two processes do not fit together: empty where they do.
std::string differenceOf(const Hello &one, const Hello &other);

} // namespace dtile::runtime
