#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the language server: how fast it answers, what it holds, what changed texts do to it.

    lsp_bars.py DTILEC EXAMPLES [--edits N] [--buffers N] [--seed N] [--only TEXT] [--relaxed]

Prints a table; exits with 1 where a bar is missed, or an analysis failed. `--relaxed` is for
machines that do other work: times are printed, and missed ones are no failure.
"""

import argparse
import glob
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from lsp_client import Client, apply_edits, position  # noqa: E402

DIAGNOSTICS_MS, PROOF_MS, MEMORY_MB = 100, 1000, 300
FAILURE = "internal error"


def memory_mb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0


class Document:
    """An open document that follows its edits."""

    def __init__(self, client, uri, text):
        self.client, self.uri, self.text, self.version = client, uri, text, 1
        client.notify("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": "dtile", "version": 1, "text": text}})

    def change(self, changes, text):
        self.version += 1
        self.text = text
        self.client.notify("textDocument/didChange", {
            "textDocument": {"uri": self.uri, "version": self.version},
            "contentChanges": changes})

    def replace(self, begin, end, new):
        change = {"range": {"start": position(self.text, begin), "end": position(self.text, end)},
                  "text": new}
        self.change([change], self.text[:begin] + new + self.text[end:])

    def set(self, text):
        self.change([{"text": text}], text)

    def wait(self):
        """Until the messages of this version are there."""
        while True:
            known = self.client.published.get(self.uri)
            if known and known.get("version") == self.version:
                for each in known["diagnostics"]:
                    if FAILURE in each["message"]:
                        raise SystemExit("an analysis failed on:\n" + self.text)
                return known["diagnostics"]
            self.client.take()


def long_text(examples, lines):
    """So many lines of kernels, with their names numbered."""
    with open(os.path.join(examples, "ag_gemm", "ag_gemm.dtile"), encoding="utf-8") as file:
        whole = file.read()
    kernel = whole[whole.index("/// `comm` sends"):whole.index("test \"")]
    text, count = "", 0
    while text.count("\n") + kernel.count("\n") <= lines:
        text += kernel.replace("kernel ag_gemm", f"kernel ag_gemm_{count}")
        count += 1
    return text + "// the end\n" * (lines - text.count("\n"))


def median(values):
    return sorted(values)[len(values) // 2]


def measure_keys(command, examples):
    """Milliseconds from a key to the messages, in a file of 500 lines; the median and the worst."""
    client = Client(command)
    client.initialize({"proofs": False})
    document = Document(client, "file:///nowhere/long.dtile", long_text(examples, 500))
    document.wait()
    times = []
    for i in range(40):
        at = document.text.index("let peer")
        begun = time.monotonic()
        if i % 2:
            document.replace(at, at + 9, "let peer ")
        else:
            document.replace(at, at + 9, "let peer2")
        document.wait()
        times.append(1000 * (time.monotonic() - begun))
    client.finish()
    return median(times), max(times)


def measure_proofs(command, examples, only):
    """Milliseconds until the first and the last verdict of each example."""
    client = Client(command)
    client.initialize({"proofs": {"delayMs": 0}})
    times = {}
    for path in sorted(glob.glob(os.path.join(examples, "**", "*.dtile"), recursive=True)):
        if only not in path:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        uri = "file://" + os.path.abspath(path)
        begun = time.monotonic()
        document = Document(client, uri, text)
        document.wait()
        first = None
        while True:
            lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
            known = sum("…" not in lens["command"]["title"] for lens in lenses)
            if known and first is None:
                first = 1000 * (time.monotonic() - begun)
            if known == len(lenses):
                break
            if any("failed" in lens["command"]["title"] for lens in lenses):
                raise SystemExit(f"a proof failed: {path}")
            client.take()
        if lenses:
            times[os.path.relpath(path, examples)] = (first, 1000 * (time.monotonic() - begun))
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    client.finish()
    return times


def random_edit(rng, text, pieces):
    """A range of a text and what it becomes: what keys, pastes and deletions do."""
    begin = rng.randrange(len(text) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return begin, begin, rng.choice("abcxyz_0123456789 \n\t(){}[]<>=+-*/.,;:@&|\"'é𝔘")
    if kind == 1:
        return begin, min(len(text), begin + rng.choice((1, 1, 1, 5, 40))), ""
    if kind == 2:
        return begin, begin, rng.choice(pieces)
    return begin, min(len(text), begin + rng.randrange(12)), rng.choice(pieces)


FEATURES = ["hover", "definition", "completion", "signatureHelp", "documentHighlight",
            "prepareRename", "references"]
WHOLE = ["documentSymbol", "foldingRange", "semanticTokens/full", "codeLens", "formatting"]


def ask_everything(document, rng):
    """Every feature, at some place."""
    about = {"textDocument": {"uri": document.uri}}
    at = dict(about, position=position(document.text, rng.randrange(len(document.text) + 1)))
    for feature in FEATURES:
        params = dict(at, context={"includeDeclaration": True})
        document.client.request("textDocument/" + feature, params)
    document.client.request("textDocument/rename", dict(at, newName="renamed"))
    for feature in WHOLE:
        params = dict(about, options={"tabSize": 4, "insertSpaces": True})
        result = document.client.request("textDocument/" + feature, params)
        if feature == "formatting" and isinstance(result, list):
            apply_edits(document.text, result)
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 10000, "character": 0}}
    for feature in ("codeAction", "inlayHint"):
        document.client.request("textDocument/" + feature, dict(
            about, range=where, context={"diagnostics": []}))


def sources(folders):
    texts = []
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.dtile"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if len(text) < 12000:
                texts.append(text)
    return texts


def run_edits(command, examples, count, rng):
    """Megabytes that the server holds after so many edits of one document, of which every text that
    was left for a moment is analyzed; and how many were."""
    client = Client(command)
    client.initialize({"proofs": {"delayMs": 100}})
    with open(os.path.join(examples, "ag_gemm", "ag_gemm.dtile"), encoding="utf-8") as file:
        original = file.read()
    document = Document(client, "file:///nowhere/edited.dtile", original)
    document.wait()
    begun = memory_mb(client.process.pid)
    pieces = original.split()
    waits = most = 0
    for i in range(count):
        # Typing goes wrong and is undone, so that the text stays of one kind.
        if i % 60 == 59:
            document.set(original)
        else:
            document.replace(*random_edit(rng, document.text, pieces))
        if i % 10 == 9:
            document.wait()
            waits += 1
        if i % 1000 == 999:
            most = max(most, memory_mb(client.process.pid))
    document.wait()
    most = max(most, memory_mb(client.process.pid))
    assert client.finish() == 0
    return begun, most, waits


def run_buffers(command, folders, count, rng):
    """Opens changed programs and asks everything of each."""
    client = Client(command)
    client.initialize({"proofs": {"delayMs": 0}})
    texts = sources(folders)
    pieces = sorted({word for text in texts[:40] for word in text.split()})
    for i in range(count):
        text = rng.choice(texts)
        for _ in range(rng.randrange(1, 12)):
            begin, end, new = random_edit(rng, text, pieces)
            text = text[:begin] + new + text[end:]
        uri = f"file:///nowhere/buffer{i % 7}.dtile"
        document = Document(client, uri, text)
        document.wait()
        ask_everything(document, rng)
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        client.published.pop(uri, None)
    most = memory_mb(client.process.pid)
    assert client.finish() == 0
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dtilec")
    parser.add_argument("examples")
    parser.add_argument("--edits", type=int, default=100_000)
    parser.add_argument("--buffers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="examples whose path has this are proved")
    parser.add_argument("--relaxed", action="store_true")
    options = parser.parse_args()
    command = [options.dtilec, "lsp"]
    rng = random.Random(options.seed)
    missed = []

    def row(what, value, bar=None, is_time=False):
        late = bar is not None and value > bar
        print(f"{what}: {value:.0f}" + (f" (bar {bar})" if bar else "")
              + (" MISSED" if late else ""), flush=True)
        if late and not (is_time and options.relaxed):
            missed.append(what)

    typical, worst = measure_keys(command, options.examples)
    row("messages of 500 lines after a key, ms", typical, DIAGNOSTICS_MS, True)
    row("the slowest of 40, ms", worst)
    times = measure_proofs(command, options.examples, options.only)
    row("first verdict of an example, ms", median([first for first, _ in times.values()]))
    row("the slowest of these, ms", max(first for first, _ in times.values()), PROOF_MS, True)
    row("all verdicts of an example, ms", median([last for _, last in times.values()]), PROOF_MS,
        True)
    for name, (_, last) in sorted(times.items(), key=lambda item: -item[1][1])[:4]:
        row(f"  {name}, ms", last)
    begun, most, waits = run_edits(command, options.examples, options.edits, rng)
    row("memory at the start, MB", begun)
    row(f"memory over {options.edits} edits ({waits} waited for), MB", most, MEMORY_MB)
    folders = [options.examples, os.path.join(options.examples, "..", "stdlib"),
               os.path.join(options.examples, "..", "tests", "sema")]
    most = run_buffers(command, folders, options.buffers, rng)
    row(f"memory after {options.buffers} changed buffers, MB", most, MEMORY_MB)
    print(f"seed {options.seed}")
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
