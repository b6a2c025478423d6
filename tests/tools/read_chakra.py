#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads Chakra execution traces strictly, and does what they say.

    read_chakra.py FOLDER NAME RANKS    prints nodes, messages, bytes, microseconds of computation

A field that the schema does not have, or has with another type, is an error. So are two nodes of
one number, a dependence on no node, a message that only one side knows or of which the two sides
say different things, and nodes that never become ready.
"""

import re
import sys

VARINT, BYTES = 0, 2
# Field -> (name, wire type): mlcommons/chakra, schema/protobuf/et_def.proto.
METADATA = {1: ("version", BYTES), 2: ("attr", BYTES)}
NODE = {1: ("id", VARINT), 2: ("name", BYTES), 3: ("type", VARINT), 4: ("ctrl_deps", BYTES),
        5: ("data_deps", BYTES), 6: ("start_time_micros", VARINT), 7: ("duration_micros", VARINT),
        8: ("inputs", BYTES), 9: ("outputs", BYTES), 10: ("attr", BYTES)}
ATTRIBUTE = {1: ("name", BYTES), 2: ("doc_string", BYTES), 11: ("uint32_val", VARINT),
             13: ("uint64_val", VARINT), 27: ("bool_val", VARINT), 29: ("string_val", BYTES)}
COMP, SEND, RECV = 4, 5, 6
# What the feeder of ASTRA-sim reads, and as what.
KNOWN = {"is_cpu_op": "bool_val", "comm_src": "uint32_val", "comm_dst": "uint32_val",
         "comm_size": "uint64_val", "comm_tag": "uint32_val"}


def fail(text):
    sys.exit(f"read_chakra.py: {text}")


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            fail("a number has no end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data, schema):
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        name, wire = schema.get(key >> 3, (None, None))
        if name is None or wire != key & 7:
            fail(f"field {key >> 3} of wire type {key & 7} is not in the schema")
        value, at = varint(data, at)
        if wire == BYTES:
            if at + value > len(data):
                fail(f"{name} is longer than its message")
            value, at = data[at:at + value], at + value
        found.append((name, value))
    return found


def numbers(data):
    at, found = 0, []
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def read_node(data):
    node = {"after": [], "duration_micros": 0}
    for name, value in fields(data, NODE):
        if name in ("ctrl_deps", "data_deps"):
            node["after"] += numbers(value)
        elif name == "attr":
            parts = fields(value, ATTRIBUTE)
            attribute = bytes(parts[0][1]).decode()
            if len(parts) != 2 or parts[0][0] != "name" or KNOWN.get(attribute) != parts[1][0]:
                fail(f"attribute {parts} is not one that is read")
            node[attribute] = parts[1][1]
        else:
            node[name] = value
    if node.get("type") not in (COMP, SEND, RECV):
        fail(f"node {node.get('id')} has type {node.get('type')}")
    return node


def read_trace(path):
    with open(path, "rb") as file:
        data = file.read()
    messages, at = [], 0
    while at < len(data):
        size, at = varint(data, at)
        if at + size > len(data):
            fail(f"{path} ends inside of a message")
        messages.append(data[at:at + size])
        at += size
    if [name for name, _ in fields(messages[0], METADATA)] != ["version"]:
        fail(f"{path} does not begin with its version")
    nodes = [read_node(data) for data in messages[1:]]
    ids = {node["id"] for node in nodes}
    if len(ids) != len(nodes):
        fail(f"{path} has two nodes of one number")
    for node in nodes:
        if not ids.issuperset(node["after"]):
            fail(f"{path}: node {node['id']} comes after no node")
    return nodes


def check_inputs(folder, ranks):
    with open(f"{folder}/network.yml", encoding="utf-8") as file:
        text = file.read()
    counts = re.search(r"^npus_count: \[ ([0-9, ]+) \]$", text, re.M)
    product = 1
    for count in counts.group(1).split(","):
        product *= int(count)
    if product != ranks:
        fail(f"network.yml is of {product} ranks")
    import json  # pylint: disable=import-outside-toplevel
    for name in ("system.json", "memory.json"):
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            json.load(file)


def main():
    folder, name, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    check_inputs(folder, ranks)
    traces = [read_trace(f"{folder}/{name}.{rank}.et") for rank in range(ranks)]
    sides = {SEND: {}, RECV: {}}
    for rank, nodes in enumerate(traces):
        for node in nodes:
            if node["type"] == COMP:
                continue
            own, other = node["comm_src"], node["comm_dst"]
            if (own if node["type"] == SEND else other) != rank or own == other:
                fail(f"rank {rank}: node {node['id']} is of another rank")
            key = (own, other, node["comm_tag"])
            if key in sides[node["type"]]:
                fail(f"message {key} is there twice")
            sides[node["type"]][key] = node["comm_size"]
    if sides[SEND] != sides[RECV]:
        fail("the two sides of a message differ: "
             f"{sorted(set(sides[SEND].items()) ^ set(sides[RECV].items()))[:4]}")
    # Do all: a receive is done when its send is.
    done = [set() for _ in traces]
    sent = set()
    left = [list(nodes) for nodes in traces]
    while any(left):
        before = sum(map(len, left))
        for rank, nodes in enumerate(left):
            kept = []
            for node in nodes:
                key = (node.get("comm_src"), node.get("comm_dst"), node.get("comm_tag"))
                is_ready = done[rank].issuperset(node["after"])
                if not is_ready or (node["type"] == RECV and key not in sent):
                    kept.append(node)
                    continue
                done[rank].add(node["id"])
                if node["type"] == SEND:
                    sent.add(key)
            left[rank] = kept
        if sum(map(len, left)) == before:
            fail(f"{before} nodes never become ready")
    micros = sum(node["duration_micros"] for nodes in traces for node in nodes)
    print(f"nodes={sum(map(len, traces))} messages={len(sent)} "
          f"bytes={sum(sides[SEND].values())} micros={micros}")


main()
