// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of a client from a file descriptor, and the loop that waits for them.
#pragma once

#include "llvm/Support/JSON.h"
#include "llvm/Support/LSP/Transport.h"

#include <functional>
#include <optional>
#include <string>

namespace dtile::lsp {

/// Why a message is not handled, as the protocol tells it; no code for one that is dropped.
struct Refusal {
  std::optional<llvm::lsp::ErrorCode> code;
  std::string message;
};

/// What the loop asks its owner.
struct InputHooks {
  /// Changes a message to what the transport can read; whether it did.
  std::function<bool(llvm::json::Object &message)> rewrite;
  /// Whether a message that is well formed may be handled now.
  std::function<std::optional<Refusal>(const llvm::json::Object &message)> refuse;
  /// Answers a message that is not handled. `id` is null where it has none that can be read.
  std::function<void(llvm::json::Value id, const Refusal &refusal)> answer;
  /// Called when no message is there: does one piece of what is pending. Gives the milliseconds
  /// until it wants to be called again, 0 for at once, and -1 where nothing is pending.
  std::function<int()> idle;
};

/// Reads messages with their headers. What is malformed is answered and skipped, so that the
/// transport, which ends at a message of another kind, sees only requests, notifications and
/// replies.
class MessageInput : public llvm::lsp::JSONTransportInput {
public:
  MessageInput(int descriptor, InputHooks hooks)
      : descriptor_(descriptor), hooks_(std::move(hooks)) {}

  /// The largest message, in bytes: a file of the largest size, with every character escaped.
  static constexpr size_t kMaxMessageBytes = size_t(400) << 20;

  bool hasError() const override { return hasError_; }
  bool isEndOfInput() const override { return isEnd_; }
  llvm::LogicalResult readStandardMessage(std::string &json) override;
  llvm::LogicalResult readDelimitedMessage(std::string &json) override;

  /// Lets the loop call `idle`, too, when there is something to read at another descriptor; -1 for
  /// none.
  void watch(int other) { other_ = other; }

private:
  enum class Found : uint8_t { Message, Nothing, More };
  Found takeMessage(std::string &json);
  void skipHeader(size_t length, llvm::StringRef why);
  [[nodiscard]] bool isFine(std::string &json);
  /// Waits until there are bytes, doing what is pending meanwhile.
  void fill();

  int descriptor_;
  int other_ = -1;
  InputHooks hooks_;
  std::string buffer_;
  size_t taken_ = 0;
  /// Bytes of a message that is too large, still to come.
  size_t toSkip_ = 0;
  bool hasError_ = false;
  bool isEnd_ = false;
};

} // namespace dtile::lsp
