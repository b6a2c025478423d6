// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks drift apart in random schedules, transfers land late and in any order, stores are held
// back, launches follow each other without a meeting.
#include "checker_runs.h"

#include "frontend/base/check.h"
#include "ir/analysis/clauses.h"
#include "ir/analysis/launch_values.h"
#include "ir/core/builder.h"
#include "ir/interpret/interpreter.h"
#include "ir/protocol/check/clause_data.h"
#include "ir/transform/pipelines.h"

#include <map>
#include <random>

namespace dtile::bench {

using interpret::RunError;
using interpret::Schedule;
using ir::Op;
using ir::OpKind;
using protocol::LaunchSizes;
using protocol::SizeValues;

namespace {

/// Launches back to back: the third is the first to meet the scratch memory of the first again.
constexpr int64_t kLaunches = 4;
/// Steps of one run, beyond which it says nothing.
constexpr uint64_t kMaxSteps = 4'000'000;
/// What a run costs beside its steps: a machine is made for each.
constexpr uint64_t kStepsOfARun = 2'000;
constexpr int64_t kMostElements = int64_t(1) << 22;

/// Arguments of one launch, filled with small integers, and their outputs as bytes.
class Arguments {
public:
  enum class Made : uint8_t { Yes, No, WithoutElements };
  Made make(Op &kernel, const LaunchSizes &sizes, const SizeValues &values, int ranks,
            interpret::Machine &machine);
  [[nodiscard]] std::string outputs() const {
    std::string all;
    for (const auto &[data, bytes] : outputs_)
      all.append(data, bytes);
    return all;
  }

  std::vector<std::vector<interpret::Arg>> ofRank;

private:
  bool fill(Op &param, const interpret::TensorArg &tensor, int64_t elements, uint32_t seed,
            protocol::LaunchValue valueOf, protocol::OneRank rank);

  std::vector<std::vector<char>> memory_;
  std::vector<std::pair<const char *, size_t>> outputs_;
};

bool isSaidOf(const Op &param) {
  return llvm::any_of(param.result()->uses(),
                      [](const ir::Use &use) { return use.user->is(OpKind::LaunchElements); });
}

/// Small integers; what clauses name gets elements as they want.
bool Arguments::fill(Op &param, const interpret::TensorArg &tensor, int64_t elements, uint32_t seed,
                     protocol::LaunchValue valueOf, protocol::OneRank rank) {
  auto *data = static_cast<char *>(tensor.data);
  const size_t bytes = dtypeBytes(tensor.dtype);
  if (isSaidOf(param)) {
    std::fill_n(data, size_t(elements) * bytes, char(0));
    return protocol::fillByClauses(param, tensor, valueOf, rank);
  }
  std::mt19937 random(seed);
  for (int64_t i = 0; i < elements; ++i)
    storeFromDouble(tensor.dtype, data + i * int64_t(bytes), double(random() % 4) - 1);
  return true;
}

Arguments::Made Arguments::make(Op &kernel, const LaunchSizes &sizes, const SizeValues &values,
                                int ranks, interpret::Machine &machine) {
  ofRank.assign(ranks, {});
  std::map<int64_t, Op *> params;
  for (Op &op : kernel.body().ops())
    if (op.is(OpKind::ScalarParam) ||
        (op.is(OpKind::Param) && op.get(ir::attr::mode) != ir::ParamMode::Scratch))
      params[op.get(ir::attr::param)] = &op;
  bool isFilled = true;
  const auto valueOf = [&](const ir::Value *value) { return sizes.valueOf(value, ranks, values); };
  for (const auto &[position, param] : params) {
    interpret::TensorArg tensor;
    tensor.dtype = param->result()->type().elementOrIndex();
    if (param->is(OpKind::ScalarParam)) {
      const auto known = sizes.valueOf(param->result(), ranks, values);
      for (auto &args : ofRank)
        storeFromDouble(tensor.dtype, &args.emplace_back().scalarBits, double(known.value_or(1)));
      continue;
    }
    auto known = sizes.sizesOf(*param, ranks, values);
    if (!known)
      return Made::No;
    tensor.sizes = *known;
    int64_t elements = 1;
    for (const int64_t size : *known)
      if (__builtin_mul_overflow(elements, size, &elements) || elements > kMostElements)
        return Made::No;
    int64_t stride = elements;
    for (const int64_t size : *known) {
      stride = size == 0 ? 0 : stride / size;
      tensor.strides.push_back(stride);
    }
    const ir::ParamMode mode = param->get(ir::attr::mode);
    const size_t bytes = size_t(elements) * dtypeBytes(tensor.dtype);
    void *object =
        mode == ir::ParamMode::Symm ? machine.symmAlloc(std::max<size_t>(1, bytes)) : nullptr;
    for (int r = 0; r < ranks; ++r) {
      tensor.data = object ? machine.symmAddress(object, r)
                           : memory_.emplace_back(bytes + 1, char(0xFF)).data();
      if (mode != ir::ParamMode::Out)
        isFilled &= fill(*param, tensor, elements, uint32_t(100 * position + r), valueOf,
                         {int64_t(r), int64_t(ranks)});
      if (mode != ir::ParamMode::In)
        outputs_.emplace_back(static_cast<const char *>(tensor.data), bytes);
      ofRank[r].push_back({tensor, 0});
    }
  }
  return isFilled ? Made::Yes : Made::WithoutElements;
}

/// What launches that the kernel itself refuses give.
constexpr llvm::StringLiteral kNotLaunched = "not launched";
constexpr llvm::StringLiteral kTooLong = "too long";

bool saysNothing(llvm::StringRef outcome) { return outcome == kNotLaunched || outcome == kTooLong; }

} // namespace

ScheduleRuns::ScheduleRuns(ir::Module &module, Op &kernel, uint64_t seed)
    : module_(module), kernel_(kernel), sizes_(kernel, interpret::sliceControl(kernel)),
      seed_(seed), mostSteps_(kMaxSteps) {
  walk(kernel, [&](const Op &op) {
    mayDiffer_ |= op.is(OpKind::Atomic) && op.numResults() != 0 && !op.result()->uses().empty();
  });
  SourceManager sources;
  Diagnostics diagnostics(sources);
  reordered_ = ir::cloneModule(module);
  auto pipeline = passes::parsePipeline("issue-early", passes::allPasses(), diagnostics);
  passes::PassContext context(diagnostics);
  DTILE_CHECK(pipeline && passes::PassManager({}).run(*reordered_, *pipeline, context),
              "what is well-formed is not scheduled");
}

ScheduleRuns::~ScheduleRuns() = default;

std::string ScheduleRuns::outcome(const Case &at) {
  Schedule schedule;
  // Round 0 is the same whatever the seed.
  schedule.seed = at.round == 0 ? 0 : seed_ * 1'000 + at.round;
  schedule.maxSteps = mostSteps_;
  schedule.landing = at.round == 0       ? Schedule::Landing::AtIssue
                     : at.round % 3 == 0 ? Schedule::Landing::AsLateAsAllowed
                                         : Schedule::Landing::Random;
  ir::Module &run = at.round % 2 == 1 ? *reordered_ : module_;
  interpret::Machine machine(run, at.ranks, schedule);
  Arguments arguments;
  switch (arguments.make(kernel_, sizes_, at.values, at.ranks, machine)) {
  case Arguments::Made::No:
    return kNotLaunched.str();
  case Arguments::Made::WithoutElements:
    lacksElements_ = true;
    return kNotLaunched.str();
  case Arguments::Made::Yes:
    break;
  }
  const auto error =
      machine.launchRepeat(kernel_.get(ir::attr::name).str(), arguments.ofRank, at.launches);
  ++runs_;
  steps_ += machine.steps() + kStepsOfARun;
  if (!error) {
    hasRunTogether_ |= at.ranks > 1;
    return arguments.outputs();
  }
  if (error->kind == RunError::Kind::BadArgument ||
      (error->op && (ir::isPrecondition(*error->op) || ir::isAssumption(*error->op))))
    return kNotLaunched.str();
  if (error->kind == RunError::Kind::StepLimit)
    return kTooLong.str();
  isUnsafe_ = true;
  evidence_ = error->message;
  return "error";
}

bool ScheduleRuns::compare(const Case &at, std::string &first) {
  std::string result = outcome(at);
  if (at.round == 0)
    first = std::move(result);
  else if (!isUnsafe_ && !mayDiffer_ && result != first && !saysNothing(result) &&
           !saysNothing(first)) {
    isUnsafe_ = true;
    evidence_ = "results depend on the schedule";
  }
  if (!isUnsafe_)
    return true;
  evidence_ += "; W = " + std::to_string(at.ranks);
  for (const auto &[symbol, value] : llvm::zip(sizes_.symbols(), at.values))
    evidence_ += ", " + symbol.name + " = " + std::to_string(value);
  evidence_ += ", launches " + std::to_string(at.launches) + ", round " + std::to_string(at.round);
  return false;
}

void ScheduleRuns::runFew(unsigned rounds) {
  // One launch, in memory that nobody has written, and several: with the same arguments in each, a
  // place may hold by chance what it should.
  std::vector<Case> cases;
  for (const int ranks : {1, 2, 3})
    for (const SizeValues &values : sizes_.choose(ranks, LaunchSizes::Choice::Few))
      for (const int64_t launches : {int64_t(1), kLaunches})
        cases.push_back({ranks, values, launches, 0});
  outcomes_.resize(cases.size());
  for (unsigned round = 0; round <= rounds; ++round)
    for (auto &&[at, first] : llvm::zip(cases, outcomes_)) {
      at.round = round;
      if (!compare(at, first))
        return;
    }
}

void ScheduleRuns::runAdversarial(uint64_t steps) {
  struct Base {
    Case at;
    std::string first;
  };
  std::vector<std::vector<Base>> bySize;
  for (const int ranks : {2, 3, 4, 5, 6, 8, 9, 12}) {
    const auto all = sizes_.choose(ranks, LaunchSizes::Choice::All);
    for (size_t s = 0; s < all.size(); ++s) {
      if (bySize.size() <= s)
        bySize.emplace_back();
      for (const int64_t launches : {int64_t(1), int64_t(3), int64_t(7)})
        bySize[s].push_back({{ranks, all[s], launches, 0}, {}});
    }
  }
  constexpr unsigned kMostRounds = 24;
  // The steps of one run are a part of all that there are.
  mostSteps_ = std::max<uint64_t>(steps / 8, 1);
  const uint64_t end = steps_ + steps;
  // Larger sizes begin later: each is first run in order.
  for (size_t turn = 0; turn < bySize.size() + kMostRounds; ++turn)
    for (size_t s = 0; s <= std::min(turn, bySize.size() - 1); ++s)
      for (Base &base : bySize[s]) {
        base.at.round = unsigned(turn - s);
        if (base.at.round > kMostRounds || (base.at.round != 0 && saysNothing(base.first)))
          continue;
        if (steps_ >= end || !compare(base.at, base.first))
          return;
      }
}

} // namespace dtile::bench
