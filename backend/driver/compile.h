// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The way from a file to IR, as every subcommand walks it.
#pragma once

#include "backend/driver/optimize.h"
#include "sema/sema.h"

#include <memory>
#include <string>
#include <vector>

namespace dtile::driver {

/// Whether errors were reported since it was made: a session may hold those of other files.
class ErrorMark {
public:
  explicit ErrorMark(const Session &session)
      : session_(session), before_(session.diagnostics.errorCount()) {}
  [[nodiscard]] bool failed() const { return session_.diagnostics.errorCount() != before_; }

private:
  const Session &session_;
  unsigned before_;
};

/// Where imports are looked for: the folders of the command line, then the embedded library.
sema::Options importOptions(const Options &options);

/// A checked file. Null after reporting, also where the file has errors.
std::unique_ptr<sema::Program> analyzeFile(Session &session, llvm::StringRef path);
std::unique_ptr<sema::Program> analyzeFile(Session &session, FileId file);

/// The values of `--const` that `kernel` has generics for.
sema::GenericArgs constantsFor(Session &session, const ast::KernelDecl &kernel);
/// The same of other constants.
sema::GenericArgs constantsFor(const ast::KernelDecl &kernel, llvm::ArrayRef<NamedText> constants);
/// Reports each `--const` whose value is none.
bool checkConstantValues(Session &session);
/// Reports each `--const` that no kernel of the file has a generic for, or whose value is none.
bool checkConstants(Session &session, const sema::Program &program);
/// The same of other constants.
bool checkConstants(Session &session, const sema::Program &program,
                    llvm::ArrayRef<NamedText> constants);

/// The kernels that one is a name for, or that which `--const alternative=NAME` leaves of them;
/// itself where it has code.
std::vector<const ast::KernelDecl *>
alternativesOf(const Session &session, const sema::Program &program, const ast::KernelDecl &kernel);
/// The kernels that `--kernel` asks for: that one, or all of the file. Empty after reporting.
std::vector<const ast::KernelDecl *> selectKernels(Session &session, const sema::Program &program);

/// Whether every generic of a kernel has a value: its default or one of `--const`.
bool hasAllValues(Session &session, const ast::KernelDecl &kernel);

/// One verified module with these kernels and the functions that they call, before any pass.
LoweredModule lowerKernels(Session &session, sema::Program &program,
                           llvm::ArrayRef<const sema::KernelInstance *> kernels);

/// The same, of a program that belongs to no session.
LoweredModule lowerInstances(const SourceManager &sources, const sema::Program &program,
                             llvm::ArrayRef<const sema::KernelInstance *> kernels);

/// The module of IR text or of a program, before any pass; no module after reporting. `program`
/// stays null for IR text.
LoweredModule readModule(Session &session, llvm::StringRef path,
                         std::unique_ptr<sema::Program> &program);

/// The default or `--const` instances of the kernels; empty after reporting.
std::vector<const sema::KernelInstance *>
instantiateKernels(Session &session, sema::Program &program,
                   llvm::ArrayRef<const ast::KernelDecl *> kernels);

} // namespace dtile::driver
