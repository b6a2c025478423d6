// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds values from nlohmann-json's events. The parser reads from an iterator that counts, so each
// event knows how far the text was read, and a value begins after what stood before it.
#include "frontend/import/json.h"

#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

namespace dtile::imported {

namespace {

constexpr size_t kMaxDepth = 32;

// A forward iterator over bytes that leaves its position behind.
class CountingIterator {
public:
  // The names of std::iterator_traits. NOLINTBEGIN(readability-identifier-naming)
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char *;
  using reference = const char &;
  using iterator_category = std::forward_iterator_tag;
  // NOLINTEND(readability-identifier-naming)

  CountingIterator() = default;
  CountingIterator(const char *at, const char **reached) : at_(at), reached_(reached) {}

  reference operator*() const { return *at_; }
  CountingIterator &operator++() {
    ++at_;
    if (*reached_ < at_)
      *reached_ = at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator &a, const CountingIterator &b) {
    return a.at_ == b.at_;
  }

private:
  const char *at_ = nullptr;
  const char **reached_ = nullptr;
};

class Builder : public nlohmann::json_sax<nlohmann::json> {
public:
  Builder(Reader &reader, llvm::StringRef text, const char *const &reached)
      : reader_(reader), text_(text), reached_(reached) {}

  JsonValue root;

  bool null() override { return add({.kind = JsonValue::Kind::Null}); }
  bool boolean(bool value) override { return add({.kind = JsonValue::Kind::Bool, .truth = value}); }
  bool number_integer(number_integer_t value) override {
    return add({.kind = JsonValue::Kind::Integer, .integer = value}, /*isNumber=*/true);
  }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= uint64_t(INT64_MAX);
    return add({.kind = fits ? JsonValue::Kind::Integer : JsonValue::Kind::Number,
                .integer = fits ? int64_t(value) : 0},
               /*isNumber=*/true);
  }
  bool number_float(number_float_t /*value*/, const string_t & /*text*/) override {
    return add({.kind = JsonValue::Kind::Number}, /*isNumber=*/true);
  }
  bool string(string_t &value) override {
    return add({.kind = JsonValue::Kind::String, .text = std::move(value)});
  }
  bool binary(binary_t & /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(JsonValue::Kind::Object); }
  bool start_array(size_t /*size*/) override { return open(JsonValue::Kind::Array); }
  bool key(string_t &name) override {
    read_ = offset();
    open_.back()->members.push_back({.name = std::move(name), .value = {}});
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t /*position*/, const std::string & /*token*/,
                   const nlohmann::detail::exception &error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what is wrong".
    const llvm::StringRef said = error.what();
    const size_t colon = said.find(": ");
    return refuse(colon == llvm::StringRef::npos ? said : said.drop_front(colon + 2));
  }

private:
  Reader &reader_;
  llvm::StringRef text_;
  const char *const &reached_;
  /// Up to here the text belongs to values before the next one.
  size_t read_ = 0;
  std::vector<JsonValue *> open_;

  [[nodiscard]] size_t offset() const { return size_t(reached_ - text_.data()); }

  bool refuse(llvm::StringRef reason) {
    const size_t end = std::min(offset(), text_.size());
    const size_t begin = end == 0 ? 0 : end - 1;
    reader_.diags.report(reader_.range(begin, end), diag::import_malformed, "JSON", reason);
    return false;
  }

  // The place of a value that was just read; a number is known to end by what follows it.
  SourceRange place(bool isNumber) {
    size_t begin = read_;
    while (begin < text_.size() && llvm::StringRef(" \t\r\n,:").contains(text_[begin]))
      ++begin;
    size_t end = std::max(offset(), begin);
    if (isNumber)
      while (end > begin && !llvm::isAlnum(text_[std::min(end, text_.size()) - 1]))
        --end;
    read_ = end;
    return reader_.range(begin, std::min(end, text_.size()));
  }

  JsonValue *put(JsonValue value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    JsonValue &outer = *open_.back();
    if (outer.kind == JsonValue::Kind::Array)
      return &outer.items.emplace_back(std::move(value));
    outer.members.back().value = std::move(value);
    return &outer.members.back().value;
  }

  bool add(JsonValue value, bool isNumber = false) {
    value.place = place(isNumber);
    put(std::move(value));
    return true;
  }

  bool open(JsonValue::Kind kind) {
    if (open_.size() == kMaxDepth)
      return refuse("values are nested too deeply");
    JsonValue value{.kind = kind};
    value.place = place(/*isNumber=*/false);
    // Only the last open value gets more of its own, so pointers to the others stay valid.
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    read_ = offset();
    open_.pop_back();
    return true;
  }
};

} // namespace

const JsonValue *JsonValue::member(llvm::StringRef name) const {
  for (const auto &[key, value] : members)
    if (key == name)
      return &value;
  return nullptr;
}

std::optional<JsonValue> readJson(Reader &reader) {
  const llvm::StringRef text = reader.sources.text(reader.file);
  const char *reached = text.data();
  Builder builder(reader, text, reached);
  if (!nlohmann::json::sax_parse(CountingIterator(text.begin(), &reached),
                                 CountingIterator(text.end(), &reached), &builder))
    return std::nullopt;
  return std::move(builder.root);
}

} // namespace dtile::imported
