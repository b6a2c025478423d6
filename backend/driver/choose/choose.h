// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values for the constants that kernels leave to the compiler (`BM = auto`): every configuration
// that a machine can run is timed by the machine's model over sizes of all kinds, and the few are
// kept with which hardly any size is far from its best.
#pragma once

#include "backend/driver/compile.h"
#include "backend/driver/target_code.h"
#include "ir/transform/drift_answer.h"

#include "llvm/ADT/StringMap.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtile::driver {

/// Values of a kernel's choices, by name.
using Constants = std::vector<std::pair<std::string, int64_t>>;

/// Values of a launch's scalars that are no floating-point numbers, by name.
using Scalars = llvm::StringMap<int64_t>;

/// "BM=128 BN=256".
[[nodiscard]] std::string text(const Constants &constants);

/// One way to build a kernel.
struct Variant {
  Constants constants;
  const sema::KernelInstance *instance = nullptr;
  /// Variants with the same number look alike to other ranks.
  int32_t protocol = 0;
  /// Variants with the same text add up a row's numbers in the same order.
  std::string sums;
  /// It has no function for launches that move tiles in parts of words: others run these.
  bool wholeWords = false;
};

/// What was considered for a kernel on a target.
struct Choosing {
  /// The sizes that arguments determine, by name.
  std::vector<std::string> sizes;
  /// All configurations that can run.
  std::vector<Variant> possible;
  /// Positions in it, the most useful first.
  std::vector<size_t> kept;
  /// What each is estimated to take for a number of launches, whose sizes are the same for kernels
  /// with the same `sizes`; infinite where it cannot run.
  std::vector<std::vector<double>> times;
  /// Positions in `possible` of the configurations that were wanted; nothing for those that cannot
  /// be built, or whose sums have another order than `--batch-invariant` has settled on.
  std::vector<std::optional<size_t>> wanted;
  /// Configurations that `--batch-invariant` has ruled out.
  size_t ruledOut = 0;
  /// What pass bound-drift says of each that is kept or wanted; of the others it was assumed.
  std::optional<passes::DriftAnswer> drift;
};

/// Values that each choice may have; combinations of them are what there is to choose from.
struct ChoiceValues {
  std::vector<sema::Choice> choices;
  std::vector<std::vector<int64_t>> values;
};
[[nodiscard]] ChoiceValues choiceValues(const sema::Program &program, const ast::KernelDecl &kernel,
                                        const sema::GenericArgs &pins);

/// The pins with these values of choices beside them.
[[nodiscard]] sema::GenericArgs withConstants(const sema::GenericArgs &pins,
                                              const Constants &constants);

/// The values that a kernel's choices have in an instance.
[[nodiscard]] Constants constantsOf(const sema::KernelInstance &instance,
                                    llvm::ArrayRef<sema::Choice> choices);

/// Chooses for a kernel whose other values are `pins`. Without choices, or where the target has no
/// model, there is one variant. Empty `kept` after reporting. `wanted` are tried in any case.
[[nodiscard]] Choosing choose(Session &session, sema::Program &program,
                              const ast::KernelDecl &kernel, const sema::GenericArgs &pins,
                              const TargetArch &target, llvm::ArrayRef<Constants> wanted = {});

/// The model of one configuration of `choosing.possible`, prepared once for many launches. Scalars
/// need not be known; names of others do not matter.
class VariantModel {
public:
  VariantModel(Session &session, sema::Program &program, const Choosing &choosing,
               const Variant &variant, const TargetArch &target, const Scalars &scalars = {});
  ~VariantModel();
  VariantModel(VariantModel &&) noexcept;
  VariantModel &operator=(VariantModel &&) noexcept;

  /// The estimate for given sizes (in the order of Choosing::sizes) and ranks; nothing where the
  /// model cannot say, or where the variant cannot run (Variant::wholeWords).
  [[nodiscard]] std::optional<double> nanoseconds(llvm::ArrayRef<int64_t> sizes, int64_t ranks);
  /// The same of a kernel with these constants alone, which runs all launches.
  [[nodiscard]] std::optional<double> nanosecondsPinned(llvm::ArrayRef<int64_t> sizes,
                                                        int64_t ranks);
  /// The same launch in its parts.
  [[nodiscard]] std::optional<backend::LaunchTimeline> timeline(llvm::ArrayRef<int64_t> sizes,
                                                                int64_t ranks);
  /// Whether the machine can run it without spilling what its bodies hold.
  [[nodiscard]] bool isPossible() const;
  /// The sizes that the times depend on, in the order that `nanoseconds` takes.
  [[nodiscard]] std::vector<std::string> sizes() const;

private:
  struct Prepared;
  std::unique_ptr<Prepared> made_;
  bool wholeWords_ = false;
};

/// Whether other ranks see what a kernel does.
[[nodiscard]] bool communicates(const ir::Op &kernel);

/// Whether some kernel leaves a constant to the compiler that no `--const` pins.
[[nodiscard]] bool haveChoices(Session &session, const sema::Program &program,
                               llvm::ArrayRef<const ast::KernelDecl *> kernels);

} // namespace dtile::driver
