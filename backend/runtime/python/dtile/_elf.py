# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which symbols a shared object exports: the loader can look names up, but not list them."""

import struct

_DYNSYM = 11


def exported(path):
    """Names of the dynamic symbols that are defined in a 64-bit little-endian ELF file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no 64-bit ELF file")
    start, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    names = []
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            name, _, _, where = struct.unpack_from("<IBBH", data, at)
            if name and where:
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name:end].decode())
    return names
