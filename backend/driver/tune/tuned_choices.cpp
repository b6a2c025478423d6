// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds the lines of a tuning file against a kernel.
#include "backend/driver/tune/tuned_choices.h"

#include "backend/driver/execute/declared_sizes.h"
#include "backend/runtime/dtile.h"
#include "ir/core/text_format.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

namespace dtile::driver {

namespace {

/// The first size of an argument that an expression reads.
const sema::TExpr *firstDim(const sema::TExpr *e) {
  if (!e || e->kind == sema::TExprKind::LaunchDim)
    return e;
  for (const sema::TExpr *operand : e->operands)
    if (const sema::TExpr *found = firstDim(operand))
      return found;
  return nullptr;
}

/// Values by name in the order of `names`; empty, with the name in `wrong`, where they are others.
std::optional<Constants> inOrder(const Constants &given, llvm::ArrayRef<std::string> names,
                                 std::string &wrong) {
  Constants ordered;
  for (const std::string &name : names) {
    const auto it = llvm::find_if(given, [&](const auto &one) { return one.first == name; });
    if (it == given.end()) {
      wrong = name;
      return std::nullopt;
    }
    ordered.push_back(*it);
  }
  for (const auto &[name, value] : given)
    if (!llvm::is_contained(names, name)) {
      wrong = name;
      return std::nullopt;
    }
  return ordered;
}

std::string thisProcessor() {
  char name[256] = "";
  return dtile_machine_name("host", 0, name, sizeof name) == DTILE_OK ? name : "";
}

/// One kernel and one section at a time.
class Matcher {
public:
  Matcher(Session &session, const sema::KernelInstance &usual, llvm::ArrayRef<sema::Choice> choices,
          StaleChoices stale)
      : session_(session), usual_(usual), stale_(stale), places_(sizePlaces(usual)) {
    for (const sema::Choice &choice : choices)
      constantNames_.push_back(choice.name);
    for (const SizePlace &place : places_) {
      sizeNames_.push_back(place.name);
      made_.places.emplace_back(int32_t(place.param), int32_t(place.dim));
    }
  }

  /// `alternatives`: of the name for several kernels that the section is of; none where it is of
  /// the kernel itself.
  void add(const TuningSection &section, const ast::KernelDecl *family,
           llvm::ArrayRef<const ast::KernelDecl *> alternatives) {
    for (const TunedChoice &choice : section.choices)
      if (family ? choice.alternative == usual_.decl->name.name : choice.alternative.empty())
        add(choice, section.machine, family);
      else if (llvm::none_of(alternatives, [&](const ast::KernelDecl *one) {
                 return one->name.name == choice.alternative;
               }))
        tell(choice.loc,
             "`" + section.kernel + "` has no alternative `" + choice.alternative + "`");
  }

  void tell(SourceLoc loc, const std::string &why) {
    if (stale_ == StaleChoices::Reported)
      session_.diagnostics.report(loc, diag::stale_tuning, why);
  }

  KernelTuning take() { return std::move(made_); }

private:
  void add(const TunedChoice &given, const std::string &machine, const ast::KernelDecl *family) {
    const std::string name = "`" + usual_.decl->name.name.str() + "`";
    std::string wrong;
    TunedChoice choice = given;
    const auto sizes = inOrder(given.sizes, sizeNames_, wrong);
    if (!sizes)
      return tell(given.loc, "the sizes of " + name + " are " + llvm::join(sizeNames_, ", ") +
                                 ", which `" + wrong + "` does not fit");
    const auto constants = inOrder(given.constants, constantNames_, wrong);
    if (!constants)
      return tell(given.loc, "the constants that " + name + " leaves to the compiler are " +
                                 llvm::join(constantNames_, ", ") + ", which `" + wrong +
                                 "` does not fit");
    choice.sizes = *sizes;
    choice.constants = *constants;
    std::vector<int64_t> values;
    for (const auto &[size, value] : *sizes)
      values.push_back(value);
    auto arguments = argumentSizes(usual_, values, given.ranks);
    if (!arguments)
      return tell(given.loc, llvm::toString(arguments.takeError()));
    KernelTuning::Row row{std::move(choice), machine, family, 0, {}};
    for (const SizePlace &place : places_)
      row.sizes.push_back((*arguments)[place.param][place.dim]);
    const auto known = llvm::find(made_.configurations, row.choice.constants);
    row.configuration = size_t(known - made_.configurations.begin());
    if (known == made_.configurations.end())
      made_.configurations.push_back(row.choice.constants);
    made_.rows.push_back(std::move(row));
  }

  Session &session_;
  const sema::KernelInstance &usual_;
  StaleChoices stale_;
  std::vector<SizePlace> places_;
  std::vector<std::string> sizeNames_, constantNames_;
  KernelTuning made_;
};

} // namespace

std::vector<SizePlace> sizePlaces(const sema::KernelInstance &instance) {
  std::vector<SizePlace> places;
  for (auto [i, symbol] : llvm::enumerate(instance.symbols))
    if (const sema::TExpr *dim = firstDim(symbol.solution))
      places.push_back({symbol.name, unsigned(i), unsigned(dim->param), unsigned(dim->dim)});
  return places;
}

llvm::Expected<std::vector<std::vector<int64_t>>>
argumentSizes(const sema::KernelInstance &instance, llvm::ArrayRef<int64_t> sizes, int64_t ranks) {
  SolvedSizes solved;
  solved.symbols.resize(instance.symbols.size());
  for (auto [place, size] : llvm::zip_equal(sizePlaces(instance), sizes))
    solved.symbols[place.symbol] = size;
  const std::vector<std::optional<int64_t>> scalars(instance.params.size());
  // Symbols that follow from others alone.
  for (size_t i = 0; i < instance.symbols.size(); ++i)
    if (!solved.symbols[i] && instance.symbols[i].solution)
      solved.symbols[i] = launchNumber(*instance.symbols[i].solution, solved, scalars, ranks);
  std::vector<std::vector<int64_t>> found;
  for (const sema::KernelParam &param : instance.params) {
    std::vector<int64_t> &own = found.emplace_back();
    for (auto [d, size] : llvm::enumerate(param.sizes)) {
      const auto number = launchNumber(*size, solved, scalars, ranks);
      if (isLaunchArgument(param) && (!number || *number < 0))
        return llvm::createStringError("dimension " + std::to_string(d) + " of `" + param.name +
                                       "` has no size by these");
      own.push_back(number.value_or(0));
    }
  }
  return found;
}

std::string tuningHash(Session &session, sema::Program &program, const sema::KernelInstance &usual,
                       const ChoiceValues &choices) {
  const LoweredModule lowered = lowerKernels(session, program, &usual);
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(*lowered.module, os);
  for (auto [choice, values] : llvm::zip_equal(choices.choices, choices.values)) {
    os << choice.name;
    for (const int64_t value : values)
      os << ' ' << value;
    os << '\n';
  }
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, /*Width=*/16);
}

std::string familyHash(Session &session, sema::Program &program,
                       llvm::ArrayRef<const ast::KernelDecl *> alternatives) {
  std::string all;
  for (const ast::KernelDecl *one : alternatives) {
    const sema::GenericArgs pins = constantsFor(session, *one);
    if (const sema::KernelInstance *usual =
            program.instantiate(one, pins, one->name.range, session.diagnostics))
      all += one->name.name.str() + " " +
             tuningHash(session, program, *usual, choiceValues(program, *one, pins)) + "\n";
  }
  return llvm::utohexstr(llvm::xxh3_64bits(all), /*LowerCase=*/true, /*Width=*/16);
}

KernelTuning tuningFor(Session &session, sema::Program &program, const ast::KernelDecl &kernel,
                       const sema::GenericArgs &pins, const TargetArch &target,
                       const TuningFile &file, StaleChoices stale) {
  const ChoiceValues choices = choiceValues(program, kernel, pins);
  const sema::KernelInstance *usual =
      program.instantiate(&kernel, pins, kernel.name.range, session.diagnostics);
  if (!usual)
    return {};
  Matcher matcher(session, *usual, choices.choices, stale);
  const auto match = [&](const std::string &entry, const ast::KernelDecl *family,
                         llvm::ArrayRef<const ast::KernelDecl *> alternatives,
                         llvm::function_ref<std::string()> hashNow) {
    std::string hash;
    for (const TuningSection &section : file.sections) {
      if (section.target != target.target->name() || section.arch != target.arch ||
          section.kernel != entry)
        continue;
      if (hash.empty())
        hash = hashNow();
      if (target.arch.empty() && section.machine != thisProcessor())
        matcher.tell(section.loc, "this was measured on `" + section.machine +
                                      "`, and this machine is `" + thisProcessor() + "`");
      else if (section.hash != hash)
        matcher.tell(section.loc, "kernel `" + section.kernel +
                                      "`, or what its constants may be, has changed since it was "
                                      "tuned");
      else
        matcher.add(section, family, alternatives);
    }
  };
  match(usual->entry, nullptr, {}, [&] { return tuningHash(session, program, *usual, choices); });
  for (const ast::KernelDecl *family : program.families()) {
    const auto alternatives = program.alternatives(family);
    if (llvm::is_contained(alternatives, &kernel))
      match(program.familyName(family, *usual), family, alternatives,
            [&] { return familyHash(session, program, alternatives); });
  }
  return matcher.take();
}

KernelTuning familyTuning(const ast::KernelDecl &family, const sema::KernelInstance &first,
                          llvm::ArrayRef<const KernelTuning *> alternatives) {
  KernelTuning made;
  const std::vector<SizePlace> places = sizePlaces(first);
  for (const SizePlace &place : places)
    made.places.emplace_back(int32_t(place.param), int32_t(place.dim));
  for (auto [i, tuning] : llvm::enumerate(alternatives))
    for (const KernelTuning::Row &row : tuning->rows) {
      if (row.family != &family)
        continue;
      KernelTuning::Row &own = made.rows.emplace_back(row);
      own.configuration = i;
      // One signature has one list of sizes; what its kernels have besides may change the order.
      own.sizes.clear();
      for (const SizePlace &place : places)
        for (auto [named, size] : llvm::zip_equal(row.choice.sizes, row.sizes))
          if (named.first == place.name)
            own.sizes.push_back(size);
    }
  return made;
}

void keepTuned(Session &session, const TargetArch &target, Choosing &choosing, KernelTuning &tuning,
               StaleChoices stale) {
  // Where one configuration is as good as another to the model, nothing was tried.
  if (choosing.wanted.empty())
    return tuning.rows.clear();
  const std::string machine = target.arch.empty() ? target.target->name().str() : target.arch;
  llvm::erase_if(tuning.rows, [&](const KernelTuning::Row &row) {
    if (choosing.wanted[row.configuration])
      return false;
    if (stale == StaleChoices::Reported)
      session.diagnostics.report(row.choice.loc, diag::stale_tuning,
                                 "`" + text(row.choice.constants) + "` " +
                                     (choosing.ruledOut > 0
                                          ? "adds up in another order than `--batch-invariant` "
                                            "keeps, or cannot be built for "
                                          : "cannot be built for ") +
                                     machine);
    return true;
  });
  for (const KernelTuning::Row &row : tuning.rows)
    if (const size_t position = *choosing.wanted[row.configuration];
        !llvm::is_contained(choosing.kept, position))
      choosing.kept.push_back(position);
}

std::vector<bool> agreedPlaces(const KernelTuning &tuning, const sema::KernelInstance &instance,
                               llvm::ArrayRef<ir::Op *> kernels) {
  std::vector<bool> agreed(tuning.places.size(), true);
  for (auto [s, place] : llvm::enumerate(tuning.places))
    for (ir::Op *kernel : kernels)
      for (ir::Op &op : kernel->body().ops())
        if (op.is(ir::OpKind::Param) &&
            op.get(ir::attr::name) == instance.params[size_t(place.first)].name)
          agreed[s] =
              agreed[s] &&
              (backend::launch::agreedDims(*kernel, op.get(ir::attr::param)) >> place.second & 1);
  return agreed;
}

const KernelTuning::Row *rowFor(const KernelTuning &tuning, const sema::KernelInstance &instance,
                                llvm::ArrayRef<int64_t> sizes, int64_t ranks,
                                const std::vector<bool> &counts) {
  auto arguments = argumentSizes(instance, sizes, ranks);
  if (!arguments) {
    llvm::consumeError(arguments.takeError());
    return nullptr;
  }
  std::vector<int64_t> own;
  for (const auto &[param, dim] : tuning.places)
    own.push_back((*arguments)[size_t(param)][size_t(dim)]);
  std::vector<const KernelTuning::Row *> rows;
  std::vector<runtime::TunedPoint> points;
  for (const KernelTuning::Row &row : tuning.rows)
    if (row.choice.ranks == ranks) {
      rows.push_back(&row);
      points.push_back({int32_t(row.configuration), row.sizes});
    }
  const int32_t found = runtime::chooseTuned(points, own, counts);
  return found < 0 ? nullptr : rows[size_t(found)];
}

} // namespace dtile::driver
