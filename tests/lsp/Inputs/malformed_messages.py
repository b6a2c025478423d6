# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sends a language server what is no message, and asks after each whether it still answers.

    malformed_messages.py TOOLS COMMAND...
"""

import json
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
from lsp_client import Client  # noqa: E402

PARSE, REQUEST, METHOD, PARAMS, NOT_YET = -32700, -32600, -32601, -32602, -32002
URI = "file:///nowhere/a.dtile"


def framed(body):
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def answers(client, what):
    symbols = client.request("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
    names = [each["name"] for each in symbols]
    assert names == ["A"], "after %s: %r" % (what, names)


def error_of(client):
    """The next answer to no request."""
    while True:
        message = client.take()
        if "error" in message:
            return message["id"], message["error"]["code"]


def main():
    client = Client(sys.argv[2:])
    number = client.request("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
    assert number["error"]["code"] == NOT_YET, number
    client.notify("textDocument/didOpen", {})
    client.initialize()
    client.notify("textDocument/didOpen", {"textDocument": {
        "uri": URI, "languageId": "dtile", "version": 1, "text": "const A = 1;\n"}})
    answers(client, "opening")

    # What is answered, under the id that it has.
    for data, wanted in [
            (b"Content-Type: x\r\n\r\n", (None, PARSE)),
            (b"Content-Length: many\r\n\r\n", (None, PARSE)),
            (b"Content-Length: -5\r\n\r\n", (None, PARSE)),
            (b"\r\n\r\n", (None, PARSE)),
            (b"x" * 9000 + b"\n\n", (None, PARSE)),
            (b"Content-Lenght: 2\r\n\r\n{}", (None, PARSE)),
            (b"Content-Length: 2\r\n\r\n" + b'{"jsonrpc": "2.0", "id": 6}', (None, PARSE)),
            (framed(b""), (None, PARSE)),
            (framed(b'{"id": '), (None, PARSE)),
            (framed(b"\xff\xfe\x00"), (None, PARSE)),
            (framed(b"[" * 100000), (None, PARSE)),
            (framed(b'{"a":' * 100000), (None, PARSE)),
            (framed(b"17"), (None, REQUEST)),
            (framed(b"[]"), (None, REQUEST)),
            (framed(b"{}"), (None, REQUEST)),
            (framed(b'{"id": 7, "method": "exit"}'), (7, REQUEST)),
            (framed(b'{"jsonrpc": "1.0", "id": "x", "method": "exit"}'), ("x", REQUEST)),
            (framed(b'{"jsonrpc": "2.0"}'), (None, REQUEST)),
            (framed(b'{"jsonrpc": "2.0", "id": [1], "method": "exit"}'), (None, REQUEST)),
            (framed(b'{"jsonrpc": "2.0", "id": 8, "method": "initialize"}'), (8, REQUEST)),
            (framed(b'{"jsonrpc": "2.0", "id": 9, "method": "no/such"}'), (9, METHOD)),
            (framed(b'{"jsonrpc": "2.0", "id": 10, "method": "textDocument/formatting"}'),
             (10, PARAMS)),
            (framed(b'{"jsonrpc": "2.0", "id": 11, "method": "textDocument/foldingRange", '
                    b'"params": {"textDocument": {"uri": "untitled:Untitled-1"}}}'), (11, PARAMS)),
            (framed(b'{"jsonrpc": "2.0", "id": 12, "method": "textDocument/foldingRange", '
                    b'"params": {"textDocument": {"uri": "file:///not/open.dtile"}}}'),
             (12, PARAMS))]:
        client.write(data)
        found = error_of(client)
        assert found == wanted, "%r: %r, not %r" % (data[:60], found, wanted)
        answers(client, data[:60])

    # What is dropped.
    for message in [
            {"method": "no/such"}, {"method": "$/cancelRequest", "params": {"id": 1}},
            {"method": "textDocument/didOpen", "params": 17},
            {"method": "textDocument/didChange", "params": {"textDocument": {"uri": URI}}},
            {"method": "textDocument/didChange", "params": {
                "textDocument": {"uri": "file:///never.dtile", "version": 1},
                "contentChanges": []}},
            {"method": "textDocument/didClose", "params": {
                "textDocument": {"uri": "file:///never.dtile"}}},
            {"id": 4711, "result": None}, {"id": "x", "error": {"code": 1, "message": "no"}}]:
        client.send(message)
        answers(client, message)

    # Too large: answered at once, and the bytes that follow are no messages.
    client.write(b"Content-Length: 500000000\r\n\r\n")
    assert error_of(client) == (None, PARSE)
    block = framed(b'{"jsonrpc": "2.0", "method": "exit"}') * 20000
    left = 500000000
    while left:
        client.write(block[:left])
        left -= min(left, len(block))
    answers(client, "a large message")

    # In pieces, and several at once.
    whole = framed(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "textDocument/foldingRange",
                               "params": {"textDocument": {"uri": URI}}}).encode())
    for i in range(len(whole)):
        client.write(whole[i:i + 1])
    while (message := client.take()).get("id") != 99:
        pass
    assert message["result"] == [], message
    client.write(whole * 3)
    for _ in range(3):
        assert client.take()["id"] == 99

    # Positions that are nowhere are the nearest that there are.
    client.notify("textDocument/didChange", {
        "textDocument": {"uri": URI, "version": 2},
        "contentChanges": [
            {"range": {"start": {"line": 900, "character": 900},
                       "end": {"line": 0, "character": 3}}, "text": "// the end"},
            {"range": {"start": {"line": 0, "character": 6},
                       "end": {"line": 0, "character": 2 ** 31 - 1}}, "text": "A = 2;"}]})
    answers(client, "positions that are nowhere")
    edits = client.request("textDocument/formatting", {
        "textDocument": {"uri": URI}, "options": {"tabSize": 4, "insertSpaces": True}})
    assert edits and edits[0]["newText"] == "// the end\n", edits

    client.request("shutdown")
    late = client.request("textDocument/foldingRange", {"textDocument": {"uri": URI}})
    assert late["error"]["code"] == REQUEST, late
    client.notify("exit")
    assert client.process.wait(timeout=60) == 0

    # A stream that ends, also in the middle of a message, is no proper end, and no crash.
    for data in [b"", b"Content-Le", b"Content-Length: 10\r\n\r\n{", framed(b"{}")]:
        ended = subprocess.run(sys.argv[2:], input=data, stdout=subprocess.PIPE, timeout=60,
                               check=False)
        assert ended.returncode == 1, (data, ended.returncode)
    print("every message was answered or dropped")


if __name__ == "__main__":
    main()
