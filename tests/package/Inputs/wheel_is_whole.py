# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a wheel is what its record says, and a package that works. usage: WHEEL SITE"""

import base64
import csv
import hashlib
import os
import subprocess
import sys
import zipfile


def main(path, site):
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        lines = list(csv.reader(wheel.read(record).decode().splitlines()))
        assert sorted(line[0] for line in lines) == sorted(names), "the record lists what is there"
        assert names[-1] == record, "the record is last"
        for name, digest, size in lines:
            data = wheel.read(name)
            if name != record:
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
                assert digest == "sha256=" + want.rstrip("=") and int(size) == len(data), name
            mode = wheel.getinfo(name).external_attr >> 16
            runs = name.startswith("dtile/bin/") or name.endswith(".so")
            assert mode == 0o100000 | (0o755 if runs else 0o644), f"{name}: {mode:o}"
            # As pip does it.
            wheel.extract(name, site)
            os.chmod(os.path.join(site, name), mode & 0o777)
        print("\n".join(name for name in names if "/" in name and not name.endswith(".py")),
              flush=True)
    environment = {"PYTHONPATH": site, "PATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1",
                   "REAL_DTILEC": os.environ["REAL_DTILEC"]}
    program = ("import sys, dtile, dtile._abi, dtile._compiler\n"
               "print('runtime', dtile._abi.runtime()._name)\n"
               "print('compiler', sys.modules['dtile.build']._find_compiler())\n"
               "sys.argv[1:] = ['--version']\n"
               "sys.stdout.flush()\n"
               "dtile._compiler.main()\n")
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


main(*sys.argv[1:])
