// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec build`: object files and what goes with them. Everything is made in memory, then all
// files appear together.
#include "backend/driver/check/quick_check.h"
#include "backend/driver/choose/lower_variants.h"
#include "backend/driver/choose/size_ranges.h"
#include "backend/driver/compile.h"
#include "backend/driver/machine_option.h"
#include "backend/driver/output/depfile.h"
#include "backend/driver/output/output_file.h"
#include "backend/driver/output/recorded_names.h"
#include "backend/driver/target_code.h"

#include "backend/host/host.h"
#include "backend/launch/package.h"
#include "backend/lowering_error.h"
#include "frontend/base/check.h"
#include "ir/analysis/clauses.h"
#include "ir/core/builder.h"
#include "ir/core/text_format.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/xxhash.h"

namespace dtile::driver {

namespace {

// The program's name with another ending: what depfile and header speak of where there is no file.
std::string nameWith(const Options &options, llvm::StringRef extension) {
  llvm::SmallString<128> name(llvm::sys::path::filename(options.inputs.front()));
  if (name == "-")
    name = "stdin";
  llvm::sys::path::replace_extension(name, extension);
  return name.str().str();
}

// AG_GEMM_H of out/ag_gemm.h. Names that differ only in what no identifier can have differ in a
// number: both headers may be included.
std::string headerGuard(llvm::StringRef file) {
  std::string guard = file.upper();
  for (char &c : guard)
    if (!llvm::isAlnum(c))
      c = '_';
  llvm::StringRef stem = file;
  stem.consume_back(".h");
  if (!llvm::all_of(stem, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    guard += "_" + llvm::utohexstr(llvm::xxh3_64bits(file) & UINT32_MAX);
  // Identifiers with `_` and a capital are the C library's.
  if (guard.empty() || !llvm::isAlpha(guard[0]))
    guard = "DTILE_" + guard;
  return guard;
}

std::string headerText(const Options &options, LoweredModule &lowered, llvm::StringRef path) {
  const std::string written = path == "-" ? nameWith(options, "h") : path.str();
  return backend::host::cHeader(*lowered.module, headerGuard(llvm::sys::path::filename(written)));
}

// What was read, and what would have been, were it there.
std::string inputList(llvm::ArrayRef<std::string> read, llvm::ArrayRef<std::string> absent) {
  std::string text;
  for (const std::string &file : read)
    if (!llvm::StringRef(file).starts_with("<"))
      text += "+" + file + '\0';
  for (const std::string &file : absent)
    text += "-" + file + '\0';
  return text;
}

std::nullopt_t failed(Session &session, llvm::Error error) {
  error = llvm::handleErrors(std::move(error), [&](const backend::LoweringError &located) {
    session.diagnostics.report(located.loc, diag::build_failed, located.what);
  });
  if (error)
    session.diagnostics.report(SourceLoc{}, diag::build_failed, llvm::toString(std::move(error)));
  return std::nullopt;
}

/// A copy for a target; tells of what makes its code slow. Null after reporting.
std::unique_ptr<ir::Module> preparedFor(Session &session, ir::Module &source,
                                        const TargetArch &target) {
  std::vector<passes::Remark> losses;
  std::unique_ptr<ir::Module> module =
      prepareFor(session.diagnostics, source, target, nullptr, &losses);
  for (const passes::Remark &loss : losses)
    session.diagnostics.report(loss.loc, diag::slow_code, loss.text);
  return module;
}

/// What is built: kernels as any machine runs them, and for each target that chooses constants of
/// its own the variants for it.
struct Sources {
  LoweredModule common;
  std::vector<TargetArch> targets;
  /// One a target; without a module where it takes the common one.
  std::vector<LoweredModule> own;
  /// What was made with these.
  std::vector<VariantsInfo> infos;

  [[nodiscard]] ir::Module &of(size_t target) {
    return own[target].module ? *own[target].module : *common.module;
  }
};

// One file for all targets.
std::optional<std::string> object(Session &session, Sources &sources) {
  const Options &options = session.options;
  auto package = backend::launch::Package::create(
      {.cpu = options.cpu, .optLevel = unsigned(options.optLevel)});
  if (!package)
    return failed(session, package.takeError());
  size_t leftOut = 0, slow = 0;
  for (const auto [i, target] : llvm::enumerate(sources.targets)) {
    const auto module = preparedFor(session, sources.of(i), target);
    if (!module)
      return std::nullopt;
    backend::TargetOptions targeted = targetOptions(options, target);
    targeted.packImages = true;
    if (llvm::Error error = target.target->addTo(**package, *module, targeted))
      return failed(session, std::move(error));
    for (const auto &[what, why] : (*package)->leftOut().drop_front(leftOut))
      session.diagnostics.report(SourceLoc{}, diag::tuning_failed, what, why);
    leftOut = (*package)->leftOut().size();
    for (const auto &[where, what] : (*package)->slow().drop_front(slow))
      session.diagnostics.report(where, diag::slow_code, what);
    slow = (*package)->slow().size();
    for (const TunedEntry &tuned : sources.infos[i].tuned) {
      backend::launch::KernelCode &code = (*package)->code(tuned.entry);
      code.tunedSizes = tuned.places;
      llvm::append_range(code.tuned, tuned.rows);
    }
  }
  if (options.emit == EmitKind::TvmFfi)
    (*package)->exportTvmFfi();
  if (llvm::Error error = (*package)->finish(*sources.common.module))
    return failed(session, std::move(error));
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream os(bytes);
  if (llvm::Error error = (*package)->emit(backend::EmitKind::Obj, os))
    return failed(session, std::move(error));
  return bytes.str().str();
}

// A file of one target.
std::optional<std::string> generate(Session &session, ir::Module &source, const TargetArch &target,
                                    backend::EmitKind kind) {
  const auto module = preparedFor(session, source, target);
  if (!module)
    return std::nullopt;
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream os(bytes);
  if (llvm::Error error =
          target.target->emit(*module, targetOptions(session.options, target), kind, os))
    return failed(session, std::move(error));
  return bytes.str().str();
}

std::optional<std::string> irText(Session &session, ir::Module &source, const TargetArch &target) {
  const auto module = preparedFor(session, source, target);
  if (!module)
    return std::nullopt;
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(*module, os);
  return text;
}

struct EmitName {
  EmitKind kind;
  llvm::StringLiteral name;
  // What a target is asked for; none for what is made before one is chosen.
  std::optional<backend::EmitKind> backend;
};
constexpr EmitName kEmitNames[] = {
    {EmitKind::Object, "obj", backend::EmitKind::Obj},
    // An object whose kernels are functions of TVM FFI, too.
    {EmitKind::TvmFfi, "tvm-ffi", backend::EmitKind::Obj},
    {EmitKind::Assembly, "asm", backend::EmitKind::Asm},
    {EmitKind::Llvm, "llvm", backend::EmitKind::LlvmIr},
    {EmitKind::Ir, "ir", std::nullopt},
    {EmitKind::Header, "header", std::nullopt},
    {EmitKind::Depfile, "depfile", std::nullopt},
    {EmitKind::Ptx, "ptx", backend::EmitKind::Ptx},
    {EmitKind::Cubin, "cubin", backend::EmitKind::Cubin},
    {EmitKind::Hsaco, "hsaco", backend::EmitKind::Hsaco},
    {EmitKind::SassStats, "sass-stats", backend::EmitKind::Stats},
};

const EmitName &emitName(EmitKind kind) {
  return *llvm::find_if(kEmitNames, [&](const EmitName &name) { return name.kind == kind; });
}

bool isObject(EmitKind kind) { return kind == EmitKind::Object || kind == EmitKind::TvmFfi; }

// Code of one target at a time; with several architectures there is a file for each.
bool isOnePerTarget(EmitKind kind) {
  return !isObject(kind) && kind != EmitKind::Header && kind != EmitKind::Depfile;
}

std::optional<std::string> depfile(Session &session, llvm::ArrayRef<std::string> read,
                                   llvm::StringRef target) {
  auto text = depfileText(read, target);
  if (text)
    return std::move(*text);
  session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(text.takeError()));
  return std::nullopt;
}

std::optional<std::string> mainOutput(Session &session, llvm::ArrayRef<std::string> read,
                                      Sources &sources, size_t target) {
  const Options &options = session.options;
  switch (options.emit) {
  case EmitKind::Object:
  case EmitKind::TvmFfi:
    return object(session, sources);
  case EmitKind::Ir:
    return irText(session, sources.of(target), sources.targets[target]);
  case EmitKind::Header:
    return headerText(options, sources.common, options.output);
  case EmitKind::Depfile:
    return depfile(session, read, nameWith(options, "o"));
  case EmitKind::Assembly:
  case EmitKind::Llvm:
  case EmitKind::Ptx:
  case EmitKind::Cubin:
  case EmitKind::Hsaco:
  case EmitKind::SassStats:
    return generate(session, sources.of(target), sources.targets[target],
                    *emitName(options.emit).backend);
  }
  DTILE_UNREACHABLE("unknown kind of output");
}

// out/a.ptx is out/a.sm_90a.ptx where there are several architectures.
std::string outputFor(const Options &options, llvm::ArrayRef<TargetArch> targets,
                      const TargetArch &target) {
  if (targets.size() == 1 || options.output == "-" || !isOnePerTarget(options.emit))
    return options.output;
  llvm::SmallString<128> path(options.output);
  const std::string extension = llvm::sys::path::extension(path).str();
  llvm::StringRef name = target.arch.empty() ? target.target->name() : llvm::StringRef(target.arch);
  llvm::sys::path::replace_extension(path, name + extension);
  return path.str().str();
}

// Images say themselves what they are for.
std::vector<TargetArch> chooseTargets(Session &session) {
  const Options &options = session.options;
  const std::optional<backend::EmitKind> wanted = emitName(options.emit).backend;
  if (options.hasTarget || !wanted || backend::findTarget("host")->canEmit(*wanted))
    return selectTargets(session, options.target);
  for (const backend::Target *target : backend::allTargets())
    if (target->canEmit(*wanted))
      return selectTargets(session, target->name());
  return selectTargets(session, options.target);
}

bool checkEmit(Session &session, llvm::ArrayRef<TargetArch> targets) {
  const Options &options = session.options;
  const EmitName &emit = emitName(options.emit);
  auto report = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::cannot_emit, emit.name, why);
    return false;
  };
  if (!options.assemble && (options.emit == EmitKind::Cubin || options.emit == EmitKind::SassStats))
    return report("is what `--no-assemble` leaves out");
  for (const TargetArch &target : targets)
    if (emit.backend && !target.target->canEmit(*emit.backend))
      return report("is not for target `" + target.target->name().str() + "`");
  if (!isOnePerTarget(options.emit) || targets.size() == 1)
    return true;
  if (options.output == "-")
    return report("is one file an architecture, and there are several; name a file with -o");
  if (!options.depfile.empty())
    return report("is one file an architecture, and a depfile speaks of one; choose one --arch");
  return true;
}

struct Output {
  std::string path;
  std::string bytes;
};

// No output is a file that was read, by whatever path.
bool checkOutputs(Session &session, llvm::ArrayRef<Output> outputs,
                  llvm::ArrayRef<std::string> read) {
  for (const Output &output : outputs)
    for (const std::string &file : read)
      if (output.path != "-" && llvm::sys::fs::equivalent(output.path, file)) {
        session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                                   "`" + output.path +
                                       "` is a file of the program itself; choose another output");
        return false;
      }
  return true;
}

// On GPUs the elements are not where prologues run, and what all ranks have no rank knows.
bool markChecked(Session &session, ir::Module &module, llvm::ArrayRef<TargetArch> targets) {
  for (const TargetArch &target : targets)
    if (target.target->name() != "host") {
      session.diagnostics.report(
          SourceLoc{}, diag::bad_command_line,
          "`--check-requires` is for host code: elements of inputs of target `" +
              target.target->name().str() + "` are on the device",
          "dtilec build");
      return false;
    }
  for (ir::Op &kernel : module.body().ops())
    if (kernel.is(ir::OpKind::Kernel))
      for (ir::Op *clause : ir::clausesOf(kernel))
        if (clause->is(ir::OpKind::LaunchElements))
          clause->set(ir::attr::checked, true);
  return true;
}

bool checkOptions(Session &session) {
  const Options &options = session.options;
  if (options.output == "-" && isObject(options.emit) &&
      llvm::sys::Process::StandardOutIsDisplayed()) {
    session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                               "an object file is not for a terminal; name a file with -o");
    return false;
  }
  return true;
}

// What is one file an architecture is made for one after the other.
std::optional<std::vector<Output>> makeOutputs(Session &session, llvm::ArrayRef<std::string> read,
                                               llvm::ArrayRef<std::string> absent,
                                               Sources &sources) {
  const Options &options = session.options;
  std::vector<Output> outputs;
  for (const auto [i, target] : llvm::enumerate(sources.targets)) {
    auto bytes = mainOutput(session, read, sources, i);
    if (!bytes)
      return std::nullopt;
    outputs.push_back({outputFor(options, sources.targets, target), std::move(*bytes)});
    if (!isOnePerTarget(options.emit))
      break;
  }
  if (!options.header.empty())
    outputs.push_back({options.header, headerText(options, sources.common, options.header)});
  if (!options.depfile.empty()) {
    auto text =
        depfile(session, read, options.output == "-" ? nameWith(options, "o") : options.output);
    if (!text)
      return std::nullopt;
    outputs.push_back({options.depfile, std::move(*text)});
  }
  if (!options.inputList.empty())
    outputs.push_back({options.inputList, inputList(read, absent)});
  return outputs;
}

llvm::Error writeOutputs(llvm::ArrayRef<Output> outputs) {
  OutputFiles files;
  for (const Output &output : outputs)
    if (llvm::Error error = files.add(output.path, output.bytes))
      return error;
  return files.commit();
}

/// Whether `--sizes` makes sense, for one of the kernels at least. False after reporting.
bool checkExpectedSizes(Session &session, sema::Program *program,
                        llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  if (session.options.expectedSizes.empty())
    return true;
  std::vector<std::string> names;
  for (const ast::KernelDecl *kernel : kernels) {
    const sema::KernelInstance *instance = program->instantiate(
        kernel, constantsFor(session, *kernel), kernel->name.range, session.diagnostics);
    if (!instance)
      return false;
    for (const SizePlace &place : sizePlaces(*instance))
      if (!llvm::is_contained(names, place.name))
        names.push_back(place.name);
  }
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_size, why);
    return false;
  };
  for (const std::string &launch : session.options.expectedSizes) {
    std::string why;
    const auto ranges = readSizeRanges(launch, why);
    if (!ranges)
      return refuse(why);
    for (const SizeRange &range : *ranges)
      if (range.name != kRanks && !llvm::is_contained(names, range.name))
        return refuse("names `" + range.name + "`; " +
                      (names.empty()
                           ? "the arguments have no sizes"
                           : "the sizes of the arguments are " + llvm::join(names, ", ")));
  }
  return true;
}

// Targets with a model of their machine choose what kernels leave to the compiler; of others,
// choices may have been measured.
bool addVariants(Session &session, sema::Program *program, Sources &sources) {
  sources.own.resize(sources.targets.size());
  sources.infos.resize(sources.targets.size());
  std::optional<TuningFile> tuning;
  if (!session.options.tuning.empty()) {
    tuning = readTuningFile(session, session.options.tuning);
    if (!tuning)
      return false;
  }
  const auto kernels =
      program ? selectKernels(session, *program) : std::vector<const ast::KernelDecl *>();
  if (!checkExpectedSizes(session, program, kernels))
    return false;
  // Which of several kernels of one name runs may have been measured, too.
  const bool isChosen = program && (haveChoices(session, *program, kernels) ||
                                    (tuning && !program->families().empty()));
  if (!isChosen || session.options.emit == EmitKind::Header ||
      session.options.emit == EmitKind::Depfile)
    return true;
  for (auto [target, own, info] : llvm::zip_equal(sources.targets, sources.own, sources.infos)) {
    if (!target.facts() && !tuning)
      continue;
    own = lowerVariants(session, *program, kernels, target, tuning ? &*tuning : nullptr, &info);
    if (!own.module)
      return false;
  }
  return true;
}

// Which alternative runs depends on the sizes, and each adds up in its own order.
bool checkAlternatives(Session &session, const sema::Program &program) {
  bool isFine = true;
  const auto kernels = selectKernels(session, program);
  for (const ast::KernelDecl *family : program.families()) {
    const auto count = llvm::count_if(program.alternatives(family), [&](const auto *one) {
      return llvm::is_contained(kernels, one);
    });
    if (count <= 1)
      continue;
    session.diagnostics.report(family->name.range, diag::batch_varies,
                               "`" + family->name.name.str() +
                                   "` is another kernel for other sizes: pin one by `--const "
                                   "alternative=…`");
    isFine = false;
  }
  return isFine;
}

void buildFile(Session &session) {
  const Options &options = session.options;
  const std::vector<TargetArch> targets = chooseTargets(session);
  if (targets.empty() || !checkEmit(session, targets))
    return;
  std::unique_ptr<sema::Program> program;
  Sources sources{readModule(session, options.inputs.front(), program), targets, {}, {}};
  LoweredModule &lowered = sources.common;
  // IR text is built as it stands: `dtilec ir` runs passes on it.
  if (!lowered.module)
    return;
  if (options.checkRequires && !markChecked(session, *lowered.module, targets))
    return;
  if (program && options.batchInvariant && !checkAlternatives(session, *program))
    return;
  if (!addVariants(session, program.get(), sources))
    return;
  // Whatever runs has been checked; numbers of registers do not run.
  const bool isChecked = program && options.emit != EmitKind::SassStats;
  std::optional<QuickCheck> check;
  if (program) {
    std::unique_ptr<ir::Module> written = ir::cloneModule(*lowered.module);
    if (!optimize(session, lowered, options.optLevel))
      return;
    if (isChecked)
      check.emplace(session, std::move(written), *lowered.module, targets, lowered.promises);
  }
  std::vector<std::unique_ptr<QuickCheck>> checks;
  for (size_t i = 0; i < sources.own.size(); ++i)
    if (isChecked && sources.infos[i].written)
      checks.push_back(std::make_unique<QuickCheck>(session, std::move(sources.infos[i].written),
                                                    *sources.own[i].module, targets[i]));
  std::vector<std::string> read =
      program ? std::vector<std::string>(program->files()) : options.inputs;
  SourceManager recorded;
  if (!options.filePrefixes.empty()) {
    addRecorded(recorded, session.sources, read.size(), options.filePrefixes);
    lowered.module->setSources(&recorded);
    for (LoweredModule &own : sources.own)
      if (own.module)
        own.module->setSources(&recorded);
  }
  // Outputs depend on it, and call no file of theirs by its name.
  if (!options.tuning.empty())
    read.push_back(options.tuning);
  if (isMachineFile(options.machineName))
    read.push_back(options.machineName);
  const auto outputs = makeOutputs(
      session, read, program ? program->absentFiles() : llvm::ArrayRef<std::string>(), sources);
  bool isFine = !check || check->finish(session.diagnostics);
  for (const std::unique_ptr<QuickCheck> &variants : checks)
    isFine &= variants->finishVariants(session.diagnostics);
  if (!isFine || !outputs || !checkOutputs(session, *outputs, read))
    return;
  if (llvm::Error error = writeOutputs(*outputs))
    session.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
}

} // namespace

ExitCode runBuild(const Options &options) {
  Session session(options);
  if (checkOptions(session))
    buildFile(session);
  return session.finish();
}

} // namespace dtile::driver
