/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Prints 1, 2 and 3 copied, and scaled by each configuration. */
#include "scale.h"
#include "scale_thrice.h"
#include "scale_wide.h"

#include <stdio.h>

static int show(dtile_team *team, const dtile_kernel_desc *kernel) {
  float x[3] = {1, 2, 3}, y[3] = {0};
  dtile_tensor in = {x, DTILE_F32, 1, {3}, {1}};
  dtile_tensor out = {y, DTILE_F32, 1, {3}, {1}};
  dtile_arg args[scale_num_args];
  args[scale_arg_x].tensor = &in;
  args[scale_arg_y].tensor = &out;
  const dtile_arg *all[] = {args};
  if (dtile_launch_all(team, kernel, all, scale_num_args) != DTILE_OK) {
    fprintf(stderr, "%s\n", dtile_last_error());
    return 1;
  }
  printf("%g %g %g\n", y[0], y[1], y[2]);
  return 0;
}

int main(void) {
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = 1;
  dtile_team *team;
  if (dtile_team_create_threads(&options, &team) != DTILE_OK) {
    fprintf(stderr, "%s\n", dtile_last_error());
    return 1;
  }
  const int failed = show(team, &dtile_kernel_copy) || show(team, &dtile_kernel_scale) ||
                     show(team, &dtile_kernel_scale_3_64) ||
                     show(team, &dtile_kernel_scale_10_256);
  dtile_team_destroy(team);
  return failed;
}
