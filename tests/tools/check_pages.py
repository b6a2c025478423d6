#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds docs/diagnostics to what dtilec does: check_pages.py DTILEC PAGES.

Every code of `dtilec explain --list` has a page, and every page a code. In a page, each block
marked ```dtile right passes `dtilec check` and its tests, and each marked ```dtile wrong fails with
the page's code. Blocks of IR text, ```dtir, are held to `dtilec ir`. Options of the command may
follow, as in ```dtile wrong --machine=h20.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(dtile|dtir) (right|wrong)((?: --\S+)*)\n(.*?)^```$", re.S | re.M)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    return done.returncode, done.stdout + done.stderr


def check_block(dtilec, code, language, kind, options, text, number):
    """One finding, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page." + language)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        status, output = run(
            dtilec, "check" if language == "dtile" else "ir", *options.split(), path
        )
        if status == 0 and language == "dtile" and re.search(r"^test ", text, re.M):
            status, tested = run(dtilec, "test", path, "--executor", "interp")
            output += tested
    where = f"{code}, block {number} ({kind})"
    if status not in (0, 1):
        return f"{where}: dtilec ends with {status}\n{output}"
    if kind == "right" and status != 0:
        return f"{where}: is refused\n{output}"
    if kind == "right" and f"[{code}]" in output:
        return f"{where}: has the very message that it avoids\n{output}"
    if kind == "wrong" and f"[{code}]" not in output:
        return f"{where}: does not show {code}\n{output}"
    return None


def main(dtilec, pages):
    status, listing = run(dtilec, "explain", "--list")
    if status != 0:
        sys.exit(listing)
    codes = {line.split()[0] for line in listing.splitlines()}
    names = {name[:-3] for name in os.listdir(pages) if re.fullmatch(r"[EW]\d+\.md", name)}
    findings = [f"{code} has no page" for code in sorted(codes - names)]
    findings += [f"{name}.md explains no code" for name in sorted(names - codes)]
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in sorted(names & codes):
            with open(os.path.join(pages, name + ".md"), encoding="utf-8") as file:
                text = file.read()
            if not text.startswith(f"# {name}: "):
                findings.append(f"{name}.md does not start with `# {name}: `")
            if run(dtilec, "explain", name) != (0, text):
                findings.append(f"dtilec explain {name} prints something else than the page")
            for number, block in enumerate(BLOCK.finditer(text), 1):
                jobs.append(pool.submit(check_block, dtilec, name, *block.groups(), number))
        findings += [job.result() for job in jobs if job.result()]
    print("\n".join(findings) or f"{len(names)} pages and {len(jobs)} programs in them are right")
    return 1 if findings or not jobs else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
