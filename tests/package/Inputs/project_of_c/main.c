/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * What a program of C needs of dtile: a header for its kernels, and the runtime's functions. */
#include "hello.h"

#include <dtile/dtile.h>
#include <stdio.h>

int main(void) {
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  dtile_team *team;
  options.ranks = 2;
  if (dtile_team_create_threads(&options, &team) != DTILE_OK) {
    fprintf(stderr, "%s\n", dtile_last_error());
    return 1;
  }
  printf("%s has %d parameters; a team of %d ranks\n", dtile_kernel_shift.name,
         (int)dtile_kernel_shift.nparams, (int)dtile_team_size(team));
  dtile_team_destroy(team);
  return 0;
}
