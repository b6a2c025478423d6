// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel without races gives the same in every schedule, so one run decides for its ranks and
// sizes. It runs on a copy of the kernel in which all floating-point elements are f64, and these
// are sums of products of inputs: a narrower element could not hold the number of a sum. Rounding
// is left out; that is what `~=` is for.
#include "ir/protocol/check/check_promises.h"

#include "ir/core/builder.h"
#include "ir/interpret/control_slice.h"
#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/report_finding.h"
#include "ir/protocol/check/run_arguments.h"
#include "ir/protocol/check/size_relations.h"
#include "ir/protocol/check/sum_types.h"
#include "ir/protocol/check/term_arrays.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dtile::protocol {

using interpret::TermId;
using interpret::TermTable;
using ir::Op;
using ir::OpKind;

namespace {

/// What a step on sums costs besides their arithmetic: it moves whole tiles.
constexpr uint64_t kWorkOfStep = 16;
constexpr uint64_t kMaxSteps = 4'000'000;
/// Elements of one argument: what is larger shows nothing more, and takes long.
constexpr int64_t kMaxElements = 20'000;
/// More ranks are run where the kernel's own numbers ask for them, up to the second number.
constexpr int kManyRanks = 8;
constexpr int64_t kMostRanks = 16;
/// With more ranks small sizes are run alone, and all scalars: what matters is who is who. A kernel
/// that reaches no other rank is run on the first two.
constexpr int kRanksOfAllSizes = 3;
/// Launches one after the other: the second finds what the first has left. A kernel that asks for
/// its epoch has as many as its numbers ask for, with the smallest sizes.
constexpr int64_t kLaunches = 2;
/// Blocks of a dimension beyond which nothing new is to be expected.
constexpr int64_t kManyBlocks = 3;
/// Ways to divide the ranks into axes, with each choice of other sizes.
constexpr size_t kMostOfAxes = 2;

/// One run's arguments: their names, and what they hold.
struct Arguments {
  RunArguments memory;
  std::map<std::string, RankArrays> before;
  /// By the position of a parameter.
  std::map<int64_t, std::string> names;
  std::map<std::string, size_t> places;
};

class PromiseChecker {
public:
  /// `isSum`: besides floats, integers of this type are sums.
  PromiseChecker(Op &kernel, llvm::ArrayRef<const Promise *> promises, std::optional<DType> isSum,
                 uint64_t work, Diagnostics &diagnostics)
      : kernel_(kernel), work_(work), diagnostics_(diagnostics),
        copy_(kernel.parentBlock()->module().types()) {
    copy_.setSources(kernel.parentBlock()->module().sources());
    ir::Builder builder(copy_);
    builder.setInsertionPointToEnd(copy_.body());
    ir::ValueMap map;
    widened_ = cloneOp(builder, kernel, map);
    isFollowed_ = !isSum || widenIntegers(copy_.types(), *widened_, *isSum);
    widenFloats(copy_.types(), *widened_);
    // Loops over tile data, and what they compare, decide what sums are of.
    const interpret::ControlSlice whole = interpret::wholeKernel(*widened_);
    sizes_.emplace(*widened_, whole);
    relations_.emplace(*widened_, whole, *sizes_);
    for (const Promise *promise : promises)
      states_.push_back(
          {promise, isFollowed_ ? "" : "of integers it follows sums and products only", 0});
  }

  KeptPromises run(llvm::ArrayRef<int> ranks, bool areRanksGiven);

private:
  struct State {
    const Promise *promise;
    std::string undecided;
    int64_t runs;
  };
  [[nodiscard]] std::vector<SizeValues> choose(int ranks) const;
  [[nodiscard]] bool isSmall(const SizeValues &values, const SizeValues &smallest) const;
  void beginAgain(Arguments &arguments) const;
  [[nodiscard]] std::vector<int> chooseRanks(llvm::ArrayRef<int> ranks, bool areRanksGiven) const;
  bool runAll(llvm::ArrayRef<int> counts, KeptPromises &result);
  bool fill(Arguments &arguments, TermTable &terms);
  RankArrays after(const Arguments &arguments, const std::string &name) const;
  bool runLaunches(int ranks, const SizeValues &values, int64_t launches);
  bool compare(State &state, const Case &at, const Arguments &arguments,
               const std::map<std::string, int64_t> &sizes, TermTable &terms);
  void reportShape(const State &state, const Case &at, int rank, const TermArray &actual,
                   const TermArray &expected);
  void report(const State &state, const Case &at, const Arguments &arguments, TermTable &terms,
              const RankArrays &actual, const RankArrays &expected, int rank, int64_t element);

  Op &kernel_;
  uint64_t work_;
  uint64_t used_ = 0;
  Diagnostics &diagnostics_;
  ir::Module copy_;
  Op *widened_ = nullptr;
  bool isFollowed_ = true;
  /// Of the copy, with all that it computes.
  std::optional<LaunchSizes> sizes_;
  std::optional<SizeRelations> relations_;
  std::vector<State> states_;
};

/// Small sizes; each in turn one more than a block of it, and than three, the others as small as
/// they may be; two at a time; those beyond the kernel's own numbers. Scalars are 0, and in turn 1,
/// the last rank, and beyond the numbers that they meet. What clauses forbid gives way to what they
/// allow.
std::vector<SizeValues> PromiseChecker::choose(int ranks) const {
  const std::vector<SizeSymbol> &symbols = sizes_->symbols();
  const auto isScalar = [&](size_t s) { return symbols[s].dim->is(OpKind::ScalarParam); };
  const auto filled = [&](int64_t size) {
    SizeValues values(symbols.size(), size);
    for (size_t s = 0; s < symbols.size(); ++s)
      if (isScalar(s) && !symbols[s].isAxis)
        values[s] = 0;
    return values;
  };
  const auto isCut = [&](size_t s) { return !symbols[s].steps.empty() || symbols[s].isShared; };
  const auto beyondBlocks = [&](size_t s, int64_t blocks) {
    const int64_t step = symbols[s].steps.empty() ? 1 : symbols[s].steps.back();
    return (symbols[s].isShared ? ranks : 1) * step * blocks + 1;
  };
  std::vector<SizeValues> all{sizes_->allowed(ranks, filled(2), {})};
  const auto vary = [&](std::initializer_list<std::pair<size_t, int64_t>> some) {
    SizeValues values = filled(1);
    llvm::SmallVector<size_t, 2> kept;
    for (const auto &[s, value] : some) {
      values[s] = value;
      kept.push_back(s);
    }
    values = sizes_->allowed(ranks, values, kept);
    if (!llvm::is_contained(all, values))
      all.push_back(std::move(values));
  };
  for (const int64_t blocks : {int64_t(1), kManyBlocks})
    for (size_t s = 0; s < symbols.size(); ++s)
      if (isCut(s) && !isScalar(s))
        vary({{s, beyondBlocks(s, blocks)}});
  for (size_t s = 0; s < symbols.size(); ++s) {
    if (isScalar(s))
      for (const int64_t value : {int64_t(1), int64_t(ranks) - 1})
        vary({{s, value}});
    for (const int64_t value : symbols[s].reached)
      vary({{s, value}});
  }
  llvm::append_range(all, relations_->solve(ranks, all));
  for (size_t s = 0; s < symbols.size(); ++s)
    for (size_t other = 0; other < s; ++other)
      if (isCut(s) && isCut(other) && !isScalar(s) && !isScalar(other))
        vary({{s, beyondBlocks(s, 1)}, {other, beyondBlocks(other, 1)}});
  std::vector<SizeValues> onAxes;
  for (const SizeValues &values : all) {
    std::vector<SizeValues> some = sizes_->withAxes(ranks, values);
    some.resize(std::min(some.size(), kMostOfAxes));
    llvm::append_range(onAxes, some);
  }
  return onAxes.empty() ? all : onAxes;
}

/// No size is larger than in the first choice, whatever scalars and axes are.
bool PromiseChecker::isSmall(const SizeValues &values, const SizeValues &smallest) const {
  return llvm::all_of(llvm::enumerate(sizes_->symbols()), [&](const auto &symbol) {
    return symbol.value().isAxis || symbol.value().dim->is(OpKind::ScalarParam) ||
           values[symbol.index()] <= smallest[symbol.index()];
  });
}

/// Those asked for; where nobody has asked, also those of which the kernel's own numbers speak.
std::vector<int> PromiseChecker::chooseRanks(llvm::ArrayRef<int> ranks, bool areRanksGiven) const {
  std::vector<int> counts;
  llvm::copy_if(ranks, std::back_inserter(counts), [](int count) { return count <= kManyRanks; });
  if (counts.empty())
    counts = {2, 3};
  if (!areRanksGiven)
    for (const int64_t count : sizes_->reach().ranks)
      if (count <= kMostRanks && !llvm::is_contained(counts, int(count)))
        counts.push_back(int(count));
  bool reachesOthers = false;
  walk(*widened_, [&](const Op &op) {
    reachesOthers |= op.hasEffect(ir::RemoteWrite | ir::RemoteRead | ir::Signal | ir::Wait) ||
                     op.is(OpKind::ViewAt) || op.is(OpKind::Rank) || op.is(OpKind::NumRanks);
  });
  if (!reachesOthers)
    llvm::erase_if(counts, [&](int count) { return count > 2 && counts.size() > 1; });
  // One rank last: where it is wrong there, two show more of it.
  if (llvm::is_contained(counts, 1)) {
    llvm::erase(counts, 1);
    counts.push_back(1);
  }
  return counts;
}

bool PromiseChecker::fill(Arguments &arguments, TermTable &terms) {
  std::map<int64_t, Op *> params;
  for (Op &op : widened_->body().ops())
    if (op.is(OpKind::ScalarParam) ||
        (op.is(OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch))
      params[op.get(ir::attr::param)] = &op;
  size_t place = 0;
  for (const auto &[position, param] : params) {
    const std::string name = param->get(ir::attr::name).str();
    arguments.names[position] = name;
    arguments.places[name] = place;
    const bool isScalar = param->is(OpKind::ScalarParam);
    const bool isSum = isFloat(param->result()->type().elementOrIndex());
    const TermId scalar = isScalar && isSum ? terms.input({position, 0, 0}) : 0;
    for (size_t r = 0; isSum && r < arguments.memory.ofRank.size(); ++r) {
      interpret::Arg &arg = arguments.memory.ofRank[r][place];
      if (isScalar) {
        arg.scalarBits = scalar;
        arguments.before[name].push_back({{}, {scalar}});
        continue;
      }
      TermArray array{arg.tensor.sizes, {}};
      int64_t elements = 1;
      for (const int64_t size : array.sizes)
        elements *= size;
      if (elements > kMaxElements)
        return false;
      const bool isOut = param->get(ir::attr::mode) == ir::ParamMode::Out;
      // All ranks have the same elements.
      const bool isReplicated = llvm::any_of(param->result()->uses(), [](const ir::Use &use) {
        return use.user->is(OpKind::LaunchElements) &&
               use.user->get(ir::attr::kind) == "replicated";
      });
      if (isReplicated && r > 0)
        array.elements = arguments.before[name].front().elements;
      else
        for (int64_t i = 0; i < elements; ++i)
          array.elements.push_back(isOut ? ~TermId(0) : terms.input({position, int32_t(r), i}));
      std::memcpy(arg.tensor.data, array.elements.data(), elements * sizeof(TermId));
      arguments.before[name].push_back(std::move(array));
    }
    ++place;
  }
  return true;
}

RankArrays PromiseChecker::after(const Arguments &arguments, const std::string &name) const {
  RankArrays all = arguments.before.at(name);
  const size_t place = arguments.places.at(name);
  for (size_t r = 0; r < all.size(); ++r)
    std::memcpy(all[r].elements.data(), arguments.memory.ofRank[r][place].tensor.data,
                all[r].elements.size() * sizeof(TermId));
  return all;
}

// Text.

std::string timesText(double count) {
  if (std::abs(count - 1) < 1e-6)
    return "once";
  if (std::abs(count - 2) < 1e-6)
    return "twice";
  if (std::abs(count - std::round(count)) < 1e-6)
    return std::to_string(int64_t(std::round(count))) + " times";
  return std::to_string(count) + " times";
}

std::string addendText(const TermTable::Addend &addend, const Arguments &arguments) {
  std::string text;
  for (const interpret::InputElement &factor : addend.factors) {
    const std::string &name = arguments.names.at(factor.param);
    const RankArrays &arrays = arguments.before.at(name);
    text += (text.empty() ? "" : " * ") + ("`" + name);
    if (!arrays[factor.rank].sizes.empty())
      text += arrays[factor.rank].positionText(factor.element);
    text += "` of rank " + std::to_string(factor.rank);
  }
  return text.empty() ? "a constant" : text;
}

/// Which addend there is too often or too rarely.
std::string differenceText(const Arguments &arguments, TermTable &terms, TermId actual,
                           TermId expected, const std::string &where) {
  const auto wanted = terms.addends(expected);
  const auto got = terms.addends(actual);
  const auto countIn = [](llvm::ArrayRef<TermTable::Addend> all, const TermTable::Addend &one) {
    const auto it = llvm::find_if(all, [&](const TermTable::Addend &other) {
      const auto isSame = [](const auto &a, const auto &b) {
        return a.param == b.param && a.rank == b.rank && a.element == b.element;
      };
      return other.factors.size() == one.factors.size() &&
             std::equal(one.factors.begin(), one.factors.end(), other.factors.begin(), isSame);
    });
    return it == all.end() ? 0.0 : it->count;
  };
  const TermTable::Addend *missing = nullptr;
  const TermTable::Addend *wrong = nullptr;
  for (const TermTable::Addend &one : wanted)
    if (!missing && std::abs(countIn(got, one) - one.count) > 1e-6)
      missing = &one;
  for (const TermTable::Addend &one : got)
    if (!wrong && countIn(wanted, one) == 0)
      wrong = &one;
  if (got.size() == 1 && wanted.size() == 1 && missing && wrong)
    return where + " is " + addendText(*wrong, arguments) + ", and should be " +
           addendText(*missing, arguments);
  if (missing) {
    const double count = countIn(got, *missing);
    if (count == 0)
      return where + " lacks " + addendText(*missing, arguments);
    return where + " has " + addendText(*missing, arguments) + " " + timesText(count) +
           ", and should have it " + timesText(missing->count);
  }
  return where + " has " + (wrong ? addendText(*wrong, arguments) : "something") +
         ", which does not belong there";
}

const Op *writerOf(Op &kernel, const std::string &output) {
  const Op *writer = nullptr;
  walk(kernel, [&](const Op &op) {
    const bool writes = op.is(OpKind::Store) || op.is(OpKind::Scatter) || op.is(OpKind::Put) ||
                        op.is(OpKind::PutSignal) || op.is(OpKind::ReduceAdd) ||
                        op.is(OpKind::ReduceAddScatter) || op.is(OpKind::Get);
    if (!writes || writer)
      return;
    const Op *param = interpret::rootParam(op.operand(1));
    if (param && param->has(ir::attr::name) && param->get(ir::attr::name) == output)
      writer = &op;
  });
  return writer;
}

void PromiseChecker::report(const State &state, const Case &at, const Arguments &arguments,
                            TermTable &terms, const RankArrays &actual, const RankArrays &expected,
                            int rank, int64_t element) {
  const std::string &name = state.promise->output;
  const TermId got = actual[rank].elements[element];
  const std::string &part = state.promise->partText;
  const std::string where = actual[rank].sizes.empty()
                                ? "`" + part + "`"
                                : "element " + actual[rank].positionText(element) +
                                      (part.empty() ? std::string() : " of `" + part + "`");
  const std::string what =
      terms.isUnwritten(got)
          ? where + " is never written"
          : differenceText(arguments, terms, got, expected[rank].elements[element], where);
  int64_t wrong = 0;
  int64_t all = 0;
  for (size_t r = 0; r < actual.size(); ++r)
    for (size_t i = 0; i < actual[r].elements.size(); ++i, ++all)
      wrong += actual[r].elements[i] != expected[r].elements[i];
  DiagBuilder builder = diagnostics_.report(state.promise->place, diag::protocol_breaks_promise,
                                            at.name(), name, rank, what);
  if (const Op *writer = writerOf(kernel_, name))
    builder.note(SourceRange{writer->loc(), writer->loc()}, diag::note_protocol,
                 "`" + name + "` is written here");
  builder.note(SourceRange{kernel_.loc(), kernel_.loc()}, diag::note_protocol,
               "found for " + at.text() + "; " + std::to_string(wrong) + " of " +
                   std::to_string(all) + " elements are other than they should be");
}

void PromiseChecker::reportShape(const State &state, const Case &at, int rank,
                                 const TermArray &actual, const TermArray &expected) {
  diagnostics_
      .report(state.promise->place, diag::protocol_breaks_promise, at.name(), state.promise->output,
              rank,
              "the sizes are " + actual.sizesText() + ", and should be " + expected.sizesText())
      .note(SourceRange{kernel_.loc(), kernel_.loc()}, diag::note_protocol,
            "found for " + at.text());
}

bool PromiseChecker::compare(State &state, const Case &at, const Arguments &arguments,
                             const std::map<std::string, int64_t> &sizes, TermTable &terms) {
  if (!arguments.before.count(state.promise->output)) {
    state.undecided = state.promise->output.empty()
                          ? "it has " + state.promise->expected.name
                          : "`" + state.promise->output + "` is no output of numbers";
    return true;
  }
  PromiseEvaluator evaluator(terms, arguments.before, sizes, at.ranks);
  const std::optional<RankArrays> expected = evaluator.evaluate(state.promise->expected);
  RankArrays actual = after(arguments, state.promise->output);
  if (evaluator.isOutside())
    return true;
  if (expected && state.promise->part) {
    std::map<std::string, RankArrays> whole = arguments.before;
    whole[state.promise->output] = std::move(actual);
    PromiseEvaluator ofPart(terms, whole, sizes, at.ranks);
    std::optional<RankArrays> part = ofPart.evaluate(*state.promise->part);
    if (ofPart.isOutside())
      return true;
    if (!part) {
      state.undecided = ofPart.whyNot();
      return true;
    }
    actual = std::move(*part);
  }
  if (!expected || !terms.whyNot().empty()) {
    state.undecided = terms.whyNot().empty() ? evaluator.whyNot() : terms.whyNot();
    return true;
  }
  for (int r = 0; r < at.ranks; ++r) {
    if ((*expected)[r].sizes != actual[r].sizes) {
      reportShape(state, at, r, actual[r], (*expected)[r]);
      return false;
    }
    for (size_t i = 0; i < actual[r].elements.size(); ++i) {
      const TermId got = actual[r].elements[i];
      if (got == (*expected)[r].elements[i])
        continue;
      const auto isOpaque = [](const TermTable::Addend &addend) { return addend.isOpaque; };
      if (!terms.isUnwritten(got) && llvm::any_of(terms.addends(got), isOpaque)) {
        state.undecided = "it computes other than sums and products";
        return true;
      }
      report(state, at, arguments, terms, actual, *expected, r, int64_t(i));
      return false;
    }
  }
  ++state.runs;
  return true;
}

/// What a launch finds: outputs are not written yet, and all else is as the last one left it.
void PromiseChecker::beginAgain(Arguments &arguments) const {
  for (const Op &op : widened_->body().ops()) {
    if (!op.is(OpKind::Param) || op.get(ir::attr::mode) == ir::ParamMode::Scratch)
      continue;
    const auto found = arguments.before.find(op.get(ir::attr::name).str());
    if (found == arguments.before.end())
      continue;
    if (op.get(ir::attr::mode) != ir::ParamMode::Out) {
      found->second = after(arguments, found->first);
      continue;
    }
    const size_t place = arguments.places.at(found->first);
    for (size_t r = 0; r < found->second.size(); ++r)
      std::memcpy(arguments.memory.ofRank[r][place].tensor.data, found->second[r].elements.data(),
                  found->second[r].elements.size() * sizeof(TermId));
  }
}

bool PromiseChecker::runLaunches(int ranks, const SizeValues &values, int64_t launches) {
  TermTable terms;
  interpret::Schedule schedule;
  schedule.maxSteps = kMaxSteps;
  schedule.terms = &terms;
  interpret::Machine machine(copy_, ranks, schedule);
  Arguments arguments;
  if (!arguments.memory.make(*widened_, *sizes_, values, ranks, machine) || !fill(arguments, terms))
    return true;
  std::map<std::string, int64_t> named;
  for (size_t s = 0; s < values.size(); ++s)
    named[sizes_->symbols()[s].name] = values[s];
  const uint64_t before = used_;
  for (int64_t launch = 0; launch < launches && used_ <= work_; ++launch) {
    if (launch > 0)
      beginAgain(arguments);
    const auto error = machine.launch(kernel_.get(ir::attr::name).str(), arguments.memory.ofRank);
    used_ = before + kWorkOfStep * machine.steps() + terms.work();
    if (error)
      return true;
    const Case at{kernel_, ranks, sizes_->symbols(), values, nullptr, launch};
    const bool isKept = llvm::all_of(states_, [&](State &state) {
      return !state.undecided.empty() || compare(state, at, arguments, named, terms);
    });
    if (!isKept)
      return false;
  }
  return true;
}

/// Each choice of sizes with all numbers of ranks before the next. False where a promise is broken.
bool PromiseChecker::runAll(llvm::ArrayRef<int> counts, KeptPromises &result) {
  const auto followed = [&] {
    size_t runs = 0;
    for (const State &state : states_)
      runs += state.runs + (state.undecided.empty() ? 0 : 1);
    return runs;
  };
  std::vector<std::vector<SizeValues>> choices;
  size_t rounds = 0;
  for (const int count : counts) {
    choices.push_back(choose(count));
    const bool isSmallest = count == *llvm::min_element(counts);
    if (count > kRanksOfAllSizes && !isSmallest)
      llvm::erase_if(choices.back(), [&](const SizeValues &values) {
        return !isSmall(values, choices.back().front());
      });
    rounds = std::max(rounds, choices.back().size());
  }
  for (size_t round = 0; round < rounds; ++round)
    for (auto &&[count, sizes] : llvm::zip(counts, choices)) {
      if (round >= sizes.size())
        continue;
      if (used_ > work_) {
        result.isCutShort = true;
        return true;
      }
      const size_t before = followed();
      const int64_t launches = isSmall(sizes[round], sizes.front()) ? sizes_->reach().launches : 0;
      if (!runLaunches(count, sizes[round], std::max(kLaunches, launches))) {
        result.isRefused = true;
        return false;
      }
      if (followed() != before && !llvm::is_contained(result.ranks, count))
        result.ranks.push_back(count);
    }
  return true;
}

KeptPromises PromiseChecker::run(llvm::ArrayRef<int> ranks, bool areRanksGiven) {
  KeptPromises result;
  if (isFollowed_ && !runAll(chooseRanks(ranks, areRanksGiven), result))
    return result;
  // A kernel that wants more ranks is followed with as few as it takes.
  for (const int count : ranks)
    if (isFollowed_ && count > kManyRanks && result.ranks.empty() && !runAll(count, result))
      return result;
  for (State &state : states_) {
    if (state.undecided.empty() && state.runs == 0)
      state.undecided = "no run could be followed";
    if (state.undecided.empty())
      ++result.kept;
    else
      result.undecided.emplace_back(state.promise, state.undecided);
  }
  return result;
}

/// The integer type of an output; nothing of floats and of what is no output.
std::optional<DType> integersOf(Op &kernel, const std::string &output) {
  for (const Op &op : kernel.body().ops())
    if (op.is(OpKind::Param) && op.get(ir::attr::name) == output && op.result()->type().isView() &&
        isInteger(op.result()->type().dtype()))
      return op.result()->type().dtype();
  return std::nullopt;
}

} // namespace

KeptPromises checkPromises(Op &kernel, llvm::ArrayRef<Promise> promises, llvm::ArrayRef<int> ranks,
                           bool areRanksGiven, uint64_t work, Diagnostics &diagnostics) {
  // Those of floats, and of each type of integers, are followed with their own sums.
  std::map<std::optional<DType>, std::vector<const Promise *>> groups;
  for (const Promise &promise : promises)
    if (promise.kernel == kernel.get(ir::attr::name))
      groups[integersOf(kernel, promise.output)].push_back(&promise);
  KeptPromises result;
  for (const auto &[isSum, group] : groups) {
    const KeptPromises some =
        PromiseChecker(kernel, group, isSum, work, diagnostics).run(ranks, areRanksGiven);
    result.isRefused |= some.isRefused;
    result.isCutShort |= some.isCutShort;
    result.kept += some.kept;
    llvm::append_range(result.undecided, some.undecided);
    for (const int count : some.ranks)
      if (!llvm::is_contained(result.ranks, count))
        result.ranks.push_back(count);
    if (result.isRefused)
      break;
  }
  return result;
}

} // namespace dtile::protocol
