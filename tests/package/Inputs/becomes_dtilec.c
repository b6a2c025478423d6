/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A program that runs everywhere, in the place of a dtilec that does. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  execv(getenv("REAL_DTILEC"), argv);
  perror("dtilec");
  return 1;
}
