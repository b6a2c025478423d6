# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Links the objects of tune_measures_choices.test, and says which constant their launches took.

    tuned_objects.py CC SOURCE LIBRARIES FOLDER [alternatives]
"""

import os
import subprocess
import sys

compiler, source, libraries, folder = sys.argv[1:5]
program = os.path.join(os.path.dirname(__file__), "row_sums.c")


def link(name, kernel):
    made = os.path.join(folder, name)
    subprocess.run([compiler, program, made + ".o", "-o", made, "-I", source,
                    f"-DKERNEL=dtile_kernel_{kernel}", "-L", libraries, "-ldtile_rt",
                    f"-Wl,-rpath,{libraries}"], check=True)
    return made


def bits(program, rows, columns):
    return subprocess.run([program, str(rows), str(columns)], check=True,
                          stdout=subprocess.PIPE).stdout


def taken(tuned):
    return " ".join(f"R={size[0]} N={size[1]} " +
                    "/".join(str(name) for name, pin in pinned.items()
                             if bits(pin, *size) == bits(tuned, *size)) for size in SIZES)


SIZES = ((8, 4000), (8, 4400), (8, 100), (8, 110))
FAR = (90, 4000)
pinned = {b: link(f"b{b}", f"row_sums_{b}") for b in (16, 64)}
if len(sys.argv) > 5:
    pinned["in_small_steps"] = link("small", "either_sums")
    usual, one = (link(name, "either_sums") for name in ("first", "other"))
    print(taken(one))
    print("far from both:", "the usual" if bits(one, *FAR) == bits(usual, *FAR)
          else "something else")
    sys.exit()
usual, one, two = (link(name, "row_sums") for name in ("usual", "one", "two"))
print("the pins differ:", all(bits(pinned[16], *size) != bits(pinned[64], *size)
                              for size in SIZES))
print("by the first file:", taken(one))
print("by the second file:", taken(two))
print("far from both:", "the usual" if bits(one, *FAR) == bits(two, *FAR) == bits(usual, *FAR)
      else "something else")
