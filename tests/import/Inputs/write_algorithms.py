#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes collective algorithms in the two public formats into a folder, for `dtilec import`.

    write_algorithms.py FOLDER

Names of files that begin with `wrong_` are algorithms with one mistake.
"""

import json
import os
import sys


class Xml:
    """An algorithm of MSCCL. Thread blocks are named by rank and what they are for."""

    def __init__(self, coll, ranks, chunks, inplace=0, scratch=0):
        self.coll, self.ranks, self.chunks = coll, ranks, chunks
        self.inplace, self.scratch = inplace, scratch
        self.blocks = [{} for _ in range(ranks)]
        self.awaited = set()

    def block(self, rank, key, send=-1, recv=-1, chan=0):
        found = self.blocks[rank].setdefault(
            key, {"id": len(self.blocks[rank]), "send": send, "recv": recv, "chan": chan,
                  "steps": []})
        if send >= 0:
            found["send"] = send
        if recv >= 0:
            found["recv"] = recv
        return found

    def step(self, block, kind, src=("i", -1), dst=("o", -1), cnt=1, after=None):
        """Appends a step; `after` is what a call before gave. Gives what others wait for."""
        block["steps"].append([kind, src, dst, cnt, after])
        return block, len(block["steps"]) - 1

    def text(self):
        for rank in self.blocks:
            for block in rank.values():
                for step in block["steps"]:
                    if step[4]:
                        self.awaited.add((id(step[4][0]), step[4][1]))
        big = self.chunks
        small = big // self.ranks
        inputs = small if self.coll == "allgather" else big
        outputs = small if self.coll == "reduce_scatter" else big
        out = [f'<algo name="{self.name}" proto="Simple" nchannels="1" nchunksperloop="{big}" '
               f'ngpus="{self.ranks}" coll="{self.coll}" inplace="{self.inplace}">']
        for rank, blocks in enumerate(self.blocks):
            out.append(f'  <gpu id="{rank}" i_chunks="{inputs}" o_chunks="{outputs}" '
                       f's_chunks="{self.scratch}">')
            for block in blocks.values():
                out.append('    <tb id="{id}" send="{send}" recv="{recv}" chan="{chan}">'
                           .format(**block))
                for number, (kind, src, dst, cnt, after) in enumerate(block["steps"]):
                    depid, deps = (after[0]["id"], after[1]) if after else (-1, -1)
                    hasdep = int((id(block), number) in self.awaited)
                    out.append(
                        f'      <step s="{number}" type="{kind}" srcbuf="{src[0]}" '
                        f'srcoff="{src[1]}" dstbuf="{dst[0]}" dstoff="{dst[1]}" cnt="{cnt}" '
                        f'depid="{depid}" deps="{deps}" hasdep="{hasdep}"/>')
                out.append("    </tb>")
            out.append("  </gpu>")
        return "\n".join(out + ["</algo>", ""])


def ring_allreduce(w=4, wrong_chunk=False):
    """Around a ring: partial sums once, then the sums."""
    a = Xml("allreduce", w, w, inplace=1)
    for r in range(w):
        b = a.block(r, "ring", send=(r + 1) % w, recv=(r - 1) % w)

        def at(c):
            return "i", c % w

        a.step(b, "s", src=at(r))
        for k in range(1, w - 1):
            a.step(b, "rrs", src=at(r - k))
        own = at(r + 2 if wrong_chunk and r == 1 else r + 1)
        a.step(b, "rrcs", src=own, dst=own)
        for k in range(w - 2):
            a.step(b, "rcs", dst=at(r - k))
        a.step(b, "r", dst=at(r + 2))
    return a


def pairs_allreduce(w=4, no_dependency=False):
    """Each rank gathers a part of all in scratch, adds it up, and sends the sum to all."""
    a = Xml("allreduce", w, w, inplace=1, scratch=w)
    for r in range(w):
        got = []
        for p in range(w):
            if p == r:
                continue
            b = a.block(r, p, send=p, recv=p)
            a.step(b, "s", src=("i", p))
            got.append((p, a.step(b, "r", dst=("s", p))))
        adder = a.block(r, "adder")
        for p, step in got:
            last = a.step(adder, "re", src=("s", p), dst=("i", r), after=step)
        for p, _ in got:
            b = a.block(r, p)
            a.step(b, "s", src=("i", r), after=None if no_dependency and r == 2 else last)
            a.step(b, "r", dst=("i", p))
    return a


def halving_allreduce(w=8):
    """Recursive halving of what each rank adds up, then doubling of what it knows."""
    a = Xml("allreduce", w, w, inplace=1)
    for r in range(w):
        low, count, last, sent = 0, w, None, []
        bit = w // 2
        while bit:
            b = a.block(r, bit, send=r ^ bit, recv=r ^ bit)
            count //= 2
            mine, other = (low + count, low) if r & bit else (low, low + count)
            a.step(b, "s", src=("i", other), cnt=count, after=last)
            last = a.step(b, "rrc", src=("i", mine), dst=("i", mine), cnt=count)
            sent.append((b, mine, other, count))
            low, bit = mine, bit // 2
        for b, mine, other, count in reversed(sent):
            a.step(b, "s", src=("i", mine), cnt=count, after=last)
            last = a.step(b, "r", dst=("i", other), cnt=count)
    return a


def hierarchical_allreduce(nodes=2, local=2):
    """A reduce-scatter in each node, a sum between nodes, and a gather in each node."""
    w = nodes * local
    a = Xml("allreduce", w, local, inplace=1)
    for r in range(w):
        node, place = divmod(r, local)
        right, left = node * local + (place + 1) % local, node * local + (place - 1) % local
        b = a.block(r, "local", send=right, recv=left)
        a.step(b, "s", src=("i", (place - 1) % local))
        for k in range(2, local):
            a.step(b, "rrs", src=("i", (place - k) % local))
        own = a.step(b, "rrc", src=("i", place), dst=("i", place))
        # Nodes are two: each sends its sum to the other.
        peer = (node + 1) % nodes * local + place
        far = a.block(r, "far", send=peer, recv=peer)
        a.step(far, "s", src=("i", place), after=own)
        done = a.step(far, "rrc", src=("i", place), dst=("i", place))
        a.step(b, "s", src=("i", place), after=done)
        for k in range(1, local - 1):
            a.step(b, "rcs", dst=("i", (place - k) % local))
        a.step(b, "r", dst=("i", (place + 1) % local))
    return a


def tree_allreduce(w=8):
    """A binomial tree to rank 0 and back."""
    a = Xml("allreduce", w, 1, inplace=1)
    own = ("i", 0)
    order = []
    bit = 1
    while bit < w:
        order.append(bit)
        bit *= 2
    for r in range(w):
        last, children, parent = None, [], None
        for bit in order:
            if r & bit:
                parent = r ^ bit
                break
            children.append(r ^ bit)
        for child in children:
            b = a.block(r, child, send=child, recv=child)
            last = a.step(b, "rrc", src=own, dst=own, after=last)
        if parent is not None:
            b = a.block(r, parent, send=parent, recv=parent)
            a.step(b, "s", src=own, after=last)
            last = a.step(b, "r", dst=own)
        for child in reversed(children):
            a.step(a.block(r, child), "s", src=own, after=last)
    return a


def ring_allgather(w=4, no_dependency=False):
    """Around a ring, in place; one thread block receives and another one sends."""
    a = Xml("allgather", w, w, inplace=1)
    for r in range(w):
        sender = a.block(r, "send", send=(r + 1) % w)
        receiver = a.block(r, "receive", recv=(r - 1) % w)
        a.step(sender, "s", src=("o", r))
        for k in range(1, w):
            chunk = ("o", (r - k) % w)
            step = a.step(receiver, "r", dst=chunk)
            if k < w - 1:
                lost = no_dependency and r == 1 and k == 1
                a.step(sender, "s", src=chunk, after=None if lost else step)
    return a


def doubling_allgather(w=8):
    """Recursive doubling, in pieces that double; not in place."""
    a = Xml("allgather", w, w)
    for r in range(w):
        last = a.step(a.block(r, "copy"), "cpy", src=("i", 0), dst=("o", r))
        bit = 1
        while bit < w:
            b = a.block(r, bit, send=r ^ bit, recv=r ^ bit)
            a.step(b, "s", src=("o", r // bit * bit), cnt=bit, after=last)
            last = a.step(b, "r", dst=("o", (r ^ bit) // bit * bit), cnt=bit)
            bit *= 2
    return a


def ring_reduce_scatter(w=4, per_rank=2):
    """Around a ring, each rank's part in two chunks, and the result in an output of its own."""
    a = Xml("reduce_scatter", w, w * per_rank)
    for r in range(w):
        b = a.block(r, "ring", send=(r + 1) % w, recv=(r - 1) % w)
        for j in range(per_rank):
            a.step(b, "s", src=("i", (r - 1) % w * per_rank + j))
        for k in range(2, w):
            for j in range(per_rank):
                a.step(b, "rrs", src=("i", (r - k) % w * per_rank + j))
        for j in range(per_rank):
            a.step(b, "rrc", src=("i", r * per_rank + j), dst=("o", j))
    return a


def pairs_alltoall(w=4, per_rank=2):
    """Everyone to everyone, two chunks at once."""
    a = Xml("alltoall", w, w * per_rank)
    for r in range(w):
        a.step(a.block(r, "own"), "cpy", src=("i", r * per_rank), dst=("o", r * per_rank),
               cnt=per_rank)
        for p in range(w):
            if p != r:
                b = a.block(r, p, send=p, recv=p)
                a.step(b, "s", src=("i", p * per_rank), cnt=per_rank)
                a.step(b, "r", dst=("o", p * per_rank), cnt=per_rank)
    return a


def hierarchical_alltoall(nodes=2, local=2):
    """First to who has the same place in the other node, then within the node."""
    w = nodes * local
    a = Xml("alltoall", w, w, scratch=local)
    for r in range(w):
        node, place = divmod(r, local)
        other, peer, friend = 1 - node, (1 - node) * local + place, node * local + 1 - place
        far = a.block(r, "far", send=peer, recv=peer)
        a.step(far, "s", src=("i", other * local), cnt=local)
        here = a.step(far, "r", dst=("s", 0), cnt=local)
        own = a.block(r, "own")
        a.step(own, "cpy", src=("i", r), dst=("o", r))
        a.step(own, "cpy", src=("s", place), dst=("o", peer), after=here)
        near = a.block(r, "near", send=friend, recv=friend)
        a.step(near, "s", src=("i", friend))
        a.step(near, "nop", after=here)
        a.step(near, "s", src=("s", 1 - place))
        a.step(near, "r", dst=("o", friend))
        a.step(near, "r", dst=("o", other * local + 1 - place))
    return a


def tree_broadcast(w=8, root=3):
    """A binomial tree from rank 3."""
    a = Xml("broadcast", w, 2)
    for v in range(w):
        r = (v + root) % w
        last = None
        if v == 0:
            a.step(a.block(r, "own"), "cpy", src=("i", 0), dst=("o", 0), cnt=2)
        low = v & -v if v else w
        if v:
            parent = (v - low + root) % w
            b = a.block(r, parent, recv=parent)
            last = a.step(b, "r", dst=("o", 0), cnt=2)
        bit = low // 2
        while bit:
            child = (v + bit + root) % w
            b = a.block(r, child, send=child)
            a.step(b, "s", src=("i", 0) if v == 0 else ("o", 0), cnt=2, after=last)
            bit //= 2
    return a


class Plan:
    """A plan of MSCCL++: every rank has a channel to, and all buffers of, every other."""

    def __init__(self, collective, ranks, chunks, inplace=False, channel="memory",
                 semaphores=0, protocol="Simple"):
        self.collective, self.ranks, self.channel = collective, ranks, channel
        self.chunks, self.inplace, self.protocol = chunks, inplace, protocol
        self.semaphores = semaphores
        self.blocks = [[] for _ in range(ranks)]

    def peers(self, r):
        return [p for p in range(self.ranks) if p != r]

    def channel_id(self, r, p):
        return self.peers(r).index(p)

    def remote(self, r, p, buffer, index, size=1):
        number = self.channel_id(r, p) * 3 + "ios".index(buffer)
        return {"buffer_id": number, "index": index, "size": size}

    @staticmethod
    def local(buffer, index, size=1):
        return {"type": buffer, "index": index, "size": size}

    def op(self, name, src=None, dst=None, channels=None, **more):
        result = {"name": name}
        if src is not None:
            result["src_buff"] = src
        if dst is not None:
            result["dst_buff"] = dst
        if channels is not None:
            result["channel_ids"] = channels
        return {**result, "channel_type": self.channel, **more}

    def add(self, rank, ops):
        self.blocks[rank].append(ops)

    def text(self):
        gpus = []
        inputs, outputs, scratch = self.chunks
        for r, blocks in enumerate(self.blocks):
            peers = self.peers(r)
            gpus.append({
                "id": r,
                "input_chunks": inputs, "output_chunks": outputs, "scratch_chunks": scratch,
                "threadblocks": [
                    {"id": number, "ops": ops,
                     "channels": [{"channel_type": self.channel,
                                   "channel_ids": list(range(len(peers)))}],
                     "remote_buffer_refs": [{"access_channel_type": self.channel,
                                             "remote_buffer_ids": list(range(3 * len(peers)))}]}
                    for number, ops in enumerate(blocks)],
                "channels": [{"channel_type": self.channel, "connected_to": peers}],
                "remote_buffers": [{"rank": p, "type": t, "access_channel_types": [self.channel]}
                                   for p in peers for t in "ios"],
                "semaphores": [{"init_value": 0} for _ in range(self.semaphores)],
            })
        return json.dumps({
            "name": self.name, "collective": self.collective, "protocol": self.protocol,
            "inplace": self.inplace, "reuse_resources": False, "gpus": gpus,
            "num_threads_per_block": 1024, "use_double_scratch_buffer": False,
            "buffer_alignment": 16, "min_message_size": 0,
            "max_message_size": 18446744073709551615}, indent=2) + "\n"


def reading_allreduce(w=4, no_wait=False):
    """Each rank reads its part of all peers, and writes the sum to all, in place."""
    p = Plan("allreduce", w, (w, w, 0), inplace=True)
    for r in range(w):
        peers = p.peers(r)
        ids = list(range(len(peers)))
        sums = [p.local("i", r)] + [p.remote(r, q, "i", r) for q in peers]
        ops = [p.op("rlxsignal", channels=ids), p.op("rlxwait", channels=ids),
               p.op("rres", src=sums, dst=sums, reduce_op="sum"),
               p.op("signal", channels=ids), p.op("wait", channels=ids)]
        if no_wait and r == 1:
            del ops[1]
            ops[0] = p.op("nop")
        p.add(r, ops)
    if no_wait:
        # Nobody waits for what rank 1 does not signal any more.
        for r in range(w):
            if r != 1:
                keep = [i for i, q in enumerate(p.peers(r)) if q != 1]
                p.blocks[r][0][0]["channel_ids"] = keep
                p.blocks[r][0][1]["channel_ids"] = keep
    return p


def packet_allreduce(w=4):
    """Packets: parts to their owners, sums to everybody."""
    p = Plan("allreduce", w, (w, w, 2 * w), inplace=True, protocol="LL")
    for r in range(w):
        peers = p.peers(r)
        p.add(r, [p.op("ppkt", src=[p.local("i", q) for q in peers],
                       dst=[p.remote(r, q, "s", r) for q in peers])])
        p.add(r, [p.op("respkt", src=[p.local("i", r)] + [p.local("s", q) for q in peers],
                       dst=[p.local("i", r)] + [p.remote(r, q, "s", w + r) for q in peers])])
        for q in peers:
            p.add(r, [p.op("upkt", src=[p.local("s", w + q)], dst=[p.local("i", q)])])
    return p


def port_allgather(w=4):
    """By copy engines: put with signal, to a peer a time."""
    p = Plan("allgather", w, (1, w, 0), inplace=True, channel="port")
    for r in range(w):
        order = [(r + k) % w for k in range(1, w)]
        ops = [p.op("signal", channels=list(range(w - 1))),
               p.op("wait", channels=list(range(w - 1)))]
        for q in order:
            ops.append(p.op("pws", src=[p.local("o", r)], dst=[p.remote(r, q, "o", r)],
                            channels=[p.channel_id(r, q)]))
        ops += [p.op("flush", channels=list(range(w - 1))),
                p.op("wait", channels=list(range(w - 1)))]
        p.add(r, ops)
    return p


def getting_reduce_scatter(w=4):
    """Gets all peers' parts into scratch, and adds them up behind a barrier."""
    p = Plan("reducescatter", w, (w, 1, w - 1))
    for r in range(w):
        peers = p.peers(r)
        ids = list(range(w - 1))
        meet = p.op("barrier", barrier_id=0, num_threadblocks=2)
        p.add(r, [p.op("rlxsignal", channels=ids), p.op("rlxwait", channels=ids),
                  p.op("get", src=[p.remote(r, q, "i", r) for q in peers],
                       dst=[p.local("s", i) for i in ids]),
                  meet, p.op("signal", channels=ids), p.op("wait", channels=ids)])
        p.add(r, [meet, p.op("re", src=[p.local("i", r)] + [p.local("s", i) for i in ids],
                             dst=[p.local("o", 0)])])
    return p


def piped_alltoall(w=2):
    """A pipeline of two thread blocks: one copies to scratch, one puts; semaphores between."""
    p = Plan("alltoall", w, (w, w, w), semaphores=1)
    for r in range(w):
        context = {"unit_size": 1 << 20, "num_chunks": 1}
        q = 1 - r
        p.add(r, [p.op("copy", src=[p.local("i", r)], dst=[p.local("o", r)]),
                  p.op("pipeline", iter_context=context, ops=[
                      p.op("copy", src=[p.local("i", q)], dst=[p.local("s", q)]),
                      p.op("sem_release", semaphore_ids=[0])])])
        p.add(r, [p.op("pipeline", iter_context=context, ops=[
            p.op("sem_acquire", semaphore_ids=[0]),
            p.op("put", src=[p.local("s", q)], dst=[p.remote(r, q, "o", r)]),
            p.op("signal", channels=[0]), p.op("wait", channels=[0])])])
    return p


ALGORITHMS = {
    "ring_allreduce.xml": ring_allreduce(),
    "pairs_allreduce.xml": pairs_allreduce(),
    "halving_allreduce.xml": halving_allreduce(),
    "hierarchical_allreduce.xml": hierarchical_allreduce(),
    "tree_allreduce.xml": tree_allreduce(),
    "ring_allgather.xml": ring_allgather(),
    "doubling_allgather.xml": doubling_allgather(),
    "ring_reduce_scatter.xml": ring_reduce_scatter(),
    "pairs_alltoall.xml": pairs_alltoall(),
    "hierarchical_alltoall.xml": hierarchical_alltoall(),
    "tree_broadcast.xml": tree_broadcast(),
    "reading_allreduce.json": reading_allreduce(),
    "packet_allreduce.json": packet_allreduce(),
    "port_allgather.json": port_allgather(),
    "getting_reduce_scatter.json": getting_reduce_scatter(),
    "piped_alltoall.json": piped_alltoall(),
    # A sum of another chunk than the neighbours'.
    "wrong_chunk.xml": ring_allreduce(wrong_chunk=True),
    # A rank sends what it may not have yet.
    "wrong_order.xml": ring_allgather(no_dependency=True),
    "wrong_sum.xml": pairs_allreduce(no_dependency=True),
    # A rank neither says nor asks whether buffers may be read.
    "wrong_start.json": reading_allreduce(no_wait=True),
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, algorithm in ALGORITHMS.items():
        algorithm.name = name.split(".")[0]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(algorithm.text())


if __name__ == "__main__":
    main()
