# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the page on PyTorch and its program say the same, and name all operations."""

import os
import re
import sys
import textwrap

from dtile import ops


def main(docs):
    with open(os.path.join(docs, "pytorch.md"), encoding="utf-8") as file:
        page = file.read()
    with open(os.path.join(docs, "pytorch", "block.py"), encoding="utf-8") as file:
        program = file.read()
    wrong = []
    changed = re.search(r"# \[changed lines\]\n(.*?)# \[end\]", program, re.DOTALL).group(1)
    plain = re.search(r"(    def gather_matmul.*?)\n\n\n", program, re.DOTALL).group(1)
    for what, lines in (("the changed lines", changed.strip()),
                        ("the plain lines", textwrap.dedent(plain).strip())):
        if f"```python\n{lines}\n```" not in page:
            wrong.append(f"{what} of block.py are not in the page")
    names = [name for name in ops.__all__ if isinstance(getattr(ops, name), ops.Operation)]
    wrong += [f"the page does not name {name}" for name in names
              if not re.search(rf"`{name}\(", page)]
    print("\n".join(wrong))
    return 1 if wrong or len(names) < 10 else 0


sys.exit(main(sys.argv[1]))
