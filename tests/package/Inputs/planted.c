/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A library that lies where somebody happens to work. */
#include <stdio.h>
__attribute__((constructor)) static void run(void) { fprintf(stderr, "PLANTED CODE RUNS\n"); }
