#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether programs and libraries run on every Linux that a platform tag promises.

    symbol_versions.py FILE…

A tag manylinux_2_N says: nothing newer than glibc 2.N is needed, and no library but those that such
a system always has. This checks ELF files for manylinux_2_36 (Debian 12 and what is newer): which
libraries they name, and which versions of symbols they want of them. Prints what is wrong, and ends
with 1 where something is."""

import struct
import sys

# The libraries that PEP 600 counts on; libstdc++ as GCC 12 has it, which is Debian 12's.
LIBRARIES = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1",
    "libresolv.so.2", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2",
}
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}

_DYNAMIC, _VERNEED = 6, 0x6FFFFFFE
_NEEDED = 1


class Elf:
    """The dynamic part of a 64-bit little-endian ELF file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self._data = file.read()
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("it is no 64-bit little-endian ELF file")
        start, = struct.unpack_from("<Q", self._data, 0x28)
        size, count = struct.unpack_from("<HH", self._data, 0x3A)
        # name, type, flags, address, offset, size, link, info, alignment, entry size
        self._sections = [struct.unpack_from("<IIQQQQIIQQ", self._data, start + i * size)
                          for i in range(count)]
        if not self._sections:
            raise ValueError("it has no sections")

    def _text(self, strings, at):
        begin = self._sections[strings][4] + at
        return self._data[begin:self._data.index(b"\0", begin)].decode()

    def libraries(self):
        """Names of the libraries that it is linked with."""
        found = []
        for section in self._sections:
            if section[1] != _DYNAMIC:
                continue
            for at in range(section[4], section[4] + section[5], 16):
                tag, value = struct.unpack_from("<QQ", self._data, at)
                if tag == _NEEDED:
                    found.append(self._text(section[6], value))
        return found

    def versions(self):
        """Pairs of a library and a version that is wanted of it."""
        found = []
        for section in self._sections:
            if section[1] != _VERNEED:
                continue
            at = section[4]
            for _ in range(section[7]):
                _, count, file, first, following = struct.unpack_from("<HHIII", self._data, at)
                entry = at + first
                for _ in range(count):
                    _, _, _, name, after = struct.unpack_from("<IHHII", self._data, entry)
                    found.append((self._text(section[6], file), self._text(section[6], name)))
                    entry += after
                at += following
        return found


def _number(text):
    return tuple(int(part) for part in text.split(".")) if text.replace(".", "").isdigit() else None


def problems(path):
    """What keeps a file from running everywhere, a line each."""
    elf = Elf(path)
    found = [f"needs {name}, which not every system has" for name in elf.libraries()
             if name not in LIBRARIES]
    for library, version in elf.versions():
        if library not in LIBRARIES:
            continue
        kind, _, number = version.partition("_")
        newest = NEWEST.get(kind)
        number = _number(number)
        # GLIBC_PRIVATE and what nobody here knows are no promise of any version.
        if newest is None or number is None or number > newest:
            at_most = ".".join(map(str, newest)) if newest else None
            found.append(f"wants {version} of {library}" +
                         (f"; at most {kind}_{at_most}" if at_most else ""))
    return found


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = 0
    for path in paths:
        try:
            lines = problems(path)
        except (OSError, ValueError, IndexError, struct.error) as error:
            lines = [f"cannot be read: {error}"]
        wrong += len(lines)
        for line in lines:
            print(f"{path} {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
