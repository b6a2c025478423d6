// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the command line says of the kernel and the launches that are measured.
#pragma once

#include "backend/driver/choose/size_ranges.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/session.h"
#include "backend/driver/target_code.h"
#include "sema/sema.h"

#include <optional>
#include <string>
#include <vector>

namespace dtile::driver {

/// The kernel of `--kernel`, which may be an entry with its values, as `gemm_f16`, or the only one;
/// null after reporting.
[[nodiscard]] const ast::KernelDecl *findNamed(Session &session, const sema::Program &program);

/// The sizes of a launch, as `M=512,N=4096`, in the order of sizePlaces; nothing after reporting.
[[nodiscard]] std::optional<std::vector<int64_t>>
readLaunch(Session &session, const sema::KernelInstance &usual, llvm::StringRef text);

/// Whether so many ranks can launch: a job has a process for each. Reports where they cannot.
bool checkRanks(Session &session, const Job *job, int ranks, llvm::StringRef command);

/// What `--target`, `--arch` and the GPUs of `--devices` ask for; nothing after reporting.
[[nodiscard]] std::optional<TargetArch> targetOfDevices(Session &session);

/// "12.3" of 12,345 nanoseconds, "-" where there is no time.
[[nodiscard]] std::string microsecondsText(double nanoseconds);

} // namespace dtile::driver
