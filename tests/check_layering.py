# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the sources to the dependency rules and to the limits that a machine can check.

    check_layering.py ROOT        check a checkout; one line a finding; exits with 1 if any
    check_layering.py --self-test check that every rule can fail

Rules:
  include    a directory includes only what MAY_INCLUDE lists for it
  foreign    ANTLR, LLVM IR, device APIs and Boost are seen only in the places FOREIGN names
  getenv     the environment is read only in the places READS_ENVIRONMENT names
  exception  throw, try, catch, dynamic_cast and typeid only where EXCEPTIONS_ALLOWED says
  namespace  no `using namespace` in headers
  spdx       the first line (the second, after #!) is the licence
  columns    no line is longer than 100 columns; a row of a table (.def) may be
  length     no source file is longer than 800 lines; tables (.def) may be
  folder     no folder has more than 18 sources
"""

import collections
import os
import re
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
MAX_COLUMNS = 100
MAX_LINES = 800
MOST_SOURCES = 18

# What a directory that defines passes sees of the pass manager.
PASS_API = ["ir/transform/pass.h", "ir/transform/passes.def"]

# What reads the IR may also ask analyses and the table of machines.
IR = ["ir/core", "ir/analysis", "ir/machine"]

# Directory -> what it may include besides itself: directories, or single files of a directory.
# frontend/base is open to everybody but the runtime, which is a library of its own.
MAY_INCLUDE = {
    "frontend/base": [],
    "frontend/ast": [],
    "frontend/parse": ["grammar", "frontend/ast"],
    "frontend/format": ["frontend/ast", "frontend/parse"],
    "frontend/import": [],
    "sema": ["frontend/ast", "sema/join", "sema/tree"],
    "sema/join": ["frontend/ast"],
    "sema/tree": ["frontend/ast"],
    "ir/core": [],
    "ir/machine": [],
    "ir/model": IR,
    "ir/simulate": [*IR, "ir/model"],
    "ir/from_ast": ["frontend/ast", "sema/tree", "ir/core"],
    "ir/analysis": ["ir/core", "ir/machine"],
    "ir/transform": [*IR],
    "ir/schedule": [*IR, *PASS_API],
    "ir/interpret": [*IR],
    "ir/protocol": [*IR, "ir/interpret", *PASS_API],
    "backend": [*IR, "ir/model"],
    "backend/llvm": [*IR, "backend", "backend/runtime/runtime_abi.def",
                     "backend/runtime/kernel_abi.h"],
    "backend/host": [*IR, "backend", "backend/llvm", "backend/launch",
                     "backend/runtime"],
    "backend/launch": [*IR, "backend", "backend/llvm", "backend/runtime"],
    "backend/gpu": [*IR, "ir/model", "backend", "backend/runtime/device/choose/device_programs.h",
                    "backend/llvm", "backend/launch",
                    "backend/runtime/kernel_abi.h", "backend/runtime/device_abi.h",
                    "backend/runtime/trace/trace_abi.h",
                    "backend/device_library/device_bitcode.h",
                    "backend/device_library/providers.def"],
    "backend/nvptx": [*IR, "backend", "backend/llvm", "backend/gpu"],
    "backend/amdgpu": [*IR, "backend", "backend/llvm", "backend/gpu"],
    "backend/runtime": ["frontend/base/element_clauses.h", "frontend/base/value_text.h"],
    "editors/lsp": ["frontend/ast", "frontend/format", "frontend/parse", "sema", "sema/tree"],
    "backend/driver": ["frontend", "sema", "ir", "backend", "editors"],
    "backend/device_library": ["backend/runtime/kernel_abi.h", "backend/runtime/device_abi.h"],
    "tests": ["frontend", "sema", "ir", "backend", "editors", "stdlib"],
    "examples": ["backend/runtime"],
}

# (file name pattern, what it may include although its directory may not)
EXTRA_INCLUDES = [(r"sema/names/module_loader\.(h|cpp)", "frontend/parse")]

NO_BASE = ["backend/runtime", "backend/device_library", "examples"]

# What a foreign include looks like, and the paths that may have it.
FOREIGN = [
    ("ANTLR", r"antlr4.*", r"frontend/parse/"),
    ("LLVM beyond ADT and Support", r"(llvm|llvm-c|lld|clang)/(?!ADT/|Support/|Config/).*",
     r"backend/(?!runtime/|device_library/)|tests/unit/|cmake/precompiled/"),
    ("LLVM", r"(llvm|llvm-c|lld|clang)/.*",
     r"(?!backend/runtime/|backend/device_library/|examples/)"),
    ("CUDA or HIP", r"(cuda|hip/|cudart|nvrtc|cuda_runtime).*", r".*device_\w+\.cpp$"),
    ("Boost", r"boost/.*", r"backend/(runtime|host)/|ir/interpret/|tests/unit/"),
    ("CLI11", r"CLI/.*", r"backend/driver/"),
    ("Expat or nlohmann-json", r"(expat\.h|nlohmann/.*)", r"frontend/import/"),
]

# Path pattern -> why it may throw, catch or ask for a type.
EXCEPTIONS_ALLOWED = {
    r"frontend/base/process\.cpp": "what the C++ library throws ends in a message",
    r"frontend/parse/": "ANTLR throws",
    r"backend/driver/command_line\.cpp": "CLI11 throws",
}

TOP = ["backend", "editors", "examples", "frontend", "grammar", "ir", "scripts", "sema", "stdlib",
       "tests", "cmake"]
SOURCE = (".cpp", ".h", ".c", ".def", ".g4", ".py", ".cmake", ".sh")
CODE = (".cpp", ".h", ".c", ".def")
SKIPPED = ("Inputs", "corpus", "__pycache__")

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')
STRINGS_AND_COMMENTS = re.compile(
    r'R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/",
    re.S,
)


def within(path, place):
    return path == place or path.startswith(place + "/")


def owner(path):
    """The directory of MAY_INCLUDE that a file belongs to: the longest that contains it."""
    places = [place for place in MAY_INCLUDE if within(path, place)]
    return max(places, key=len) if places else None


def may_include(path, target):
    home = owner(path)
    if home is None or owner(target) == home:
        return True
    if within(target, "frontend/base") and home not in NO_BASE:
        return True
    for place in MAY_INCLUDE[home]:
        # "backend" in a list means the files directly in it, unless the reader is above all phases.
        if place in MAY_INCLUDE and home not in ("backend/driver", "tests"):
            if owner(target) == place:
                return True
        elif within(target, place):
            return True
    return any(re.fullmatch(pattern, path) and within(target, place)
               for pattern, place in EXTRA_INCLUDES)


def blank(text):
    """The text with strings and comments emptied, line numbers kept."""
    return STRINGS_AND_COMMENTS.sub(lambda match: "\n" * match.group(0).count("\n"), text)


def check_includes(path, lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        if any(within(target, top) for top in TOP):
            if not may_include(path, target):
                yield number, "include", f"{owner(path)} may not include {target}"
            continue
        for what, pattern, allowed in FOREIGN:
            if re.fullmatch(pattern, target) and not re.match(allowed, path):
                yield number, "foreign", f"{what} may not be seen here: {target}"
                break


# The runtime has variables for its users; the compiler finds ptxas and a folder for scratch files.
READS_ENVIRONMENT = ("backend/runtime/", "backend/nvptx/ptxas.cpp",
                     "frontend/base/scratch_file.cpp", "tests/tools/")


def check_words(path, text):
    excepted = any(re.match(pattern, path) for pattern in EXCEPTIONS_ALLOWED)
    for number, line in enumerate(blank(text).split("\n"), 1):
        if re.search(r"\b(getenv|GetEnv)\b", line) and not path.startswith(READS_ENVIRONMENT):
            yield number, "getenv", "the environment is read in " + ", ".join(READS_ENVIRONMENT)
        match = re.search(r"\b(throw|try|catch|dynamic_cast|typeid)\b", line)
        if match and not excepted:
            yield number, "exception", f"`{match.group(1)}` outside frontend/parse"
        if path.endswith(".h") and re.search(r"\busing\s+namespace\b", line):
            yield number, "namespace", "`using namespace` in a header"


def check_file(path, text):
    """Findings of one file as (line, rule, message); `path` is relative to the root."""
    lines = text.splitlines()
    first = 1 if text.startswith("#!") else 0
    if LICENCE not in "".join(lines[first : first + 1]):
        yield 1, "spdx", "the first line is not the licence"
    for number, line in enumerate(lines, 1):
        row = path.endswith(".def") and not line.lstrip().startswith("//")
        if len(line) > MAX_COLUMNS and not row:
            yield number, "columns", f"{len(line)} columns; at most {MAX_COLUMNS}"
    if len(lines) > MAX_LINES and not path.endswith(".def"):
        yield len(lines), "length", f"{len(lines)} lines; at most {MAX_LINES}"
    if path.endswith(CODE):
        yield from check_includes(path, lines)
        yield from check_words(path, text)


def sources(root):
    for top in TOP:
        for directory, names, files in os.walk(os.path.join(root, top)):
            names[:] = sorted(name for name in names if name not in SKIPPED)
            for name in sorted(files):
                if name.endswith(SOURCE) or name == "CMakeLists.txt":
                    yield os.path.relpath(os.path.join(directory, name), root)


def check_tree(root):
    findings, count = 0, 0
    folders = collections.Counter()
    for path in sources(root):
        count += 1
        folders[os.path.dirname(path)] += path.endswith(".cpp")
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for number, rule, message in check_file(path, text):
            print(f"{path}:{number}: {rule}: {message}")
            findings += 1
    for folder, held in sorted(folders.items()):
        if held > MOST_SOURCES:
            print(f"{folder}:0: folder: {held} sources; at most {MOST_SOURCES}, then it is two")
            findings += 1
    print(f"check_layering: {count} files, {findings} findings")
    return 1 if findings or count == 0 else 0


# (path, text after the licence, the rule that must fire, or None)
SELF_TESTS = [
    ("ir/core/a.cpp", '#include "sema/sema.h"', "include"),
    ("ir/core/a.cpp", '#include "frontend/base/check.h"', None),
    ("ir/core/a.cpp", '#include "llvm/IR/Module.h"', "foreign"),
    ("ir/core/a.cpp", '#include "llvm/ADT/StringRef.h"', None),
    ("ir/transform/a.cpp", '#include "backend/target.h"', "include"),
    ("ir/schedule/a.cpp", '#include "ir/transform/pass.h"', None),
    ("ir/schedule/a.cpp", '#include "ir/transform/other.h"', "include"),
    ("ir/interpret/a.cpp", '#include "ir/from_ast/lower.h"', "include"),
    ("backend/nvptx/a.cpp", '#include "backend/amdgpu/facts.h"', "include"),
    ("backend/nvptx/a.cpp", '#include "backend/target.h"', None),
    ("backend/nvptx/a.cpp", '#include "backend/driver/driver.h"', "include"),
    ("backend/runtime/a.cpp", '#include "frontend/base/check.h"', "include"),
    ("backend/runtime/a.cpp", '#include "llvm/ADT/StringRef.h"', "foreign"),
    ("backend/runtime/a.cpp", "#include <cuda.h>", "foreign"),
    ("backend/runtime/device_cuda.cpp", "#include <cuda.h>", None),
    ("backend/driver/a.cpp", '#include "ir/transform/pass.h"', None),
    ("sema/a.cpp", '#include "frontend/parse/parser.h"', "include"),
    ("sema/order/a.cpp", '#include "sema/checker.h"', None),
    ("sema/tree/a.cpp", '#include "sema/checker.h"', "include"),
    ("ir/from_ast/a.cpp", '#include "sema/tree/types.h"', None),
    ("ir/from_ast/a.cpp", '#include "sema/sema.h"', "include"),
    ("sema/names/module_loader.cpp", '#include "frontend/parse/parser.h"', None),
    ("sema/a.cpp", '#include "antlr4-runtime.h"', "foreign"),
    ("sema/a.cpp", '#include "grammar/DtileParser.h"', "include"),
    ("frontend/parse/a.cpp", '#include "grammar/DtileParser.h"', None),
    ("frontend/parse/a.cpp", "#include <antlr4-runtime.h>", None),
    ("frontend/parse/a.cpp", "try { throw 1; } catch (...) {}", None),
    ("sema/a.cpp", "void f() { throw 1; }", "exception"),
    ("sema/a.cpp", "auto *p = dynamic_cast<X *>(y);", "exception"),
    ("sema/a.cpp", '// we try not to throw\nconst char *s = "typeid";', None),
    ("sema/a.cpp", "const char *s = R\"x(try\nthrow)x\"; int n = 1'000'000;", None),
    ("sema/a.cpp", "auto *e = std::getenv(\"HOME\");", "getenv"),
    ("backend/runtime/a.cpp", "auto *e = std::getenv(\"HOME\");", None),
    ("sema/a.cpp", "auto e = llvm::sys::Process::GetEnv(\"HOME\");", "getenv"),
    ("frontend/base/scratch_file.cpp", "auto e = llvm::sys::Process::GetEnv(\"HOME\");", None),
    ("sema/a.h", "using namespace llvm;", "namespace"),
    ("sema/a.cpp", "using namespace llvm;", None),
    ("sema/a.cpp", "//" + "x" * 99, "columns"),
    ("sema/a.cpp", "//" + "x" * 98, None),
    ("sema/a.def", "//" + "x" * 99, "columns"),
    ("sema/a.def", "ROW(" + "x" * 99 + ")", None),
    ("sema/a.cpp", "\n" * 800, "length"),
    ("sema/a.def", "\n" * 800, None),
]


def self_test():
    failures = 0
    for path, text, expected in SELF_TESTS:
        rules = {rule for _, rule, _ in check_file(path, f"// {LICENCE}\n{text}\n")}
        if rules != ({expected} if expected else set()):
            print(f"{path}: {text[:60]!r}: expected {expected}, found {sorted(rules)}")
            failures += 1
    if {rule for _, rule, _ in check_file("sema/a.cpp", "int x;\n")} != {"spdx"}:
        print("a file without the licence is not found")
        failures += 1
    print(f"check_layering: {len(SELF_TESTS) + 1} self tests, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(self_test() if sys.argv[1] == "--self-test" else check_tree(sys.argv[1]))
