/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Prints 1, 2 and 3 scaled. */
#include "scale.h"

#include <stdio.h>

int main(void) {
  float x[3] = {1, 2, 3}, y[3] = {0};
  dtile_tensor in = {x, DTILE_F32, 1, {3}, {1}};
  dtile_tensor out = {y, DTILE_F32, 1, {3}, {1}};
  dtile_arg args[scale_num_args];
  args[scale_arg_x].tensor = &in;
  args[scale_arg_y].tensor = &out;
  const dtile_arg *all[] = {args};
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = 1;
  dtile_team *team;
  if (dtile_team_create_threads(&options, &team) != DTILE_OK ||
      dtile_launch_all(team, &dtile_kernel_scale, all, scale_num_args) != DTILE_OK) {
    fprintf(stderr, "%s\n", dtile_last_error());
    return 1;
  }
  printf("%g %g %g\n", y[0], y[1], y[2]);
  dtile_team_destroy(team);
  return 0;
}
