// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds `--sizes` against a kernel's sizes and scalars.
#include "backend/driver/choose/given_launch.h"

#include "backend/driver/choose/size_ranges.h"
#include "backend/driver/execute/default_arguments.h"
#include "backend/driver/tune/tuned_choices.h"
#include "frontend/base/parallel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <numeric>

namespace dtile::driver {

namespace {

std::nullopt_t refuse(Session &session, const std::string &why) {
  session.diagnostics.report(SourceLoc{}, diag::bad_size, why);
  return std::nullopt;
}

/// The names of a kernel that `--sizes` may give a number.
class Names {
public:
  Names(const sema::KernelInstance &kernel, llvm::ArrayRef<std::string> sizes)
      : sizes_(sizes.begin(), sizes.end()) {
    for (const SizePlace &place : sizePlaces(kernel))
      if (!hasSize(place.name))
        sizes_.push_back(place.name);
    for (const sema::KernelParam &param : kernel.params)
      if (param.type->kind == sema::TypeKind::Scalar)
        scalars_.push_back(&param);
  }

  [[nodiscard]] bool hasSize(llvm::StringRef name) const {
    return llvm::is_contained(sizes_, name);
  }
  [[nodiscard]] const sema::KernelParam *scalar(llvm::StringRef name) const {
    const auto *const it = llvm::find_if(
        scalars_, [&](const sema::KernelParam *param) { return param->name == name; });
    return it == scalars_.end() ? nullptr : *it;
  }
  [[nodiscard]] std::string text() const {
    std::string text = sizes_.empty()
                           ? "the arguments have no sizes"
                           : "the sizes of the arguments are " + llvm::join(sizes_, ", ");
    std::vector<std::string> names;
    for (const sema::KernelParam *param : scalars_)
      names.push_back(param->name);
    return names.empty()
               ? text
               : text + (names.size() == 1 ? ", and the scalar is " : ", and the scalars are ") +
                     llvm::join(names, ", ");
  }

private:
  std::vector<std::string> sizes_;
  llvm::SmallVector<const sema::KernelParam *, 4> scalars_;
};

/// What `--sizes` says of a scalar; nothing after reporting. The model does not ask for numbers
/// with a point, and they are not kept.
bool takeScalar(Session &session, const sema::KernelParam &scalar, const std::string &value,
                GivenLaunch &given) {
  const DType dtype = scalar.type->dtype;
  int64_t number = 0;
  double real = 0;
  if (isFloat(dtype) && llvm::to_float(value, real))
    return true;
  if (dtype == DType::Bool && (value == "true" || value == "false"))
    number = value == "true" ? 1 : 0;
  else if (isFloat(dtype) || llvm::StringRef(value).getAsInteger(10, number) ||
           std::abs(number) > kLargestSize) {
    refuse(session, "wants a value of type " + dtypeName(dtype).str() + " for `" + scalar.name +
                        "`, not `" + value + "`");
    return false;
  }
  given.numbers[scalar.name] = number;
  return true;
}

} // namespace

std::optional<GivenLaunch> givenLaunch(Session &session, const sema::KernelInstance &kernel,
                                       llvm::ArrayRef<std::string> sizes) {
  const Names names(kernel, sizes);
  GivenLaunch given;
  llvm::StringSet<> said;
  for (const auto &[name, value] : session.options.sizes) {
    if (!said.insert(name).second)
      return refuse(session, "says twice what `" + name + "` is");
    if (const sema::KernelParam *scalar = names.scalar(name)) {
      if (!takeScalar(session, *scalar, value, given))
        return std::nullopt;
      continue;
    }
    if (name != kRanks && !names.hasSize(name))
      return refuse(session, "names `" + name + "`; " + names.text());
    int64_t number = 0;
    const int64_t least = name == kRanks ? 1 : 0;
    if (llvm::StringRef(value).getAsInteger(10, number) || number < least || number > kLargestSize)
      return refuse(session, "wants a number from " + std::to_string(least) + " to " +
                                 std::to_string(kLargestSize) + " for `" + name + "`, not `" +
                                 value + "`");
    if (name == kRanks)
      given.ranks = number;
    else
      given.numbers[name] = number;
  }
  for (const sema::KernelParam &param : kernel.params)
    if (const auto value = defaultArgument(param); value && value->isIntegral())
      given.numbers.try_emplace(param.name, value->getInt(0));
  return given;
}

std::optional<std::vector<int64_t>> sizesIn(Session &session, const GivenLaunch &given,
                                            llvm::ArrayRef<std::string> names) {
  std::vector<int64_t> sizes;
  for (const std::string &name : names) {
    const auto it = given.numbers.find(name);
    if (it == given.numbers.end())
      return refuse(session, "does not say what `" + name + "` is");
    sizes.push_back(it->second);
  }
  return sizes;
}

namespace {

std::vector<Timed> timeThese(llvm::ArrayRef<size_t> positions, Session &session,
                             sema::Program &program, const Choosing &choosing,
                             const TargetArch &target, llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                             const Scalars &scalars) {
  struct Times {
    std::optional<double> pinned, own;
  };
  std::vector<Times> times(positions.size());
  inParallel(times.size(), [&](size_t i) {
    VariantModel model(session, program, choosing, choosing.possible[positions[i]], target,
                       scalars);
    times[i] = {model.nanosecondsPinned(sizes, ranks), model.nanoseconds(sizes, ranks)};
  });
  std::vector<Timed> timed;
  for (auto [position, time] : llvm::zip_equal(positions, times)) {
    if (!time.pinned)
      continue;
    Timed &row = timed.emplace_back();
    row.variant = &choosing.possible[position];
    row.nanoseconds = *time.pinned;
    const auto kept = llvm::find(choosing.kept, position);
    if (kept != choosing.kept.end() && time.own)
      row.number = size_t(kept - choosing.kept.begin());
  }
  llvm::sort(timed, [](const Timed &a, const Timed &b) {
    return std::pair(a.nanoseconds, a.variant) < std::pair(b.nanoseconds, b.variant);
  });
  return timed;
}

} // namespace

std::vector<Timed> timeAll(Session &session, sema::Program &program, const Choosing &choosing,
                           const TargetArch &target, llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                           const Scalars &scalars) {
  std::vector<size_t> all(choosing.possible.size());
  std::iota(all.begin(), all.end(), size_t(0));
  return timeThese(all, session, program, choosing, target, sizes, ranks, scalars);
}

std::vector<Timed> timeKept(Session &session, sema::Program &program, const Choosing &choosing,
                            const TargetArch &target, llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                            const Scalars &scalars) {
  std::vector<Timed> timed =
      timeThese(choosing.kept, session, program, choosing, target, sizes, ranks, scalars);
  llvm::erase_if(timed, [](const Timed &one) { return !one.number; });
  return timed;
}

} // namespace dtile::driver
