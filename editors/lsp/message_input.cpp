// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits a stream of bytes into messages, and sorts out those that are none.
#include "editors/lsp/message_input.h"

#include "llvm/Support/FormatVariadic.h"

#include <cerrno>
#include <poll.h>
#include <unistd.h>

namespace dtile::lsp {

namespace {

using llvm::lsp::ErrorCode;

// Headers are a few lines; what has no end within so many bytes is none.
constexpr size_t kMaxHeaderBytes = 8192;
// The parser of JSON recurses.
constexpr unsigned kMaxDepth = 128;
constexpr size_t kBytesAtOnce = size_t(1) << 16;

// Whether brackets nest at most kMaxDepth deep.
bool isShallow(llvm::StringRef json) {
  unsigned depth = 0;
  bool isText = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (isText) {
      if (c == '\\')
        ++i;
      else
        isText = c != '"';
    } else if (c == '"') {
      isText = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth)
        return false;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return true;
}

// The end of the header that a text begins with, after its empty line; npos where it has not come.
size_t headerEnd(llvm::StringRef text) {
  const size_t end = text.find("\r\n\r\n");
  const size_t bare = text.find("\n\n");
  if (bare < end)
    return bare + 2;
  return end == llvm::StringRef::npos ? end : end + 4;
}

// The length that a header states. What is left of a message that was longer than it said stands
// before the name, on the same line.
std::optional<size_t> contentLength(llvm::StringRef header) {
  while (!header.empty()) {
    auto [line, rest] = header.split('\n');
    header = rest;
    auto [name, value] = line.rsplit(':');
    size_t length = 0;
    if (name.trim().ends_with_insensitive("content-length") &&
        !value.trim().getAsInteger(10, length))
      return length;
  }
  return std::nullopt;
}

} // namespace

llvm::LogicalResult MessageInput::readDelimitedMessage(std::string &json) {
  return readStandardMessage(json);
}

llvm::LogicalResult MessageInput::readStandardMessage(std::string &json) {
  while (!isEnd_) {
    const Found found = takeMessage(json);
    if (found == Found::Message)
      return llvm::success();
    if (found == Found::Nothing)
      fill();
  }
  return llvm::failure();
}

MessageInput::Found MessageInput::takeMessage(std::string &json) {
  llvm::StringRef rest = llvm::StringRef(buffer_).substr(taken_);
  if (toSkip_ != 0) {
    const size_t skipped = std::min(toSkip_, rest.size());
    toSkip_ -= skipped;
    taken_ += skipped;
    return toSkip_ == 0 ? Found::More : Found::Nothing;
  }
  const size_t bodyStart = headerEnd(rest.take_front(kMaxHeaderBytes));
  if (bodyStart == llvm::StringRef::npos) {
    if (rest.size() < kMaxHeaderBytes)
      return Found::Nothing;
    skipHeader(kMaxHeaderBytes, "the header of a message has no end");
    return Found::More;
  }
  const std::optional<size_t> length = contentLength(rest.take_front(bodyStart));
  if (!length) {
    skipHeader(bodyStart, "the header of a message has no Content-Length");
    return Found::More;
  }
  if (*length > kMaxMessageBytes) {
    skipHeader(bodyStart, "a message is too large");
    toSkip_ = *length;
    return Found::More;
  }
  if (rest.size() - bodyStart < *length)
    return Found::Nothing;
  json = rest.substr(bodyStart, *length).str();
  taken_ += bodyStart + *length;
  return isFine(json) ? Found::Message : Found::More;
}

void MessageInput::skipHeader(size_t length, llvm::StringRef why) {
  hooks_.answer(nullptr, {ErrorCode::ParseError, why.str()});
  taken_ += length;
}

bool MessageInput::isFine(std::string &json) {
  auto refuse = [&](llvm::json::Value id, ErrorCode code, std::string why) {
    hooks_.answer(std::move(id), {code, std::move(why)});
    return false;
  };
  if (!isShallow(json))
    return refuse(nullptr, ErrorCode::ParseError, "a message nests too deeply");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(json);
  if (!value)
    return refuse(nullptr, ErrorCode::ParseError, llvm::toString(value.takeError()));
  llvm::json::Object *object = value->getAsObject();
  if (!object)
    return refuse(nullptr, ErrorCode::InvalidRequest, "a message is an object");
  const llvm::json::Value *given = object->get("id");
  const bool hasId = given && (given->getAsString() || given->getAsInteger());
  const llvm::json::Value id = hasId ? *given : llvm::json::Value(nullptr);
  if (object->getString("jsonrpc") != llvm::StringRef("2.0"))
    return refuse(id, ErrorCode::InvalidRequest, "a message says \"jsonrpc\": \"2.0\"");
  if (given && !hasId)
    return refuse(id, ErrorCode::InvalidRequest, "an id is a number or a string");
  if (!object->getString("method") && !hasId)
    return refuse(id, ErrorCode::InvalidRequest, "a message has a method or an id");
  if (const std::optional<Refusal> refusal = hooks_.refuse(*object)) {
    if (refusal->code && hasId)
      hooks_.answer(id, *refusal);
    return false;
  }
  if (hooks_.rewrite(*object))
    json = llvm::formatv("{0}", *value);
  return true;
}

void MessageInput::fill() {
  // What was read stays at the front only as long as it is small.
  buffer_.erase(0, taken_);
  taken_ = 0;
  if (buffer_.empty() && buffer_.capacity() > (size_t(8) << 20))
    buffer_.shrink_to_fit();
  int wait = 0;
  while (true) {
    pollfd sources[] = {{descriptor_, POLLIN, 0}, {other_, POLLIN, 0}};
    const int ready = ::poll(sources, 2, wait);
    if (ready < 0 && errno != EINTR) {
      hasError_ = isEnd_ = true;
      return;
    }
    if (ready > 0 && sources[0].revents != 0)
      break;
    wait = hooks_.idle();
  }
  const size_t size = buffer_.size();
  buffer_.resize(size + kBytesAtOnce);
  ssize_t count = 0;
  do
    count = ::read(descriptor_, buffer_.data() + size, kBytesAtOnce);
  while (count < 0 && errno == EINTR);
  buffer_.resize(size + size_t(std::max<ssize_t>(count, 0)));
  hasError_ = count < 0;
  isEnd_ = count <= 0;
}

} // namespace dtile::lsp
