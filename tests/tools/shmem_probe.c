// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rank puts a word into its neighbour and waits for its own: whether OpenSHMEM works here.
#include <shmem.h>
#include <stdio.h>

static long received = 0;

int main(void) {
  shmem_init();
  int rank = shmem_my_pe();
  shmem_long_p(&received, rank + 1, (rank + 1) % shmem_n_pes());
  shmem_long_wait_until(&received, SHMEM_CMP_GE, 1);
  shmem_barrier_all();
  printf("ok\n");
  shmem_finalize();
  return 0;
}
