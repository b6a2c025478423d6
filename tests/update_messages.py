# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewrites expected messages of lit tests: `lit --update-tests build/tests --filter=NAME`.

lit.cfg.py gives `update` to lit, which calls it when a FileCheck fails. A check of a message,

    // CHECK: fail_x.dtile:[[#@LINE+1]]:8: error: `x` is not symmetric [E0601]

that matches nothing gets the words and the column of the one message that can be meant: of the same
severity, code and line, and matched by no other check. Where none or several can be, and in all
other checks, nothing changes. lit itself copies the file that a `diff` compares.

    update_messages.py --self-test
"""

import re
import sys
import types

# What FileCheck shows of its input, and has to show all of.
FILECHECK_OPTS = "--dump-input-filter=all"

# With a space for the end of the line.
_SHOWN = re.compile(r"^ *(\d+): (.*?) ?$")
_MESSAGE = re.compile(r"(?P<place>.*?)(?P<severity>error|warning|note): (?P<words>.*)$")
_CODE = re.compile(r" \[([EW]\d{4})\]$")
_LINE = re.compile(r"\[\[#?@LINE *(?:([+-]) *(\d+))?\]\]")
_COLUMN = re.compile(r":(\d+): $")


def shown_input(stderr):
    """The lines that FileCheck says it was given."""
    _, _, dump = stderr.partition("<<<<<<\n")
    return [m[2] for m in map(_SHOWN.match, dump.split(">>>>>>")[0].splitlines()) if m]


def line_of(text, number):
    """The line that `[[#@LINE+1]]` in line `number` of a test stands for, or None."""
    match = _LINE.search(text)
    if not match:
        return None
    return number + int((match[1] or "+") + (match[2] or "0"))


def pattern_of(check, number):
    """A check as a regular expression; None where it has variables."""
    check = _LINE.sub(lambda m: str(line_of(m[0], number)), check)
    pattern = ""
    for part in re.split(r"(\{\{.*?\}\}|\[\[.*?\]\])", check):
        if part.startswith("[["):
            return None
        if part.startswith("{{"):
            pattern += f"(?:{part[2:-2]})"
        else:
            pattern += r"[ \t]+".join(re.escape(word) for word in re.split(r"[ \t]+", part))
    return re.compile(pattern)


def literal(text):
    """Words as FileCheck takes them for themselves."""
    return re.sub(r"\{\{|\[\[", lambda m: "{{" + re.escape(m[0]) + "}}", text)


def code_of(words):
    match = _CODE.search(words)
    return match[1] if match else None


def renewed(check, number, messages):
    """The check with the words of the message that is meant, or None."""
    old = _MESSAGE.match(check)
    line = line_of(old["place"], number)
    fitting = []
    for message in messages:
        new = _MESSAGE.match(message)
        if new["severity"] != old["severity"] or code_of(new["words"]) != code_of(old["words"]):
            continue
        if line is not None and f":{line}:" not in new["place"]:
            continue
        fitting.append(new)
    # A check without a code and a line could mean anything.
    if len(fitting) != 1 or (line is None and code_of(old["words"]) is None):
        return None
    place = old["place"]
    column = _COLUMN.search(fitting[0]["place"])
    if column and _COLUMN.search(place):
        place = _COLUMN.sub(f":{column[1]}: ", place)
    return f"{place}{old['severity']}: {literal(fitting[0]['words'])}"


def renew(text, prefixes, output):
    """The text of a test with renewed checks, and how many were."""
    directive = re.compile(
        rf"^(.*?\b(?:{'|'.join(map(re.escape, prefixes))})(?:-NEXT|-DAG|-SAME)?: *)(.*)$")
    lines = text.split("\n")
    checks = {}
    for number, line in enumerate(lines, 1):
        match = directive.match(line)
        if match and _MESSAGE.match(match[2]) and "RUN:" not in match[1]:
            checks[number] = match
    messages = [line for line in output if _MESSAGE.match(line)]
    patterns = {number: pattern_of(match[2], number) for number, match in checks.items()}
    unmatched = [number for number, pattern in patterns.items()
                 if pattern and not any(pattern.search(message) for message in messages)]
    free = [message for message in messages
            if not any(pattern and pattern.search(message) for pattern in patterns.values())]
    count = 0
    for number in unmatched:
        check = renewed(checks[number][2], number, free)
        if check is not None:
            lines[number - 1] = checks[number][1] + check
            count += 1
    return "\n".join(lines), count


def update(result, test, commands):
    """What lit calls for a command that failed. Says what was done, or None."""
    args = result.command.args
    if not args[0].endswith("FileCheck"):
        return None
    prefixes = ["CHECK"]
    for i, arg in enumerate(args):
        match = re.match(r"--?check-prefix(?:es)?(?:=(.*))?$", arg)
        if match:
            prefixes = (match[1] or args[i + 1]).split(",")
    path = test.getSourcePath()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text, count = renew(text, prefixes, shown_input(result.stderr))
    if count == 0:
        return None
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return f"update_messages: {count} messages renewed in {path}"


def self_test():
    shown = """Input was:
<<<<<<
            1: x.dtile:4:9: error: `a` is not known here [E0301] 
check:2'0      X~~~~~~~~~~ error: no match found
            2: x.dtile:9:2: error: one [[new]] word [E0302]
            3: x.dtile:9:3: error: another [E0302]
            4: x.dtile:9:4: note: see here
>>>>>>
"""
    output = shown_input(shown)
    assert len(output) == 4 and output[3] == "x.dtile:9:4: note: see here", output

    def becomes(before, after, prefixes=("CHECK",)):
        text, count = renew(before, prefixes, output)
        assert text == after and count == (before != after), (text, count)

    same = lambda text: becomes(text, text)
    # The words and the column are new; the place and its expressions stay.
    becomes("\n\n// CHECK: {{.*}}x.dtile:[[#@LINE+1]]:8: error: `a` is unknown [E0301]",
            "\n\n// CHECK: {{.*}}x.dtile:[[#@LINE+1]]:9: error: `a` is not known here [E0301]")
    becomes("CHECK: error: old [E0301]", "CHECK: error: `a` is not known here [E0301]")
    becomes("\n" * 7 + "CHECK-NEXT: :[[@LINE+1]]:1: note: look", "\n" * 7 +
            "CHECK-NEXT: :[[@LINE+1]]:4: note: see here")
    # What FileCheck would read as a variable is written so that it does not.
    becomes("CHECK: error: another [E0302]\nCHECK: error: old [E0302]",
            "CHECK: error: another [E0302]\nCHECK: error: one {{\\[\\[}}new]] word [E0302]")
    # Two could be meant; another line, severity, code or prefix; a variable; a check that matches.
    same("CHECK: error: old [E0302]")
    same("CHECK: x.dtile:[[#@LINE]]:9: error: old [E0301]")
    same("CHECK: warning: old [E0301]")
    same("CHECK: error: old [E0399]")
    same("OTHER: error: old [E0301]")
    same("CHECK: error: [[NAME]] [E0301]")
    same("CHECK: error: {{.*}} here [E0301]")
    same("CHECK: note: old")
    becomes("OTHER: error: old [E0301]", "OTHER: error: `a` is not known here [E0301]", ["OTHER"])
    # Only FileCheck is renewed.
    command = types.SimpleNamespace(args=["diff", "a", "b"])
    assert update(types.SimpleNamespace(command=command), None, []) is None
    print("update_messages: self-test passed")


if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        sys.exit(__doc__)
    self_test()
