// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes machine files. The reader knows what may stand where, so that it goes no deeper
// than a file does, and each message has a place.
#include "ir/machine/machine_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace dtile {
namespace {

constexpr llvm::StringLiteral kMagic = "dtile machine";
constexpr double kVersion = 1;
constexpr double kLargestSpread = 1e6;

/// `1e+06` is no number to look at.
std::string text(double number) {
  std::string made = llvm::formatv("{0:f3}", number).str();
  made.erase(made.find_last_not_of('0') + 1);
  if (made.back() == '.')
    made.pop_back();
  return made;
}

class Parser {
public:
  Parser(const SourceManager &sources, FileId file, Diagnostics &diagnostics)
      : sources_(sources), file_(file), diagnostics_(diagnostics), text_(sources.text(file)) {}

  std::optional<MachineFile> run() {
    if (!members("the file", [&](llvm::StringRef name) { return readMember(name); }))
      return std::nullopt;
    skipSpace();
    if (at_ < text_.size()) {
      fail("goes on behind its last `}`");
      return std::nullopt;
    }
    begin_ = 0;
    if (version_ == 0) {
      fail("does not begin with `\"dtile machine\": 1`");
      return std::nullopt;
    }
    if (!made_.base) {
      fail("does not name its `base`, the row of the table that has all other numbers");
      return std::nullopt;
    }
    return std::move(made_);
  }

private:
  void skipSpace() {
    while (at_ < text_.size() && llvm::StringRef(" \t\r\n").contains(text_[at_]))
      ++at_;
    begin_ = at_;
  }

  /// Of what begins at `begin_`.
  bool fail(const std::string &why) {
    const SourceLoc begin = sources_.locAt(file_, uint32_t(std::min(begin_, text_.size())));
    const SourceLoc end =
        sources_.locAt(file_, uint32_t(std::min(std::max(at_, begin_ + 1), text_.size())));
    diagnostics_.report(begin_ < text_.size() ? SourceRange{begin, end} : SourceRange{begin, begin},
                        diag::bad_machine_file, why);
    return false;
  }

  /// The next character that is no space, if it is this one.
  bool take(char wanted) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted)
      return false;
    ++at_;
    return true;
  }

  bool expect(char wanted, llvm::StringRef where) {
    if (take(wanted))
      return true;
    const std::string what = "`" + std::string(1, wanted) + "`";
    return fail(at_ >= text_.size() ? "ends where " + what + " of " + where.str() + " is missing"
                                    : "wants " + what + " here, in " + where.str());
  }

  /// A string as it stands; what is escaped in it is left so, as no name has that.
  bool readString(std::string &into, llvm::StringRef what) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != '"')
      return fail("wants a string here: " + what.str());
    size_t end = at_ + 1;
    for (; end < text_.size() && text_[end] != '"' && text_[end] != '\n'; ++end)
      if (text_[end] == '\\')
        ++end;
    if (end >= text_.size() || text_[end] != '"')
      return fail("has a string that does not end");
    into = text_.slice(at_ + 1, end).str();
    at_ = end + 1;
    return true;
  }

  bool readNumber(double &into, const std::string &what, double least, double most) {
    skipSpace();
    const llvm::StringRef number = text_.substr(at_).take_while(
        [](char c) { return llvm::isDigit(c) || llvm::StringRef("+-.eE").contains(c); });
    if (number.empty() || !(llvm::isDigit(number[0]) || number[0] == '-') ||
        number.getAsDouble(into) || !std::isfinite(into))
      return fail("wants a number for " + what);
    at_ += number.size();
    if (into >= least && into <= most)
      return true;
    return fail("has " + number.str() + " for " + what + ", which is from " + text(least) + " to " +
                text(most));
  }

  /// The members of an object; `read` takes the value of each.
  bool members(llvm::StringRef where, llvm::function_ref<bool(llvm::StringRef)> read) {
    if (!expect('{', where))
      return false;
    std::vector<std::string> seen;
    while (!take('}')) {
      if (!seen.empty() && !expect(',', where))
        return false;
      std::string name;
      if (!readString(name, ("a name of " + where).str()))
        return false;
      if (llvm::is_contained(seen, name))
        return fail("says twice what `" + name + "` is");
      seen.push_back(name);
      // Messages about a name point at it.
      const size_t begin = begin_, end = at_;
      if (!expect(':', where))
        return false;
      begin_ = begin;
      valueAt_ = at_;
      at_ = end;
      if (!read(name))
        return false;
    }
    return true;
  }

  /// The name was fine: what follows is its value.
  void goToValue() { at_ = begin_ = valueAt_; }

  bool readMember(llvm::StringRef name) {
    if (version_ == 0 && name != kMagic)
      return fail("does not begin with `\"dtile machine\": 1`");
    if (name == kMagic) {
      goToValue();
      if (!readNumber(version_, "its version", 1, 1e9))
        return false;
      return version_ == kVersion || fail("is of version " + text(version_) +
                                          ", and this dtilec reads version " + text(kVersion));
    }
    if (name == "fields") {
      goToValue();
      return members("`fields`", [&](llvm::StringRef field) { return readField(field); });
    }
    if (name == "base")
      return readBase();
    for (const auto &[known, into] :
         {std::pair<llvm::StringRef, std::string *>{"dtilec", &made_.dtilec},
          {"device", &made_.device},
          {"date", &made_.date}})
      if (name == known) {
        goToValue();
        return readString(*into, ("what `" + known + "` is").str());
      }
    return fail("has no `" + name.str() + "`; there is dtilec, device, date, base and fields");
  }

  bool readBase() {
    goToValue();
    std::string name;
    if (!readString(name, "a row of the table of machines"))
      return false;
    made_.base = findMachine(name);
    std::vector<std::string> names;
    for (const TargetFacts &machine : allMachines())
      names.push_back(machine.name.str());
    return made_.base || fail("is based on `" + name + "`, which is no machine of the table; " +
                              "there is " + llvm::join(names, ", "));
  }

  bool readField(llvm::StringRef name) {
    MeasuredNumber made;
    made.field = findTimingField(name);
    if (!made.field)
      return fail("has no field `" + name.str() + "`; docs/calibrate.md lists them");
    const size_t begin = begin_, end = at_;
    bool hasValue = false, hasUnit = false;
    goToValue();
    const std::string what = "`" + name.str() + "`";
    const auto part = [&](llvm::StringRef key) {
      if (key == "value") {
        goToValue();
        hasValue = true;
        return readNumber(made.value, what, made.field->least, made.field->most);
      }
      if (key == "spread") {
        goToValue();
        return readNumber(made.spread, "the spread of " + what, 0, kLargestSpread);
      }
      if (key != "unit")
        return fail("has no `" + key.str() + "` in " + what + "; there is value, unit and spread");
      goToValue();
      hasUnit = true;
      std::string unit;
      if (!readString(unit, "the unit of " + what))
        return false;
      return unit == made.field->unit || fail("gives " + what + " in `" + unit +
                                              "`, and it is in `" + made.field->unit.str() + "`");
    };
    if (!members(what, part))
      return false;
    if (!hasValue || !hasUnit) {
      begin_ = begin;
      at_ = end;
      return fail("wants `value` and `unit` for " + what);
    }
    made_.numbers.push_back(made);
    return true;
  }

  const SourceManager &sources_;
  FileId file_;
  Diagnostics &diagnostics_;
  llvm::StringRef text_;
  size_t at_ = 0, begin_ = 0, valueAt_ = 0;
  double version_ = 0;
  MachineFile made_;
};

} // namespace

TargetFacts MachineFile::facts() const {
  TargetFacts made = *base;
  for (const MeasuredNumber &number : numbers)
    made.timing.*number.field->number = number.value;
  return made;
}

std::optional<MachineFile> parseMachineFile(const SourceManager &sources, FileId file,
                                            Diagnostics &diagnostics) {
  return Parser(sources, file, diagnostics).run();
}

std::string machineFileText(const MachineFile &file) {
  const auto quoted = [](const std::string &text) {
    return llvm::formatv("{0}", llvm::json::Value(llvm::json::fixUTF8(text))).str();
  };
  std::string made = "{\n  \"" + kMagic.str() + "\": " + text(kVersion) + ",\n";
  for (const auto &[name, value] : {std::pair<const char *, std::string>{"dtilec", file.dtilec},
                                    {"device", file.device},
                                    {"date", file.date},
                                    {"base", file.base->name.str()}})
    made += std::string("  \"") + name + "\": " + quoted(value) + ",\n";
  made += "  \"fields\": {";
  for (const MeasuredNumber &number : file.numbers)
    made += llvm::formatv("{0}\n    \"{1}\": {{\"value\": {2}, \"unit\": \"{3}\", \"spread\": {4}}",
                          &number == file.numbers.data() ? "" : ",", number.field->name,
                          text(number.value), number.field->unit, text(number.spread))
                .str();
  return made + "\n  }\n}\n";
}

} // namespace dtile
