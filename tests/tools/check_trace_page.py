#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a page of `dtilec trace --html`: well-formed, self-contained, with data that its script
can read. Where a headless Chromium is installed, the page is opened in it, too.

    check_trace_page.py FILE
"""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys

VOID = {"meta", "link", "br", "img", "input"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.data, self.scripts = [], [], 0

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            assert name not in ("src", "href"), f"`{tag}` loads {value}"
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))
            self.scripts += tag == "script"

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"`{tag}` ends in {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][1].get("type") == "application/json":
            self.data.append(data)


def main(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, f"not closed: {page.open}"
    assert page.scripts == 2
    asks = re.search(r"\b(fetch|XMLHttpRequest|import)\b\s*\(|https?://", text)
    assert not asks, f"it asks a network: {asks}"
    trace = json.loads("".join(page.data))
    slices, tracks = trace["slices"], trace["tracks"]
    assert slices and trace["summary"].strip()
    for number, (track, begin, duration, kind, name, place, parent, *more) in enumerate(slices):
        assert 0 <= track < len(tracks) and begin >= 0 and duration >= 0 and 0 <= kind < 7
        assert 0 <= name < len(trace["names"]) and -1 <= place < len(trace["names"])
        assert -1 <= parent < number and len(more) <= 1
    for track in tracks:
        assert 0 <= track["process"] < len(trace["processes"]) and track["name"]
    assert trace["arrows"]
    for source, target in trace["arrows"]:
        assert slices[source][3] == 5 and slices[target][3] == 3
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser:
        shown = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000",
             "--dump-dom", pathlib.Path(path).resolve().as_uri()],
            capture_output=True, text=True, timeout=120, check=True).stdout
        # The script sets the title when it has drawn.
        assert f"<title>dtile trace: {len(slices)} slices</title>" in shown


main(sys.argv[1])
