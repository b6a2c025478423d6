#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A client of the language server that follows a script, for tests.

    lsp_client.py SCRIPT COMMAND...    COMMAND starts the server; prints what it answers

Files of a script lie in its folder; `untitled:NAME` is a text without a file. A place is a text
that occurs in the file, or `TEXT#2` for its second occurrence, and `TEXT+3` for three characters
behind the start. Lines and columns are printed from 1; columns count UTF-16 units. One command a
line, words as in a shell:

    open NAME [FILE]          opens NAME with the text of FILE, or with its own
    edit NAME OLD NEW         an incremental change: the text at a place becomes NEW, in which
                              `\\n` is a line break
    replace NAME FILE         a change of the whole text
    close NAME
    write NAME TEXT           writes a file, as another program would, and tells the server
    remove NAME               removes a file, and tells the server
    diagnostics NAME [TEXT]   waits for the messages about the current text, until one has TEXT in
                              it, or with `none` until there are none
    symbols | folds | format | tokens NAME
    hover | definition | references | highlight | signature NAME PLACE
    complete NAME PLACE [PREFIX]    what is offered, all or what begins with PREFIX
    rename NAME PLACE NEW     prints the lines that change, as they become
    proofs NAME               waits until every kernel has a verdict
    lenses | hints NAME       verdicts of kernels; what stands behind the code of a line
    actions NAME PLACE        the titles of quick fixes; `fix NAME PLACE TITLE` applies one
    option NAME JSON          before everything else: an initialization option
    request METHOD [JSON]     any request; `uri:NAME` becomes the URI of a file
    notify METHOD [JSON]
    raw TEXT                  bytes as they are, with Python's escapes
    reply                     waits for a message that answers no request
    capabilities              the names of what the server offers

At the end the session is shut down, and the exit code is printed.
"""

import codecs
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
import urllib.parse

TIMEOUT = 60


def utf16(text):
    return len(text.encode("utf-16-le")) // 2


def position(text, offset):
    """The line and UTF-16 column of an offset in code points."""
    before = text[:offset]
    line = before.count("\n")
    return {"line": line, "character": utf16(before[before.rfind("\n") + 1:])}


def offset_of(text, place):
    """The offset in code points of a position."""
    lines = text.split("\n")
    line = min(place["line"], len(lines) - 1)
    start = sum(len(each) + 1 for each in lines[:line])
    units = place["character"]
    for character in lines[line]:
        if units <= 0:
            break
        units -= utf16(character)
        start += 1
    return start


def apply_edits(text, edits):
    for edit in sorted(edits, key=lambda e: (e["range"]["start"]["line"],
                                             e["range"]["start"]["character"]), reverse=True):
        begin = offset_of(text, edit["range"]["start"])
        end = offset_of(text, edit["range"]["end"])
        text = text[:begin] + edit["newText"] + text[end:]
    return text


class Client:
    """A server and the messages that have come from it."""

    def __init__(self, command, stderr=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=stderr)
        self.messages = queue.Queue()
        self.notifications = []
        self.published = {}
        self.next_id = 1
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        stream = self.process.stdout
        while True:
            length = None
            while True:
                line = stream.readline()
                if not line:
                    self.messages.put(None)
                    return
                if line.strip() == b"":
                    break
                name, _, value = line.partition(b":")
                if name.strip().lower() == b"content-length":
                    length = int(value)
            self.messages.put(json.loads(stream.read(length).decode("utf-8")))

    def write(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit("the server has ended") from None

    def send(self, message):
        body = json.dumps(dict(message, jsonrpc="2.0")).encode("utf-8")
        self.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method, params=None):
        self.send({"method": method, "params": params if params is not None else {}})

    def take(self):
        """The next message; what the server asks is answered, what it publishes is kept."""
        try:
            message = self.messages.get(timeout=TIMEOUT)
        except queue.Empty:
            raise SystemExit("the server says nothing") from None
        if message is None:
            raise SystemExit("the server has ended")
        if "method" in message and "id" in message:
            self.send({"id": message["id"], "result": None})
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published[message["params"]["uri"]] = message["params"]
        return message

    def request(self, method, params=None):
        """The result, or an object with `error`."""
        number = self.next_id
        self.next_id += 1
        self.send({"id": number, "method": method, "params": params if params is not None else {}})
        while True:
            message = self.take()
            if message.get("id") == number and "method" not in message:
                return {"error": message["error"]} if "error" in message else message["result"]
            if "id" in message and "method" not in message:
                self.notifications.append(message)

    def initialize(self, options=None, folder=None):
        result = self.request("initialize", {
            "processId": os.getpid(), "rootUri": folder, "initializationOptions": options or {},
            "capabilities": {"workspace": {"codeLens": {"refreshSupport": True},
                                           "inlayHint": {"refreshSupport": True}}}})
        self.notify("initialized")
        return result

    def finish(self):
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(timeout=TIMEOUT)


def range_text(where):
    start, end = where["start"], where["end"]
    return "%d:%d-%d:%d" % (start["line"] + 1, start["character"] + 1, end["line"] + 1,
                            end["character"] + 1)


class Script:
    def __init__(self, path, command):
        self.folder = os.path.dirname(os.path.abspath(path))
        self.client = Client(command)
        self.capabilities = {}
        self.texts = {}
        self.versions = {}
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().splitlines()

    def uri(self, name):
        if name.startswith("untitled:"):
            return name
        return "file://" + urllib.parse.quote(os.path.join(self.folder, name))

    def name(self, uri):
        path = urllib.parse.unquote(uri[len("file://"):]) if uri.startswith("file://") else uri
        return os.path.relpath(path, self.folder) if path.startswith(self.folder) else path

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8", newline="") as file:
            return file.read()

    def text(self, name):
        return self.texts[name] if name in self.texts else self.read(name)

    def find(self, name, place):
        needle, count, shift = place, 1, 0
        if "+" in needle[1:] and needle.rpartition("+")[2].isdigit():
            needle, _, by = needle.rpartition("+")
            shift = int(by)
        if "#" in needle[1:] and needle.rpartition("#")[2].isdigit():
            needle, _, which = needle.rpartition("#")
            count = int(which)
        at = -1
        for _ in range(count):
            at = self.text(name).find(needle, at + 1)
            if at < 0:
                raise SystemExit("`%s` does not occur in %s" % (place, name))
        return at + shift, needle

    def at(self, name, place):
        return {"textDocument": {"uri": self.uri(name)},
                "position": position(self.text(name), self.find(name, place)[0])}

    def document(self, name):
        return {"textDocument": {"uri": self.uri(name)}}

    def changed(self, name, change):
        self.versions[name] += 1
        self.client.notify("textDocument/didChange", {
            "textDocument": {"uri": self.uri(name), "version": self.versions[name]},
            "contentChanges": [change]})

    # ---- commands

    def do_open(self, name, file=None):
        self.texts[name] = self.read(file or name)
        self.versions[name] = self.versions.get(name, 0) + 1
        self.client.notify("textDocument/didOpen", {"textDocument": {
            "uri": self.uri(name), "languageId": "dtile", "version": self.versions[name],
            "text": self.texts[name]}})

    def do_edit(self, name, old, new):
        new = new.replace("\\n", "\n")
        text = self.texts[name]
        begin, needle = self.find(name, old)
        end = begin + len(needle)
        change = {"range": {"start": position(text, begin), "end": position(text, end)},
                  "text": new}
        self.texts[name] = text[:begin] + new + text[end:]
        self.changed(name, change)

    def do_replace(self, name, file):
        self.texts[name] = self.read(file)
        self.changed(name, {"text": self.texts[name]})

    def do_close(self, name):
        self.texts.pop(name, None)
        self.client.notify("textDocument/didClose", self.document(name))

    def tell_change(self, name, kind):
        self.client.notify("workspace/didChangeWatchedFiles",
                           {"changes": [{"uri": self.uri(name), "type": kind}]})

    def do_write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text.replace("\\n", "\n"))
        self.tell_change(name, 2)

    def do_remove(self, name):
        os.remove(os.path.join(self.folder, name))
        self.tell_change(name, 3)

    def do_diagnostics(self, name, wanted=""):
        uri = self.uri(name)
        while True:
            known = self.client.published.get(uri)
            if known and (name not in self.texts or known.get("version") == self.versions[name]):
                found = json.dumps(known["diagnostics"], ensure_ascii=False)
                if found == "[]" if wanted == "none" else wanted in found:
                    break
            self.client.take()
        del self.client.published[uri]
        print("diagnostics of %s: %d" % (name, len(known["diagnostics"])))
        for each in known["diagnostics"]:
            severity = {1: "error", 2: "warning", 3: "information", 4: "hint"}[each["severity"]]
            print("  %s %s: %s [%s]" % (range_text(each["range"]), severity,
                                        each["message"].replace("\n", " | "),
                                        each.get("code", "")))
            for related in each.get("relatedInformation", []):
                print("    %s %s: %s" % (self.name(related["location"]["uri"]),
                                         range_text(related["location"]["range"]),
                                         related["message"]))

    def do_symbols(self, name):
        def show(symbols, depth):
            for each in symbols:
                print("  " * depth + "%s %s (%d) %s name %s" % (
                    range_text(each["range"]), each["name"], each["kind"], each.get("detail", ""),
                    range_text(each["selectionRange"])))
                show(each.get("children", []), depth + 1)
        print("symbols of %s" % name)
        show(self.client.request("textDocument/documentSymbol", self.document(name)), 1)

    def do_folds(self, name):
        print("folds of %s" % name)
        for each in self.client.request("textDocument/foldingRange", self.document(name)):
            print("  %d-%d %s" % (each["startLine"] + 1, each["endLine"] + 1,
                                  each.get("kind", "")))

    def do_format(self, name):
        edits = self.client.request(
            "textDocument/formatting",
            dict(self.document(name), options={"tabSize": 4, "insertSpaces": True}))
        if edits is None:
            print("%s is not formatted" % name)
            return
        print("%d edits of %s:" % (len(edits), name))
        print(apply_edits(self.text(name), edits))

    def do_tokens(self, name):
        """Names with what they are: `a:function`."""
        legend = self.capabilities["semanticTokensProvider"]["legend"]
        data = self.client.request("textDocument/semanticTokens/full", self.document(name))["data"]
        lines = self.text(name).split("\n")
        line = column = 0
        shown = {}
        for i in range(0, len(data), 5):
            column = data[i + 1] + (column if data[i] == 0 else 0)
            line += data[i]
            units = lines[line].encode("utf-16-le")[2 * column:2 * (column + data[i + 2])]
            modifiers = [each for bit, each in enumerate(legend["tokenModifiers"])
                         if data[i + 4] >> bit & 1]
            shown.setdefault(line, []).append(".".join(
                [units.decode("utf-16-le") + ":" + legend["tokenTypes"][data[i + 3]]] + modifiers))
        print("tokens of %s" % name)
        for number, tokens in shown.items():
            print("  %d %s" % (number + 1, " ".join(tokens)))

    def do_hover(self, name, place):
        result = self.client.request("textDocument/hover", self.at(name, place))
        if result is None:
            print("hover: nothing")
            return
        print("hover at %s:" % range_text(result["range"]))
        for line in result["contents"]["value"].split("\n"):
            print("  " + line)

    def show_locations(self, title, locations):
        print("%s: %d" % (title, len(locations)))
        for each in locations:
            print("  %s %s" % (self.name(each["uri"]), range_text(each["range"])))

    def do_definition(self, name, place):
        found = self.client.request("textDocument/definition", self.at(name, place))
        self.show_locations("definition", [found] if found else [])

    def do_references(self, name, place):
        self.show_locations("references", self.client.request(
            "textDocument/references",
            dict(self.at(name, place), context={"includeDeclaration": True})))

    def do_highlight(self, name, place):
        for each in self.client.request("textDocument/documentHighlight", self.at(name, place)):
            print("highlight %s" % range_text(each["range"]))

    def do_rename(self, name, place, new):
        prepared = self.client.request("textDocument/prepareRename", self.at(name, place))
        result = self.client.request("textDocument/rename",
                                     dict(self.at(name, place), newName=new))
        if "error" in result:
            print("not renamed: %s" % result["error"]["message"])
            return
        print("rename %s at %s" % (prepared["placeholder"], range_text(prepared["range"])))
        for uri, edits in sorted(result["changes"].items()):
            changed = apply_edits(self.text(self.name(uri)), edits).split("\n")
            for line in sorted({edit["range"]["start"]["line"] for edit in edits}):
                print("  %s %d: %s" % (self.name(uri), line + 1, changed[line]))

    def do_complete(self, name, place, prefix=""):
        result = self.client.request("textDocument/completion", self.at(name, place))
        print("completions:")
        for each in sorted(result["items"], key=lambda item: item["sortText"]):
            if each["label"].startswith(prefix):
                print("  %s (%d) %s" % (each["label"], each["kind"], each.get("detail", "")))

    def do_signature(self, name, place):
        result = self.client.request("textDocument/signatureHelp", self.at(name, place))
        if result is None:
            print("signature: none")
            return
        signature = result["signatures"][0]
        active = result["activeParameter"]
        parameters = [each["label"] for each in signature["parameters"]]
        print("signature: %s" % signature["label"])
        print("  now: %s" % (parameters[active] if active < len(parameters) else "none"))

    def do_proofs(self, name):
        """What the server wants to be asked again says that there is news."""
        while True:
            lenses = self.client.request("textDocument/codeLens", self.document(name))
            if lenses and not any("…" in each["command"]["title"] for each in lenses):
                return
            self.client.take()

    def do_lenses(self, name):
        print("lenses of %s" % name)
        for each in self.client.request("textDocument/codeLens", self.document(name)):
            print("  %s %s" % (range_text(each["range"]), each["command"]["title"]))

    def do_hints(self, name):
        print("hints of %s" % name)
        lines = self.text(name).split("\n")
        for each in self.client.request("textDocument/inlayHint", dict(
                self.document(name), range={"start": {"line": 0, "character": 0},
                                            "end": {"line": len(lines), "character": 0}})):
            where = each["position"]
            print("  %d: %s <%s>" % (where["line"] + 1,
                                     lines[where["line"]][:where["character"]].strip(),
                                     each["label"]))

    def actions(self, name, place):
        where = self.at(name, place)
        return self.client.request("textDocument/codeAction", {
            "textDocument": where["textDocument"],
            "range": {"start": where["position"], "end": where["position"]},
            "context": {"diagnostics": []}})

    def do_actions(self, name, place):
        found = self.actions(name, place)
        print("actions: %d" % len(found))
        for each in found:
            print("  %s (%s)" % (each["title"], each["diagnostics"][0]["code"]))

    def do_fix(self, name, place, title):
        for each in self.actions(name, place):
            if each["title"].startswith(title):
                text = self.text(name)
                edits = each["edit"]["changes"][self.uri(name)]
                self.texts[name] = apply_edits(text, edits)
                self.changed(name, {"text": self.texts[name]})
                print("fixed: %s" % each["title"])
                for old, new in zip(text.split("\n") + [""], self.texts[name].split("\n")):
                    if old != new:
                        print("  first changed line: %s" % new.strip())
                        break
                return
        print("no such fix")

    def do_option(self, name, value):
        """Read before the session begins."""

    def do_request(self, method, params="{}"):
        result = self.client.request(method, json.loads(self.with_uris(params)))
        print("%s: %s" % (method, json.dumps(result, sort_keys=True, ensure_ascii=False)))

    def do_notify(self, method, params="{}"):
        self.client.notify(method, json.loads(self.with_uris(params)))

    def with_uris(self, params):
        words = params.split("uri:")
        return words[0] + "".join(
            self.uri(word.partition('"')[0]) + '"' + word.partition('"')[2] for word in words[1:])

    def do_raw(self, text):
        self.client.write(codecs.decode(text.encode("latin-1"), "unicode_escape")
                          .encode("latin-1"))

    def do_reply(self):
        if not self.client.notifications:
            while "method" in (message := self.client.take()):
                pass
            self.client.notifications.append(message)
        print("reply: %s" % json.dumps(self.client.notifications.pop(0), sort_keys=True))

    def run(self):
        options = [shlex.split(line) for line in self.lines if line.startswith("option ")]
        capabilities = self.client.initialize(
            {name: json.loads(value) for _, name, value in options}, "file://" + self.folder)
        self.capabilities = capabilities["capabilities"]
        print("server: %s" % capabilities["serverInfo"]["name"])
        for line in self.lines:
            words = shlex.split(line, comments=True)
            if not words:
                continue
            if words[0] == "capabilities":
                print("capabilities: %s" % ", ".join(sorted(self.capabilities)))
                continue
            getattr(self, "do_" + words[0])(*words[1:])
            sys.stdout.flush()
        print("exit code %d" % self.client.finish())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    Script(sys.argv[1], sys.argv[2:]).run()


if __name__ == "__main__":
    main()
