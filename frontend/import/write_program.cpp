// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes an algorithm as a kernel: a role for each thread block, whose bodies take blocks of all
// chunks. What a file orders by connections, dependencies and channels is ordered by signals, and
// nothing else is, so that the checker sees what the file's order is worth.
//
// Ranks whose blocks do the same share a text, with expressions in the rank; steps that repeat
// become a loop.
#include "frontend/import/algorithm.h"
#include "frontend/import/closed_forms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

#include <map>
#include <optional>
#include <set>

namespace dtile::imported {

namespace {

constexpr const char *kSignals[kEventKinds] = {"sent", "passed", "signalled", "met", "packed"};
constexpr size_t kBuffers = 4;

// A step of one rank, as a pattern and the numbers that may differ between ranks and turns.
struct Numbers {
  /// What must be equal for two steps to be one text.
  std::string pattern;
  /// Ranks of peers, and indices, in the order in which `stepText` takes them.
  std::vector<int64_t> values;
};

using Expressions = std::vector<std::string>;

// How a collective is named in contracts.
std::string contract(const Algorithm &algorithm) {
  switch (algorithm.collective) {
  case Collective::AllReduce:
    return "all_reduce(x)";
  case Collective::AllGather:
    return "all_gather(x)";
  case Collective::ReduceScatter:
    return "reduce_scatter(x)";
  case Collective::AllToAll:
    return "all_to_all(x)";
  case Collective::Broadcast:
    return "from_rank(x, " + std::to_string(algorithm.root) + ")";
  }
  return "";
}

std::string printable(llvm::StringRef text) {
  constexpr size_t kLongest = 60;
  std::string result;
  for (const char c : text.take_front(kLongest))
    result += llvm::isPrint(c) && c != '`' ? c : '?';
  return result;
}

class ProgramWriter {
public:
  explicit ProgramWriter(const Algorithm &algorithm) : a_(algorithm) {
    for (const ThreadBlock &block : a_.blocks)
      for (const Step &step : block.steps) {
        for (const Region &region : step.sources)
          use(region, block.rank, reads_);
        for (const Region &region : step.targets)
          use(region, block.rank, writes_);
      }
    for (const Event &event : a_.events)
      if (event.index >= 0) {
        int64_t &cells = cells_[size_t(event.kind)];
        cells = std::max(cells, event.index + event.count);
      }
    moduli_ = {a_.ranks, a_.inputChunks, a_.outputChunks};
    // Groups of ranks, as hosts have.
    for (int64_t group = 2; group < a_.ranks; ++group)
      if (a_.ranks % group == 0)
        moduli_.insert(group);
    moduli_.erase(1);
  }

  std::string write() {
    const std::string roles = writeRoles();
    out_ = head();
    out_ += "requires W == " + std::to_string(a_.ranks) + ";\n";
    if (usesRank_)
      out_ += "let r = rank();\n";
    out_ += roles;
    out_ += "ensures y ~= " + contract(a_) + ";\n}\n\n";
    out_ += "test \"" + name_ + " gives what it should\" ranks (" + std::to_string(a_.ranks) +
            ") {\n    let x = random<f32>[" + std::to_string(a_.inputChunks) +
            ", 1000](seed: rank());\n    expect " + name_ + "(x) ~= " + contract(a_) + ";\n}\n";
    return out_;
  }

private:
  const Algorithm &a_;
  const std::string name_ = imported::nameOf(a_);
  std::string out_;
  bool reads_[kBuffers] = {};
  bool writes_[kBuffers] = {};
  bool isRemote_[kBuffers] = {};
  int64_t cells_[kEventKinds] = {};
  std::set<int64_t> moduli_;
  bool usesRank_ = false;
  /// Names of values that the role has so far.
  size_t names_ = 0;

  void use(const Region &region, int rank, bool (&how)[kBuffers]) {
    how[size_t(region.buffer)] = true;
    if (region.rank != rank)
      isRemote_[size_t(region.buffer)] = true;
  }

  // The caller's input serves as a buffer where nobody writes it, and no peer reads it; the output,
  // where it is only written, and by its own rank.
  [[nodiscard]] bool isCopied(Buffer buffer) const {
    const auto i = size_t(buffer);
    if (a_.inPlace)
      return buffer == whole();
    return buffer == Buffer::Input ? writes_[i] || isRemote_[i] : reads_[i] || isRemote_[i];
  }

  // The one buffer of an algorithm in place.
  [[nodiscard]] Buffer whole() const {
    return a_.collective == Collective::AllGather ? Buffer::Output : Buffer::Input;
  }
  [[nodiscard]] bool isLoaded() const { return a_.inPlace || isCopied(Buffer::Input); }
  [[nodiscard]] bool isStored() const { return a_.inPlace || isCopied(Buffer::Output); }

  [[nodiscard]] const char *nameOf(Buffer buffer) const {
    switch (buffer) {
    case Buffer::Input:
      return a_.inPlace ? "buf" : isCopied(buffer) ? "given" : "x";
    case Buffer::Output:
      return a_.inPlace ? "buf" : isCopied(buffer) ? "made" : "y";
    case Buffer::Scratch:
      return "work";
    case Buffer::Box:
      return "box";
    }
    return "";
  }

  static std::string tensor(const std::string &mode, int64_t chunks) {
    return mode + " T[" + std::to_string(chunks) + ", N]";
  }

  std::string head() {
    std::string text = "//! Algorithm `" + printable(a_.name) + "`, imported from " + a_.format +
                       " for " + std::to_string(a_.ranks) + (a_.ranks == 1 ? " rank" : " ranks") +
                       (a_.inPlace ? ", in place" : "") + ".\n";
    text += "//! A role is a thread block, a row of x and y a chunk. Only what the file orders is "
            "ordered.\n\n";
    text += "kernel " + name_ + "<T: dtype = f32, B = 1024>(\n";
    std::vector<std::pair<std::string, std::string>> parameters = {
        {"x", tensor("in ", a_.inputChunks)}, {"y", tensor("out", a_.outputChunks)}};
    const auto object = [&](const std::string &name, int64_t chunks) {
      parameters.emplace_back(name, tensor("scratch symm", chunks));
    };
    if (a_.inPlace)
      object("buf", std::max(a_.inputChunks, a_.outputChunks));
    else if (isCopied(Buffer::Input))
      object(nameOf(Buffer::Input), a_.inputChunks);
    if (!a_.inPlace && isCopied(Buffer::Output))
      object(nameOf(Buffer::Output), a_.outputChunks);
    if (reads_[size_t(Buffer::Scratch)] || writes_[size_t(Buffer::Scratch)])
      object("work", a_.scratchChunks);
    if (cells_[size_t(EventKind::Sent)] != 0)
      object("box", cells_[size_t(EventKind::Sent)]);
    if (isLoaded())
      parameters.emplace_back("loaded", "symm signal[blocks(N, B)]");
    for (size_t kind = 0; kind < kEventKinds; ++kind)
      if (cells_[kind] != 0)
        parameters.emplace_back(kSignals[kind],
                                "symm signal[" + std::to_string(cells_[kind]) + ", blocks(N, B)]");
    if (isStored())
      parameters.emplace_back("finished", "symm signal[blocks(N, B)]");
    for (const auto &[name, type] : parameters)
      text += "    " + name + ": " + type + ",\n";
    return text + ") {\n";
  }

  std::string writeRoles() {
    std::string text;
    if (isLoaded()) {
      std::string at = ":";
      if (a_.inPlace && a_.collective == Collective::AllGather) {
        at = rows("r", a_.inputChunks);
        if (a_.inputChunks != 1)
          at = rows(std::to_string(a_.inputChunks) + " * r", a_.inputChunks);
        usesRank_ = true;
      }
      const std::string to = a_.inPlace ? "buf" : nameOf(Buffer::Input);
      text += "role load over (n in N by B) { notify(loaded[n.index], after: put(" +
              std::string(at.find("..") == std::string::npos && at != ":" ? "x[0, n]" : "x[:, n]") +
              ", " + to + "[" + at + ", n])); }\n";
    }
    // Blocks at the same place of their ranks are one role.
    std::map<size_t, std::vector<const ThreadBlock *>> roles;
    size_t place = 0;
    for (size_t i = 0; i < a_.blocks.size(); ++i) {
      place = i > 0 && a_.blocks[i - 1].rank == a_.blocks[i].rank ? place : 0;
      if (a_.blocks[i].steps.empty())
        continue;
      roles[place++].push_back(&a_.blocks[i]);
    }
    for (const auto &[number, blocks] : roles)
      text += writeRole(number, blocks);
    if (isStored()) {
      std::string from = ":";
      if (a_.inPlace && a_.collective == Collective::ReduceScatter) {
        from = rows("r", a_.outputChunks);
        if (a_.outputChunks != 1)
          from = rows(std::to_string(a_.outputChunks) + " * r", a_.outputChunks);
        usesRank_ = true;
      }
      const std::string of = a_.inPlace ? "buf" : nameOf(Buffer::Output);
      text += "role store over (n in N by B) {\nawait wait(finished[n.index]);\nawait put(" + of +
              "[" + from + ", n], " +
              (from.find("..") == std::string::npos && from != ":" ? "y[0, n]" : "y[:, n]") +
              ");\n}\n";
    }
    return text;
  }

  static std::string rows(const std::string &first, int64_t count) {
    if (count == 1)
      return first;
    int64_t number = 0;
    if (!llvm::StringRef(first).getAsInteger(10, number))
      return first + ".." + std::to_string(number + count);
    return first + ".." + first + " + " + std::to_string(count);
  }

  std::string writeRole(size_t number, llvm::ArrayRef<const ThreadBlock *> blocks) {
    std::string text = "role tb" + std::to_string(number) + " over (n in N by B) {\n";
    names_ = 0;
    if (isLoaded())
      text += "await wait(loaded[n.index]);\n";
    // Ranks with the same pattern, in the order of their first one.
    std::vector<std::pair<std::string, std::vector<const ThreadBlock *>>> groups;
    for (const ThreadBlock *block : blocks) {
      std::string pattern;
      for (const Step &step : block->steps)
        pattern += numbersOf(step, block->rank).pattern + "|";
      const auto group = llvm::find_if(groups, [&](const auto &g) { return g.first == pattern; });
      if (group == groups.end())
        groups.push_back({pattern, {block}});
      else
        group->second.push_back(block);
    }
    const bool isEveryone = int64_t(blocks.size()) == a_.ranks;
    const std::string end = isStored() ? "notify(finished[n.index]);\n" : "";
    if (isEveryone && groups.size() == 1)
      return text + writeGroup(groups.front().second) + end + "}\n";
    usesRank_ = true;
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<int64_t> ranks;
      for (const ThreadBlock *block : groups[i].second)
        ranks.push_back(block->rank);
      text += i == 0 ? "" : " else ";
      if (!isEveryone || i + 1 < groups.size())
        text += "if " + rankCondition(ranks, a_.ranks) + " ";
      text += "{\n" + writeGroup(groups[i].second) + (isEveryone ? "" : end) + "}";
    }
    return text + "\n" + (isEveryone ? end : "") + "}\n";
  }

  // What blocks with one pattern do, one block a rank.
  std::string writeGroup(llvm::ArrayRef<const ThreadBlock *> blocks) {
    // [step][block]
    std::vector<std::vector<Numbers>> numbers(blocks.front()->steps.size());
    for (size_t s = 0; s < numbers.size(); ++s)
      for (const ThreadBlock *block : blocks)
        numbers[s].push_back(numbersOf(block->steps[s], block->rank));
    std::string text;
    for (size_t s = 0; s < numbers.size();) {
      const Loop loop = findLoop(blocks, numbers, s);
      const bool isLoop = loop.turns > 1;
      if (isLoop)
        text += "for i in 0.." + std::to_string(loop.turns) + " {\n";
      for (size_t inner = 0; inner < loop.length; ++inner)
        text += stepText(blocks.front()->steps[s + inner], blocks.front()->rank,
                         loop.expressions[inner]);
      if (isLoop)
        text += "}\n";
      s += loop.length * loop.turns;
    }
    return text;
  }

  // `turns` times `length` steps, with the expressions of each.
  struct Loop {
    size_t length = 1;
    size_t turns = 1;
    std::vector<Expressions> expressions;
  };

  // The loop from step `s` on that covers most steps; a single step where there is none.
  Loop findLoop(llvm::ArrayRef<const ThreadBlock *> blocks,
                llvm::ArrayRef<std::vector<Numbers>> numbers, size_t s) {
    constexpr size_t kLongestBody = 8;
    Loop best;
    const size_t left = numbers.size() - s;
    for (size_t length = 1; length <= std::min(kLongestBody, left / 2); ++length) {
      size_t turns = 1;
      while ((turns + 1) * length <= left && repeats(numbers, s, length, turns))
        ++turns;
      for (; turns > 1 && turns * length > best.turns * best.length; --turns)
        if (auto expressions = loopExpressions(blocks, numbers, s, length, turns)) {
          best = {.length = length, .turns = turns, .expressions = std::move(*expressions)};
          break;
        }
    }
    // Two single steps are as short without a loop.
    if (best.turns == 1 || (best.length == 1 && best.turns == 2)) {
      best = {.length = 1, .turns = 1, .expressions = {}};
      best.expressions.push_back(stepExpressions(blocks, numbers[s]));
    }
    return best;
  }

  static bool repeats(llvm::ArrayRef<std::vector<Numbers>> numbers, size_t s, size_t length,
                      size_t turn) {
    return llvm::all_of(llvm::seq<size_t>(0, length), [&](size_t i) {
      return numbers[s + i].front().pattern == numbers[s + turn * length + i].front().pattern;
    });
  }

  std::optional<std::vector<Expressions>>
  loopExpressions(llvm::ArrayRef<const ThreadBlock *> blocks,
                  llvm::ArrayRef<std::vector<Numbers>> numbers, size_t s, size_t length,
                  size_t turns) {
    std::vector<Expressions> result(length);
    for (size_t inner = 0; inner < length; ++inner)
      for (size_t v = 0; v < numbers[s + inner].front().values.size(); ++v) {
        std::vector<Point> points;
        for (size_t turn = 0; turn < turns; ++turn)
          for (size_t b = 0; b < blocks.size(); ++b)
            points.push_back({.rank = blocks[b]->rank,
                              .turn = int64_t(turn),
                              .value = numbers[s + turn * length + inner][b].values[v]});
        auto form = closedForm(points, std::vector(moduli_.begin(), moduli_.end()));
        if (!form)
          return std::nullopt;
        result[inner].push_back(std::move(*form));
      }
    return result;
  }

  Expressions stepExpressions(llvm::ArrayRef<const ThreadBlock *> blocks,
                              llvm::ArrayRef<Numbers> numbers) {
    Expressions result;
    for (size_t v = 0; v < numbers.front().values.size(); ++v) {
      std::vector<Point> points;
      for (size_t b = 0; b < blocks.size(); ++b)
        points.push_back({.rank = blocks[b]->rank, .turn = 0, .value = numbers[b].values[v]});
      const auto form = closedForm(points, std::vector(moduli_.begin(), moduli_.end()));
      result.push_back(form ? *form : tableForm(points, a_.ranks));
    }
    return result;
  }

  // Events that nobody waits for have no cell.
  [[nodiscard]] bool hasCell(int event) const { return a_.events[size_t(event)].index >= 0; }

  Numbers numbersOf(const Step &step, int rank) const {
    Numbers n;
    const auto place = [&](int of) {
      n.pattern += of == rank ? "l" : "@";
      if (of != rank)
        n.values.push_back(of);
    };
    const auto region = [&](const Region &r) {
      n.pattern += std::to_string(int(r.buffer)) + "x" + std::to_string(r.count);
      place(r.rank);
      n.values.push_back(r.event >= 0 ? a_.events[size_t(r.event)].index : r.index);
    };
    const auto event = [&](int number) {
      const Event &e = a_.events[size_t(number)];
      n.pattern += std::to_string(int(e.kind));
      place(e.rank);
      n.values.push_back(e.index);
    };
    for (const int wait : step.waits)
      event(wait);
    n.pattern += "=";
    llvm::for_each(step.sources, region);
    n.pattern += ">";
    llvm::for_each(step.targets, region);
    n.pattern += "!";
    for (const int notify : step.notifies)
      if (hasCell(notify))
        event(notify);
    return n;
  }

  // The text of a step as the first rank of a group has it, with these expressions for its numbers.
  std::string stepText(const Step &step, int rank, const Expressions &expressions) {
    size_t next = 0;
    const auto take = [&] {
      const std::string &expression = expressions[next++];
      usesRank_ |= expression.find('r') != std::string::npos;
      return expression;
    };
    std::string text;
    // The positions that this step has names for.
    std::map<std::string, std::string> named;
    const auto at = [&](int of) -> std::string {
      if (of == rank)
        return "";
      const std::string peer = take();
      return "@" + (llvm::all_of(peer, llvm::isDigit) ? peer : "(" + peer + ")");
    };
    const auto region = [&](const Region &r) {
      const std::string where = nameOf(r.buffer) + at(r.rank);
      std::string first = take();
      if (r.count != 1 && !llvm::all_of(first, llvm::isDigit)) {
        std::string &name = named[first];
        if (name.empty()) {
          name = "c" + std::to_string(++names_);
          text += "let " + name + " = " + first + ";\n";
        }
        first = name;
      }
      return where + "[" + rows(first, r.count) + ", n]";
    };
    const auto cell = [&](int number) {
      const Event &e = a_.events[size_t(number)];
      const std::string where = kSignals[size_t(e.kind)] + at(e.rank);
      return where + "[" + take() + ", n.index]";
    };
    for (const int wait : step.waits)
      text += "await wait(" + cell(wait) + ");\n";
    std::vector<std::string> sources;
    for (const Region &source : step.sources)
      sources.push_back(region(source));
    std::vector<std::string> targets;
    for (const Region &target : step.targets)
      targets.push_back(region(target));
    std::string sum = llvm::join(sources, " + ");
    if (targets.size() > 1) {
      const std::string name = "v" + std::to_string(++names_);
      text += "let " + name + " = " + sum + ";\n";
      sum = name;
    }
    for (const std::string &target : targets)
      text += target + " = " + sum + ";\n";
    for (const int notify : step.notifies)
      if (hasCell(notify))
        text += "notify(" + cell(notify) + ");\n";
    return text;
  }
};

} // namespace

std::string nameOf(const Algorithm &algorithm) {
  std::string name;
  for (const char c : algorithm.name)
    if (llvm::isAlnum(c))
      name += llvm::toLower(c);
    else if (!name.empty() && name.back() != '_')
      name += '_';
  while (!name.empty() && name.back() == '_')
    name.pop_back();
  if (name.empty() || llvm::isDigit(name.front()))
    name = "algorithm" + (name.empty() ? "" : "_" + name);
  constexpr size_t kLongest = 60;
  return name.substr(0, kLongest) + "_on_" + std::to_string(algorithm.ranks);
}

std::string writeProgram(const Algorithm &algorithm) { return ProgramWriter(algorithm).write(); }

} // namespace dtile::imported
