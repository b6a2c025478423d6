"""What dtile.build keeps: python_builds_again.py FOLDER. A library is named by all that it is of."""

import os
import sys
import tempfile

import dtile

folder = sys.argv[1]
os.makedirs(os.path.join(folder, "a $b c"))
program = os.path.join(folder, "a $b c", "k.dtile")
module = os.path.join(folder, "a $b c", "m.dtile")
kept = os.path.join(folder, "kept")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def build():
    dtile.build(program, target="host", folder=kept)
    return {name for name in os.listdir(kept) if name.endswith(".so")}


write(program, "import m;\nkernel k(x: in f32[N], y: out f32[N]) over (i in N by 64) {\n"
               "    y[i] = m.changed(x[i]);\n}\n")
write(module, "fn changed(x: f32[64]) -> f32[64] { return x * 2.0; }\n")
first = build()
print("the same again:", build() == first)
write(module, "fn changed(x: f32[64]) -> f32[64] { return x * 3.0; }\n")
second = build()
print("another import, another library:", first < second)
write(module, "fn changed(x: f32[64]) -> f32[64] { return x * 2.0; }\n")
print("and back:", build() == second)

os.utime(module, (4e9, 4e9))
write(program, "// Changed.\nimport m;\nkernel k(x: in f32[N], y: out f32[N]) over (i in N by 64) {\n"
               "    y[i] = m.changed(x[i]);\n}\n")
print("a clock that is ahead:", second < build())

os.environ["TMPDIR"] = tempfile.tempdir = folder
theirs = os.path.join(folder, f"dtile-{os.getuid()}")
os.mkdir(theirs)
os.chmod(theirs, 0o777)
try:
    dtile.build(program, target="host")
except dtile.DtileInvalid as error:
    print("a folder of everybody:", error)
