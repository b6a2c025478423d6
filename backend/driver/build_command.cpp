// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec build`: object files and what goes with them. Everything is made in memory, then all
// files appear together.
#include "backend/driver/compile.h"
#include "backend/driver/output_file.h"

#include "backend/host/host.h"
#include "backend/target.h"
#include "frontend/base/check.h"
#include "ir/core/text_format.h"
#include "ir/protocol/check_protocol.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

namespace dtile::driver {

namespace {

// Blanks, `#` and `$` mean something to make.
std::string escapedForMake(llvm::StringRef path) {
  std::string text;
  for (char c : path) {
    if (c == ' ' || c == '#' || c == '\\')
      text += '\\';
    else if (c == '$')
      text += '$';
    text += c;
  }
  return text;
}

// `out: a.dtile b.dtile`, without what is built in.
std::string dependencies(llvm::ArrayRef<std::string> read, llvm::StringRef target) {
  std::string text = escapedForMake(target) + ":";
  for (const std::string &file : read)
    if (!llvm::StringRef(file).starts_with("<"))
      text += " \\\n  " + escapedForMake(file);
  return text + "\n";
}

// The program's name with another ending: what depfile and header speak of where there is no file.
std::string nameWith(const Options &options, llvm::StringRef extension) {
  llvm::SmallString<128> name(llvm::sys::path::filename(options.inputs.front()));
  if (name == "-")
    name = "stdin";
  llvm::sys::path::replace_extension(name, extension);
  return name.str().str();
}

// AG_GEMM_H of out/ag_gemm.h
std::string headerText(const Options &options, LoweredModule &lowered, llvm::StringRef path) {
  const std::string written = path == "-" ? nameWith(options, "h") : path.str();
  std::string guard = llvm::sys::path::filename(written).upper();
  for (char &c : guard)
    if (!llvm::isAlnum(c))
      c = '_';
  if (guard.empty() || llvm::isDigit(guard[0]))
    guard = "DTILE_" + guard;
  return backend::host::cHeader(*lowered.module, guard);
}

std::optional<std::string> generate(Session &session, LoweredModule &lowered,
                                    backend::EmitKind kind) {
  const Options &options = session.options;
  const backend::Target *target = backend::findTarget(options.target);
  DTILE_CHECK(target != nullptr, "the target was checked");
  backend::TargetOptions targetOptions;
  targetOptions.cpu = options.cpu;
  targetOptions.optLevel = unsigned(options.optLevel);
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream os(bytes);
  if (llvm::Error error = target->emit(*lowered.module, targetOptions, kind, os)) {
    session.diagnostics.report(SourceLoc{}, diag::build_failed, llvm::toString(std::move(error)));
    return std::nullopt;
  }
  return bytes.str().str();
}

std::optional<std::string> mainOutput(Session &session, llvm::ArrayRef<std::string> read,
                                      LoweredModule &lowered) {
  const Options &options = session.options;
  switch (options.emit) {
  case EmitKind::Object:
    return generate(session, lowered, backend::EmitKind::Obj);
  case EmitKind::Assembly:
    return generate(session, lowered, backend::EmitKind::Asm);
  case EmitKind::Llvm:
    return generate(session, lowered, backend::EmitKind::LlvmIr);
  case EmitKind::Ir: {
    std::string text;
    llvm::raw_string_ostream os(text);
    ir::print(*lowered.module, os);
    return text;
  }
  case EmitKind::Header:
    return headerText(options, lowered, options.output);
  case EmitKind::Depfile:
    return dependencies(read, nameWith(options, "o"));
  }
  DTILE_UNREACHABLE("unknown kind of output");
}

bool checkOptions(Session &session) {
  const Options &options = session.options;
  if (!backend::findTarget(options.target)) {
    std::vector<std::string> names;
    for (const backend::Target *target : backend::allTargets())
      names.push_back("`" + target->name().str() + "`");
    session.diagnostics.report(SourceLoc{}, diag::unknown_target, options.target,
                               llvm::join(names, ", "));
    return false;
  }
  for (const std::string *output : {&options.output, &options.header, &options.depfile})
    if (*output != "-" && *output == options.inputs.front()) {
      session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                                 "`" + *output + "` is the program itself; choose another output");
      return false;
    }
  if (options.output == "-" && options.emit == EmitKind::Object &&
      llvm::sys::Process::StandardOutIsDisplayed()) {
    session.diagnostics.report(SourceLoc{}, diag::cannot_write,
                               "an object file is not for a terminal; name a file with -o");
    return false;
  }
  return true;
}

// What of the checks of communication costs next to nothing; `dtilec check` has the rest.
bool checkQuickly(Session &session, LoweredModule &lowered) {
  protocol::CheckOptions options;
  options.ranks = {1, 2, 3, 4};
  options.isQuick = true;
  options.seconds = 0.05;
  return llvm::all_of(protocol::checkProtocol(*lowered.module, options, session.diagnostics),
                      [](const protocol::Verdict &verdict) { return verdict.isFine; });
}

void buildFile(Session &session) {
  const Options &options = session.options;
  std::unique_ptr<sema::Program> program;
  LoweredModule lowered = readModule(session, options.inputs.front(), program);
  // IR text is built as it stands: `dtilec ir` runs passes on it.
  if (!lowered.module || (program && !optimize(session, lowered, options.optLevel)))
    return;
  if (program && !checkQuickly(session, lowered))
    return;
  const std::vector<std::string> read =
      program ? std::vector<std::string>(program->files()) : options.inputs;
  const auto bytes = mainOutput(session, read, lowered);
  if (!bytes)
    return;
  OutputFiles files;
  llvm::Error error = files.add(options.output, *bytes);
  if (!error && !options.header.empty())
    error = files.add(options.header, headerText(options, lowered, options.header));
  if (!error && !options.depfile.empty())
    error =
        files.add(options.depfile, dependencies(read, options.output == "-" ? nameWith(options, "o")
                                                                            : options.output));
  if (!error)
    error = files.commit();
  if (error)
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
