# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which symbols a shared object exports: the loader can look names up, but not list them."""

import struct

_LOADED = 1
_DYNSYM = 11


def _entries(data, layout, start, size, count):
    if count and (size < struct.calcsize(layout) or start + size * count > len(data)):
        raise ValueError("the file is cut off or damaged: its tables go past its end")
    return [struct.unpack_from(layout, data, start + i * size) for i in range(count)]


def exported(path):
    """Names of the dynamic symbols that are defined in a 64-bit little-endian ELF file. ValueError
    where it is none, or is cut off: loading such a file may end the process."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 0x40:
        raise ValueError("it is no 64-bit ELF file")
    programs, start = struct.unpack_from("<QQ", data, 0x20)
    program_size, program_count, size, count = struct.unpack_from("<HHHH", data, 0x36)
    # type, flags, offset, address, physical address, size in the file, size, alignment
    for segment in _entries(data, "<IIQQQQQQ", programs, program_size, program_count):
        if segment[0] == _LOADED and segment[2] + segment[5] > len(data):
            raise ValueError("the file is cut off: a segment goes past its end")
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = _entries(data, "<IIQQQQIIQQ", start, size, count)
    names = []
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        if section[6] >= count or section[9] == 0 or section[4] + section[5] > len(data):
            raise ValueError("the file is damaged: its table of symbols makes no sense")
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            name, _, _, where = struct.unpack_from("<IBBH", data, at)
            if name and where:
                # find gives -1 where a name does not end.
                end = data.find(b"\0", strings + name)
                names.append(data[strings + name:end].decode(errors="replace"))
    return names
