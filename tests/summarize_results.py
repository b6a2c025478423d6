# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints one line that counts what ctest and lit ran: summarize_results.py ctest.xml [lit.xml].

lit is one of ctest's tests; its own tests are counted in its place where their results are given.
Exits with 1 if anything failed or if nothing ran.
"""

import sys
import xml.etree.ElementTree as ElementTree


def count(path, skip_names=()):
    """Passed, failed and skipped test cases of a JUnit file, and the failed ones' names."""
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.get("name") in skip_names:
            continue
        name = (case.get("classname", "") + "/" + case.get("name", "")).strip("/")
        if case.find("failure") is not None or case.get("status") == "fail":
            failed.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failed


def main(ctest_xml, lit_xml=None):
    passed, skipped, failed = count(ctest_xml, skip_names=("lit",) if lit_xml else ())
    lit_passed, lit_skipped, lit_failed = 0, 0, []
    if lit_xml:
        try:
            lit_passed, lit_skipped, lit_failed = count(lit_xml)
        except OSError:
            lit_failed = ["lit wrote no results"]
    for name in failed + lit_failed:
        print("FAILED " + name)
    total_failed = len(failed) + len(lit_failed)
    print(
        f"dtile tests: {passed + lit_passed} passed, {total_failed} failed, "
        f"{skipped + lit_skipped} skipped "
        f"(unit and lint {passed + len(failed)}, lit {lit_passed + len(lit_failed)})"
    )
    return 1 if total_failed or passed + lit_passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
