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


def build(**more):
    dtile.build(program, target="host", folder=kept, **more)
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

of_sizes = build(sizes="N=1..64")
print("other sizes, another library:", second < of_sizes)
print("two kinds:", of_sizes < build(sizes=["N=1..64", "N=4096"]))
try:
    build(sizes=[64])
except dtile.DtileInvalid as error:
    print("no sizes:", error)

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


def words(**variables):
    """What a build says in an environment."""
    before = dict(os.environ)
    os.environ.update({name: text for name, text in variables.items() if text is not None})
    for name in [name for name, text in variables.items() if text is None]:
        os.environ.pop(name, None)
    try:
        dtile.build(program, target="host", folder=os.path.join(folder, "fresh"), B=1)
    except dtile.DtileError as error:
        return type(error).__name__ + ": " + str(error).split("\n", maxsplit=1)[0]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return "built"


# A file that comes to be there is found before the one that was imported.
write(program, "import m;\nkernel k<B = 64>(x: in f32[N], y: out f32[N]) over (i in N by 64) {\n"
               "    y[i] = m.changed(x[i]);\n}\n")
os.makedirs(os.path.join(folder, "other"))
os.rename(module, os.path.join(folder, "other", "m.dtile"))


def build_with_other():
    dtile.build(program, target="host", folder=kept, flags=["-I", os.path.join(folder, "other")])
    return {name for name in os.listdir(kept) if name.endswith(".so")}


third = build_with_other()
print("found elsewhere, the same:", build_with_other() == third)
write(module, "fn changed(x: f32[64]) -> f32[64] { return x * 5.0; }\n")
print("an import that is shadowed:", third < build_with_other())

compiler = os.environ["CC"]
write(os.path.join(folder, "wrap"), '#!/bin/sh\nexec "$@"\n')
os.chmod(os.path.join(folder, "wrap"), 0o755)
print("CC of two words:", words(CC=f"{folder}/wrap {compiler}"))
print("CC that is none:", words(CC="no-such-compiler -x"))
print("CC with an open quote:", words(CC="'cc"))
empty = os.path.join(folder, "empty")
os.makedirs(empty)
print("no CC:", words(CC=None, PATH=empty))
print("DTILEC is a folder:", words(DTILEC=folder))
print("DTILEC is no program:", words(DTILEC=program))

# Names that begin like an option, hold signs of a printf, or are no text.
os.chdir(folder)
for name in ("-o.dtile", "100%s.dtile", os.fsdecode(b"\xff.dtile"), "new\nline.dtile"):
    write(name, "kernel k(x: in f32[N], y: out f32[N]) over (i in N by 64) { y[i] = x[i]; }\n")
    dtile.build(name, target="host", folder="-kept")
print("odd names:", len([name for name in os.listdir("-kept") if name.endswith(".so")]))

from dtile import _cache  # noqa: E402

mine = os.path.join(folder, "mine")
os.makedirs(mine)
names = [f"libk-{i:016x}.so" for i in range(3)] + ["of-the-user.so"]
for age, name in enumerate(names):
    write(os.path.join(mine, name), "x" * 1000)
    os.utime(os.path.join(mine, name), (1e9 if age in (0, 3) else 4e9 - age,) * 2)
_cache.MOST_BYTES = 1500
_cache.clean(mine, None)
print("kept of the cache:", sorted(os.listdir(mine)))

some = os.path.join(folder, "some.dtile")
write(some, "kernel p<B = auto(16, 32), C = auto(1, 2)>(x: in f32[N], y: out f32[N]) over (i in N by B) {\n"
            "    y[i] = x[i] * C;\n}\n")
print("some constants pinned:", type(dtile.build(some, target="host", folder=kept, C=2).p).__name__)
