// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// File to checked program to IR to optimized IR, with errors reported at each step.
#include "backend/driver/compile.h"

#include "backend/driver/check/promises.h"
#include "backend/driver/stdlib_files.h"
#include "frontend/base/check.h"
#include "ir/core/text_format.h"
#include "ir/from_ast/lower.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace dtile::driver {

namespace {

std::optional<sema::GenericValue> parseGenericValue(llvm::StringRef text) {
  sema::GenericValue value;
  if (text == "true" || text == "false") {
    value.kind = sema::GenericValue::Kind::Bool;
    value.intValue = text == "true";
    return value;
  }
  if (auto dtype = dtypeFromName(text)) {
    value.kind = sema::GenericValue::Kind::DType;
    value.dtype = *dtype;
    return value;
  }
  if (!text.getAsInteger(0, value.intValue))
    return value;
  return std::nullopt;
}

// `BM`, or `gemm.BM` of kernel `gemm`.
bool hasGeneric(const ast::KernelDecl &kernel, llvm::StringRef name) {
  if (name.contains('.')) {
    if (!name.consume_front(kernel.name.name) || !name.consume_front("."))
      return false;
  }
  return llvm::any_of(kernel.generics,
                      [&](const ast::GenericParam &generic) { return generic.name.name == name; });
}

// IR text by its name; on standard input, by its first word: programs have no `version`, and write
// no `@` there.
bool isIrText(const Session &session, llvm::StringRef path, FileId file) {
  if (path != "-")
    return path.ends_with(".dtir");
  llvm::StringRef text = session.sources.text(file).ltrim();
  while (text.consume_front("//"))
    text = text.drop_until([](char c) { return c == '\n'; }).ltrim();
  if (text.consume_front("version"))
    return true;
  return (text.consume_front("kernel") || text.consume_front("func")) &&
         text.ltrim().starts_with("@");
}

} // namespace

sema::Options importOptions(const Options &options) {
  sema::Options result;
  result.importPaths = options.importPaths;
  for (const EmbeddedFile &embedded : stdlibFiles())
    result.embeddedFiles.emplace_back(embedded.name.str(), embedded.text.str());
  return result;
}

std::unique_ptr<sema::Program> analyzeFile(Session &session, llvm::StringRef path) {
  std::optional<FileId> file = session.load(path);
  return file ? analyzeFile(session, *file) : nullptr;
}

std::unique_ptr<sema::Program> analyzeFile(Session &session, FileId file) {
  PhaseScope phase("checking a program");
  const ErrorMark mark(session);
  auto program = sema::Program::analyze(file, session.sources, session.diagnostics,
                                        importOptions(session.options));
  return mark.failed() ? nullptr : std::move(program);
}

static bool checkValues(Session &session, llvm::ArrayRef<NamedText> constants) {
  bool fine = true;
  for (const auto &[name, text] : constants)
    if (name != sema::kAlternativeLabel && !parseGenericValue(text)) {
      session.diagnostics.report(SourceLoc{}, diag::bad_constant, name, text);
      fine = false;
    }
  return fine;
}

bool checkConstantValues(Session &session) {
  return checkValues(session, session.options.constants);
}

/// `--const alternative=two_shot` names an alternative of some kernel.
static bool checkAlternative(Session &session, const sema::Program &program, llvm::StringRef name) {
  std::vector<std::string> names, families;
  for (const ast::KernelDecl *family : program.families()) {
    families.push_back(family->name.name.str());
    for (const ast::KernelDecl *one : program.alternatives(family)) {
      if (one->name.name == name)
        return true;
      names.push_back("`" + one->name.name.str() + "`");
    }
  }
  if (families.empty())
    session.diagnostics.report(SourceLoc{}, diag::unknown_constant, sema::kAlternativeLabel);
  else
    session.diagnostics.report(SourceLoc{}, diag::no_such_alternative, name,
                               llvm::join(families, "`, `"), llvm::join(names, ", "));
  return false;
}

bool checkConstants(Session &session, const sema::Program &program) {
  return checkConstants(session, program, session.options.constants);
}

bool checkConstants(Session &session, const sema::Program &program,
                    llvm::ArrayRef<NamedText> constants) {
  bool fine = checkValues(session, constants);
  llvm::StringMap<llvm::StringRef> given;
  for (const auto &[name, text] : constants)
    if (auto [first, isNew] = given.try_emplace(name, text); !isNew) {
      session.diagnostics.report(SourceLoc{}, diag::repeated_constant, name, first->second, text);
      fine = false;
    }
  for (const auto &[name, text] : constants)
    if (name == sema::kAlternativeLabel) {
      fine &= checkAlternative(session, program, text);
    } else if (llvm::none_of(program.kernels(), [&, &name = name](const ast::KernelDecl *kernel) {
                 return hasGeneric(*kernel, name);
               })) {
      session.diagnostics.report(SourceLoc{}, diag::unknown_constant, name);
      fine = false;
    }
  return fine;
}

sema::GenericArgs constantsFor(Session &session, const ast::KernelDecl &kernel) {
  return constantsFor(kernel, session.options.constants);
}

sema::GenericArgs constantsFor(const ast::KernelDecl &kernel, llvm::ArrayRef<NamedText> constants) {
  sema::GenericArgs args;
  // What is said of one kernel goes before what is said of all.
  for (const bool isOwn : {true, false})
    for (const auto &[name, text] : constants) {
      const auto value = parseGenericValue(text);
      if (!value || !hasGeneric(kernel, name) || llvm::StringRef(name).contains('.') != isOwn)
        continue;
      const std::string plain = llvm::StringRef(name).rsplit('.').second.str();
      const std::string &known = isOwn ? plain : name;
      if (llvm::none_of(args.named, [&](const auto &given) { return given.first == known; }))
        args.named.emplace_back(known, *value);
    }
  return args;
}

bool hasAllValues(Session &session, const ast::KernelDecl &kernel) {
  const sema::GenericArgs given = constantsFor(session, kernel);
  return llvm::all_of(kernel.generics, [&](const ast::GenericParam &generic) {
    return generic.defaultValue != nullptr || llvm::any_of(given.named, [&](const auto &named) {
             return named.first == generic.name.name;
           });
  });
}

/// Of the alternatives of a name, leaves the one that `--const alternative=NAME` pins, if it is one
/// of them.
static void keepPinned(const Session &session,
                       llvm::SmallVectorImpl<const ast::KernelDecl *> &alternatives) {
  llvm::StringRef pinned;
  for (const auto &[name, text] : session.options.constants)
    if (name == sema::kAlternativeLabel)
      pinned = text;
  const auto isPinned = [&](const ast::KernelDecl *one) { return one->name.name == pinned; };
  if (llvm::any_of(alternatives, isPinned))
    llvm::erase_if(alternatives, [&](const auto *one) { return !isPinned(one); });
}

std::vector<const ast::KernelDecl *> alternativesOf(const Session &session,
                                                    const sema::Program &program,
                                                    const ast::KernelDecl &kernel) {
  auto alternatives = program.alternatives(&kernel);
  keepPinned(session, alternatives);
  return {alternatives.begin(), alternatives.end()};
}

std::vector<const ast::KernelDecl *> selectKernels(Session &session, const sema::Program &program) {
  std::vector<const ast::KernelDecl *> kernels;
  const std::string &wanted = session.options.kernel;
  if (!wanted.empty()) {
    if (const ast::KernelDecl *kernel = program.findKernel(wanted))
      return alternativesOf(session, program, *kernel);
    std::vector<std::string> names;
    for (const ast::KernelDecl *kernel : program.kernels())
      names.push_back("`" + kernel->name.name.str() + "`");
    session.diagnostics.report(SourceLoc{}, diag::unknown_kernel, wanted,
                               names.empty() ? "none" : llvm::join(names, ", "));
    return {};
  }
  kernels.assign(program.kernels().begin(), program.kernels().end());
  if (kernels.empty())
    session.diagnostics.report(SourceLoc{}, diag::no_kernels,
                               session.sources.name(program.rootModule().file));
  return kernels;
}

std::vector<const sema::KernelInstance *>
instantiateKernels(Session &session, sema::Program &program,
                   llvm::ArrayRef<const ast::KernelDecl *> kernels) {
  const ErrorMark mark(session);
  std::vector<const sema::KernelInstance *> instances;
  for (const ast::KernelDecl *kernel : kernels) {
    if (const sema::KernelInstance *instance = program.instantiate(
            kernel, constantsFor(session, *kernel), kernel->name.range, session.diagnostics))
      instances.push_back(instance);
  }
  if (mark.failed())
    instances.clear();
  return instances;
}

namespace {

/// Says of kernels by which names for several callers may launch them, where all alternatives are
/// among the kernels, or those that `--const alternative=NAME` leaves.
void addFamilies(const Session &session, const sema::Program &program,
                 llvm::ArrayRef<const sema::KernelInstance *> kernels, ir::Module &module) {
  llvm::StringMap<std::vector<std::string>> families;
  for (const ast::KernelDecl *family : program.families()) {
    auto alternatives = program.alternatives(family);
    keepPinned(session, alternatives);
    std::vector<const sema::KernelInstance *> instances;
    for (const ast::KernelDecl *one : alternatives)
      if (const auto *it = llvm::find_if(
              kernels, [&](const sema::KernelInstance *kernel) { return kernel->decl == one; });
          it != kernels.end())
        instances.push_back(*it);
    if (instances.size() != alternatives.size() || instances.empty())
      continue;
    const std::string name = program.familyName(family, *instances.front());
    for (auto [i, instance] : llvm::enumerate(instances))
      families[instance->name].push_back(std::to_string(i) + " " + name);
  }
  for (ir::Op &op : module.body().ops())
    if (op.is(ir::OpKind::Kernel))
      if (const auto it = families.find(op.get(ir::attr::name)); it != families.end())
        op.set(ir::attr::families, it->second);
}

} // namespace

static void requireWellFormed(ir::Module &module) {
  const std::vector<std::string> violations = ir::verify(module);
  if (!violations.empty())
    reportBug(__FILE__, __LINE__,
              "lowering made IR that is not well-formed:\n" + violations.front());
}

LoweredModule lowerInstances(const SourceManager &sources, const sema::Program &program,
                             llvm::ArrayRef<const sema::KernelInstance *> kernels) {
  PhaseScope phase("lowering to IR");
  LoweredModule lowered;
  lowered.types = std::make_unique<ir::TypeContext>();
  lowered.module = std::make_unique<ir::Module>(*lowered.types);
  lowered.module->setSources(&sources);
  for (const sema::FnInstance *function : program.functions(kernels))
    ir::lowerFunction(*function, *lowered.module);
  for (const sema::KernelInstance *kernel : kernels)
    ir::lowerKernel(*kernel, *lowered.module);
  requireWellFormed(*lowered.module);
  lowered.promises = promisesOf(program, kernels);
  return lowered;
}

LoweredModule lowerKernels(Session &session, sema::Program &program,
                           llvm::ArrayRef<const sema::KernelInstance *> kernels) {
  LoweredModule lowered = lowerInstances(session.sources, program, kernels);
  addFamilies(session, program, kernels, *lowered.module);
  requireWellFormed(*lowered.module);
  return lowered;
}

LoweredModule readModule(Session &session, llvm::StringRef path,
                         std::unique_ptr<sema::Program> &program) {
  std::optional<FileId> file = session.load(path);
  if (!file)
    return {};
  if (isIrText(session, path, *file)) {
    LoweredModule read;
    read.types = std::make_unique<ir::TypeContext>();
    read.module = ir::parseModule(*file, session.sources, *read.types, session.diagnostics);
    if (read.module && !ir::verify(*read.module, session.diagnostics))
      read.module = nullptr;
    return read;
  }
  program = analyzeFile(session, *file);
  if (!program || !checkConstants(session, *program))
    return {};
  const auto instances = instantiateKernels(session, *program, selectKernels(session, *program));
  return instances.empty() ? LoweredModule{} : lowerKernels(session, *program, instances);
}

} // namespace dtile::driver
