/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Prints the bits of what KERNEL makes of R rows of N numbers: row_sums R N. */
#include "backend/runtime/dtile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const dtile_kernel_desc KERNEL;

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const int64_t rows = atoll(argv[1]), columns = atoll(argv[2]);
  float *x = malloc((size_t)(rows * columns) * sizeof *x), *y = malloc((size_t)rows * sizeof *y);
  uint32_t state = 1;
  for (int64_t i = 0; i < rows * columns; ++i) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / 4096.0f - 1000.0f;
  }
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  dtile_team *team = NULL;
  dtile_tensor in = {.data = x, .dtype = DTILE_F32, .ndim = 2, .size = {rows, columns},
                     .stride = {columns, 1}};
  dtile_tensor out = {.data = y, .dtype = DTILE_F32, .ndim = 1, .size = {rows}, .stride = {1}};
  dtile_arg args[2] = {{.tensor = &in}, {.tensor = &out}};
  const dtile_arg *all = args;
  options.ranks = 1;
  if (dtile_team_create_threads(&options, &team) != DTILE_OK ||
      dtile_launch_all(team, &KERNEL, &all, 2) != DTILE_OK) {
    fprintf(stderr, "%s\n", dtile_last_error());
    return 1;
  }
  for (int64_t r = 0; r < rows && r < 4; ++r) {
    uint32_t bits;
    memcpy(&bits, &y[r], sizeof bits);
    printf("%08" PRIx32 "\n", bits);
  }
  dtile_team_destroy(team);
  free(x);
  free(y);
  return 0;
}
