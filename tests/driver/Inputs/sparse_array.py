"""Writes an array of 200 GB that has no blocks on the disk: sparse_array.py FILE."""

import struct
import sys

header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (50000000000,), }".ljust(117) + b"\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    file.truncate(file.tell() + 4 * 50000000000)
