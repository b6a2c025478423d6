/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A program that uses GPUs by the C interface alone: wrong calls, and many sizes of one kernel. */
#include "ag_gemm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dtile_team *team;

static void is(dtile_status wanted, dtile_status status, const char *what) {
  if (status == wanted)
    return;
  printf("%s: %d and not %d: %s\n", what, status, wanted, dtile_last_error());
  exit(1);
}
#define IS(WANTED, CALL) is(WANTED, CALL, #CALL)

static void wrongCalls(void) {
  void *address = &address, *stream = NULL, *graph = NULL;
  int32_t device = 0;
  char byte = 0;
  IS(DTILE_INVALID, dtile_team_stream(team, 0, NULL));
  IS(DTILE_INVALID, dtile_team_device(team, 0, NULL));
  IS(DTILE_INVALID, dtile_device_alloc(team, 0, 8, NULL));
  IS(DTILE_INVALID, dtile_device_alloc(team, 0, -8, &address));
  IS(DTILE_INVALID, dtile_device_alloc(team, 9, 8, &address));
  IS(DTILE_OK, dtile_device_alloc(team, 0, 8, &address));
  IS(DTILE_INVALID, dtile_copy_to_device(team, 0, NULL, &byte, 1));
  IS(DTILE_INVALID, dtile_copy_to_device(team, 0, address, NULL, 1));
  IS(DTILE_INVALID, dtile_copy_to_device(team, 0, address, &byte, -1));
  IS(DTILE_INVALID, dtile_copy_from_device(team, 0, NULL, address, 1));
  IS(DTILE_INVALID, dtile_copy_from_device(team, 0, &byte, NULL, 1));
  IS(DTILE_INVALID, dtile_copy_from_device(team, 0, &byte, address, -1));
  IS(DTILE_OK, dtile_copy_from_device(team, 0, NULL, NULL, 0));
  IS(DTILE_OK, dtile_device_free(team, 0, address));
  IS(DTILE_OK, dtile_team_stream(team, 1, &stream));
  IS(DTILE_OK, dtile_team_device(team, 1, &device));
  IS(DTILE_OK, dtile_capture_begin(team, 0));
  IS(DTILE_INVALID, dtile_capture_end(team, 0, NULL));
  IS(DTILE_OK, dtile_capture_end(team, 0, &graph));
  IS(DTILE_INVALID, dtile_graph_replay(team, 0, NULL));
  IS(DTILE_INVALID, dtile_graph_replay(team, 0, &byte));
  /* It is another rank's. */
  IS(DTILE_INVALID, dtile_graph_replay(team, 1, graph));
  IS(DTILE_OK, dtile_graph_replay(team, 0, graph));
  dtile_graph_destroy(team, 0, &byte);
  dtile_graph_destroy(team, 0, graph);
  dtile_graph_destroy(team, 0, graph);
  IS(DTILE_INVALID, dtile_graph_replay(team, 0, graph));
  IS(DTILE_INVALID, dtile_symm_alloc(team, 8, NULL));
  IS(DTILE_INVALID, dtile_launch_on(team, 0, NULL, NULL, 0, NULL));
  IS(DTILE_INVALID, dtile_launch_on(team, 0, &dtile_kernel_ag_gemm, NULL, 3, NULL));
  printf("wrong calls are errors\n");
}

static dtile_tensor matrix(int32_t rank, int64_t rows, int64_t columns) {
  dtile_tensor t = {0};
  t.dtype = DTILE_BF16;
  t.ndim = 2;
  t.size[0] = rows;
  t.size[1] = t.stride[0] = columns;
  t.stride[1] = 1;
  IS(DTILE_OK, dtile_device_alloc(team, rank, rows * columns * 2, &t.data));
  return t;
}

static void launch(int64_t rows) {
  dtile_tensor tensors[2][3];
  dtile_arg args[2][3];
  const dtile_arg *both[2] = {args[0], args[1]};
  for (int32_t rank = 0; rank < 2; ++rank) {
    tensors[rank][0] = matrix(rank, rows, 4096);
    tensors[rank][1] = matrix(rank, 64, 4096);
    tensors[rank][2] = matrix(rank, 2 * rows, 64);
    for (int i = 0; i < 3; ++i)
      args[rank][i].tensor = &tensors[rank][i];
  }
  IS(DTILE_OK, dtile_launch_all(team, &dtile_kernel_ag_gemm, both, 3));
  for (int32_t rank = 0; rank < 2; ++rank)
    for (int i = 0; i < 3; ++i)
      IS(DTILE_OK, dtile_device_free(team, rank, tensors[rank][i].data));
}

int main(void) {
  dtile_device_options options = DTILE_DEVICE_OPTIONS_INIT;
  options.ndevices = 2;
  options.symmetric_bytes = 64 << 20;
  IS(DTILE_OK, dtile_team_create_devices(&options, &team));
  wrongCalls();
  /* Of each number of rows, ranks gather 16 KiB a row, in as many copies as the kernel has. */
  int sizes = 0;
  for (int64_t rows = 64; rows <= 1024; rows += 64, ++sizes)
    launch(rows);
  printf("%d sizes fit\n", sizes);
  IS(DTILE_OK, dtile_team_trim(team, 0));
  void *all = NULL;
  IS(DTILE_OK, dtile_symm_alloc(team, (64 << 20) - 4096, &all));
  printf("nothing is left after trimming\n");
  dtile_team_destroy(team);
  return 0;
}
