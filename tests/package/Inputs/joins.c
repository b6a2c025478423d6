/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A program that joins the job that its environment speaks of. */
#include "backend/runtime/dtile.h"

#include <stdio.h>

int main(void) {
  dtile_team *team = NULL;
  const dtile_status status = dtile_team_create_env(NULL, &team);
  printf("status %d: %s\n", status, dtile_last_error());
  return 0;
}
