// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads sizes by name, and finds kernels by theirs.
#include "backend/driver/tune/launch_text.h"

#include "backend/driver/compile.h"
#include "backend/driver/execute/device_code.h"
#include "backend/driver/tune/tuned_choices.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace dtile::driver {

const ast::KernelDecl *findNamed(Session &session, const sema::Program &program) {
  const llvm::StringRef wanted = session.options.kernel;
  if (wanted.empty()) {
    const auto kernels = selectKernels(session, program);
    if (kernels.size() == 1)
      return kernels.front();
    std::vector<std::string> names;
    for (const auto all : {program.kernels(), program.families()})
      for (const ast::KernelDecl *kernel : all)
        names.push_back("`" + kernel->name.name.str() + "`");
    if (!kernels.empty())
      session.diagnostics.report(SourceLoc{}, diag::which_kernel, llvm::join(names, ", "));
    return nullptr;
  }
  if (const ast::KernelDecl *kernel = program.findKernel(wanted))
    return kernel;
  const ast::KernelDecl *found = nullptr;
  for (const auto all : {program.kernels(), program.families()})
    for (const ast::KernelDecl *kernel : all)
      if (wanted.starts_with((kernel->name.name + "_").str()) &&
          (!found || found->name.name.size() < kernel->name.name.size()))
        found = kernel;
  // It says what there is.
  if (!found)
    (void)selectKernels(session, program);
  return found;
}

std::optional<std::vector<int64_t>> readLaunch(Session &session, const sema::KernelInstance &usual,
                                               llvm::StringRef text) {
  std::vector<std::string> names;
  for (const SizePlace &place : sizePlaces(usual))
    names.push_back(place.name);
  std::vector<int64_t> sizes(names.size(), -1);
  const auto refuse = [&](const std::string &why) {
    session.diagnostics.report(SourceLoc{}, diag::bad_size, why);
    return std::nullopt;
  };
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    const auto [name, value] = part.trim().split('=');
    const auto found = llvm::find(names, name);
    int64_t number = 0;
    if (name == "W")
      return refuse("has the number of ranks, which `--ranks` says");
    if (found == names.end())
      return refuse("names `" + name.str() + "`; the sizes of the arguments are " +
                    llvm::join(names, ", "));
    if (value.getAsInteger(10, number) || number < 1 || number > kLargestSize)
      return refuse("wants a number from 1 to " + std::to_string(kLargestSize) + " for `" +
                    name.str() + "`, not `" + value.str() + "`");
    int64_t &size = sizes[size_t(found - names.begin())];
    if (size >= 0)
      return refuse("says twice what `" + name.str() + "` is");
    size = number;
  }
  for (auto [name, size] : llvm::zip_equal(names, sizes))
    if (size < 0)
      return refuse("does not say what `" + name + "` is");
  return sizes;
}

bool checkRanks(Session &session, const Job *job, int ranks, llvm::StringRef command) {
  if (ranks < 1 || ranks > kMaxRanks)
    session.diagnostics.report(SourceLoc{}, diag::bad_ranks, ranks, kMaxRanks);
  else if (job && ranks != job->ranks())
    session.diagnostics.report(SourceLoc{}, diag::bad_command_line,
                               "this job has " + std::to_string(job->ranks()) + " processes, and " +
                                   std::to_string(ranks) + " ranks are asked for",
                               command);
  else
    return true;
  return false;
}

std::optional<TargetArch> targetOfDevices(Session &session) {
  const Options &options = session.options;
  auto arch = archOfDevices(options);
  if (!arch) {
    session.diagnostics.report(SourceLoc{}, diag::build_failed, llvm::toString(arch.takeError()));
    return std::nullopt;
  }
  const backend::Target *target = backend::findTarget(options.target);
  TargetArch made{target, *arch, options.shmem == "p2p", /*splitsSums=*/true,
                  machineFor(options, *target, *arch)};
  return checkMachine(session, made) ? std::optional(std::move(made)) : std::nullopt;
}

std::string microsecondsText(double nanoseconds) {
  return std::isfinite(nanoseconds) ? llvm::formatv("{0:f1}", nanoseconds / 1e3).str()
                                    : std::string("-");
}

} // namespace dtile::driver
