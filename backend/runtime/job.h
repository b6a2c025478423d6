// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The job that this process belongs to.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/shmem/shmem.h"

namespace dtile::runtime {

/// Whether a launcher of several processes started this one.
bool inJob();

/// Finds the provider that the environment asks for, opens it and joins the job.
Status joinJob(const dtile_team_options &options, dtile_shmem **out);

} // namespace dtile::runtime
