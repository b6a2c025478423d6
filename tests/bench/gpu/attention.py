# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ring_attention and flash_decode beside torch's attention: its own kernels (FlashAttention, cuDNN)
behind NCCL's all-gather of keys and values, or on the rank's keys before one of the results."""

import torch
import torch.distributed as dist
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from harness import kernel_of, measured, ratio, team_for

# Heads, heads of keys, queries and keys of all ranks together; 128 elements a head.
ATTENTION = ((32, 8, 8192), (16, 16, 8192), (32, 8, 16384))
# Sequences, heads of keys, keys of a sequence on all ranks; 8 queries share a head of keys.
DECODES = ((1, 8, 131072), (16, 8, 8192), (64, 8, 4096))
D, GROUP = 128, 8


def gathered(tensor):
    """What all ranks have, one behind the other along a new first dimension."""
    whole = torch.empty(dist.get_world_size(), *tensor.shape, device="cuda", dtype=tensor.dtype)
    dist.all_gather_into_tensor(whole, tensor.contiguous())
    return whole


def attention(bench, options):
    for heads, key_heads, length in ATTENTION:
        w = bench.ranks
        own = length // w
        q = bench.random(key_heads, heads // key_heads, own, D)
        k, v = (bench.random(key_heads, own, D) for _ in range(2))
        y = torch.empty_like(q)
        scale = D**-0.5

        def fill():
            for tensor in (q, k, v):
                tensor.copy_(bench.random(*tensor.shape))

        def reference():
            keys, values = (gathered(t).transpose(0, 1).reshape(key_heads, length, D)
                            for t in (k, v))
            want = torch.empty(q.shape, device="cuda", dtype=torch.float64)
            for head in range(key_heads):
                for one in range(heads // key_heads):
                    scores = q[head, one].double() @ keys[head].double().T * scale
                    want[head, one] = torch.softmax(scores, -1) @ values[head].double()
            return want

        with team_for(bench, options) as team:
            kernel = kernel_of(bench, options, "ring_attention", "ring_attention")
            spent, error = measured(
                bench, "ring_attention", lambda: kernel(q, k, v, scale, y, team=team),
                lambda name, launch: bench.check(name, launch, fill, y, reference, 1e-2))
        whole = [torch.empty(w, *k.shape, device="cuda", dtype=k.dtype) for _ in range(2)]

        def sequential():
            if w == 1:
                keys, values = k, v
            else:
                for to, tensor in zip(whole, (k, v)):
                    dist.all_gather_into_tensor(to, tensor)
                keys, values = (t.transpose(0, 1).reshape(key_heads, length, D) for t in whole)
            return torch_attention(q.view(1, heads, own, D), keys[None], values[None],
                                   enable_gqa=heads != key_heads)

        peer = bench.attempt(sequential)
        bench.row(op="attention", M=heads, N=key_heads, K=length, dtile=spent,
                  error=error, best_peer=peer, ratio=ratio(peer, spent),
                  tflops=spent and round(4e-9 * heads * own * length * D / spent))


def causal_attention(bench, options):
    """Each rank has the chunks `rank` and `2 W - 1 - rank` of 2 W. Torch's has the keys and values
    of all ranks gathered, and attends with each chunk to those up to it, at once or in two parts,
    of which it takes the faster. That keys would have to be put in order, and parts merged, is
    left out, to its favour."""
    for heads, key_heads, length in ATTENTION:
        w, rank = bench.ranks, bench.rank
        chunk = length // (2 * w)
        groups = heads // key_heads
        chunks = (rank, 2 * w - 1 - rank)
        q = bench.random(key_heads, groups, 2, chunk, D)
        k, v = (bench.random(key_heads, 2 * chunk, D) for _ in range(2))
        y = torch.empty_like(q)
        scale = D**-0.5

        def fill():
            for tensor in (q, k, v):
                tensor.copy_(bench.random(*tensor.shape))

        def ordered(tensor):
            """The chunks of all ranks in the order of the sequence, head by head."""
            halves = gathered(tensor).unflatten(2, (2, chunk))
            return torch.cat([halves[:, :, 0], halves[:, :, 1].flip(0)]).transpose(0, 1).flatten(
                1, 2)

        def reference():
            keys, values = ordered(k), ordered(v)
            want = torch.empty(q.shape, device="cuda", dtype=torch.float64)
            at = torch.arange(length, device="cuda")
            for head in range(key_heads):
                for one in range(groups):
                    for half, number in enumerate(chunks):
                        scores = q[head, one, half].double() @ keys[head].double().T * scale
                        mine = number * chunk + torch.arange(chunk, device="cuda")
                        scores.masked_fill_(at[None] > mine[:, None], float("-inf"))
                        want[head, one, half] = torch.softmax(scores, -1) @ values[head].double()
            return want

        with team_for(bench, options) as team:
            kernel = kernel_of(bench, options, "causal_ring_attention", "causal_ring_attention")
            spent, error = measured(
                bench, "causal_ring_attention", lambda: kernel(q, k, v, scale, y, team=team),
                lambda name, launch: bench.check(name, launch, fill, y, reference, 1e-2))
        whole = [torch.empty(w, *k.shape, device="cuda", dtype=k.dtype) for _ in range(2)]
        keys, values = ordered(k)[None].contiguous(), ordered(v)[None].contiguous()
        whole_q = q.view(1, heads, length, D) if w == 1 else None
        shared = {"enable_gqa": heads != key_heads}

        def sequential(attend):
            if w == 1:
                return torch_attention(whole_q, keys, values, is_causal=True, **shared)
            for to, tensor in zip(whole, (k, v)):
                dist.all_gather_into_tensor(to, tensor)
            for half, number in enumerate(chunks):
                attend(q[:, :, half].reshape(1, heads, chunk, D), number * chunk)

        def at_once(queries, begin):
            end = begin + chunk
            torch_attention(queries, keys[:, :, :end], values[:, :, :end],
                            attn_mask=causal_lower_right(chunk, end), **shared)

        def in_parts(queries, begin):
            own = slice(begin, begin + chunk)
            torch_attention(queries, keys[:, :, own], values[:, :, own], is_causal=True, **shared)
            if begin:
                torch_attention(queries, keys[:, :, :begin], values[:, :, :begin], **shared)

        times = [bench.attempt(lambda attend=attend: sequential(attend))
                 for attend in ((at_once, in_parts) if w > 1 else (at_once,))]
        peer = min((time for time in times if time is not None), default=None)
        bench.row(op="causal_attention", M=heads, N=key_heads, K=length, dtile=spent,
                  error=error, best_peer=peer, ratio=ratio(peer, spent),
                  tflops=spent and round(2e-9 * heads * length * length / w * D / spent))


class Contiguous:
    """The keys and values of flash_decode."""

    op = "flash_decode"
    # Constants that callers see.
    seen = {}

    def __init__(self, bench, keys, values):
        self.arguments = (keys, values)

    def fill(self):
        pass


class Paged:
    """The same in small pages, in any order; some pages are nobody's."""

    op = "paged_flash_decode"
    # As serving engines have them by default.
    PAGE = 16
    seen = {"PAGE": PAGE}

    def __init__(self, bench, keys, values):
        self.whole = (keys, values)
        held = keys.shape[0] * keys.shape[1] // self.PAGE
        self.pools = [torch.empty(held + 5, self.PAGE, *keys.shape[2:], device="cuda",
                                  dtype=keys.dtype) for _ in self.whole]
        for pool in self.pools:
            bench.poison(pool)
        self.table = torch.randperm(held + 5, device="cuda")[:held]
        self.arguments = (*self.pools, self.table.int().view(keys.shape[0], -1))

    def fill(self):
        for pool, whole in zip(self.pools, self.whole):
            pool[self.table] = whole.view(-1, *pool.shape[1:])


def decodes(kind):
    """The suite of a kernel whose keys and values are kept so."""
    def suite(bench, options):
        for sequences, key_heads, length in DECODES:
            decode(kind, (sequences, key_heads, length), bench, options)

    suite.__name__ = kind.op
    return suite


def decode(kind, shape, bench, options):
    sequences, key_heads, length = shape
    w = bench.ranks
    own = length // w
    # Every rank has the same queries.
    q = torch.empty(sequences, key_heads, GROUP, D, device="cuda", dtype=torch.bfloat16)
    k, v = (bench.random(sequences, own, key_heads, D) for _ in range(2))
    lens = torch.full((sequences,), own, device="cuda", dtype=torch.int32)
    y = torch.empty_like(q)
    scale = D**-0.5

    def reference():
        """By parts that are merged as they are in theory."""
        want = torch.empty(q.shape, device="cuda", dtype=torch.float64)
        for i in range(sequences):
            scores = torch.einsum("hgd,shd->hgs", q[i].double(), k[i].double()) * scale
            top = scores.amax(-1)
            dist.all_reduce(top, op=dist.ReduceOp.MAX)
            weights = torch.exp(scores - top[..., None])
            total = weights.sum(-1)
            values = torch.einsum("hgs,shd->hgd", weights, v[i].double())
            dist.all_reduce(total)
            dist.all_reduce(values)
            want[i] = values / total[..., None]
        return want

    with team_for(bench, options) as team:
        kept = kind(bench, k, v)

        def fill():
            q.copy_(bench.random(*q.shape))
            dist.broadcast(q, 0)
            k.copy_(bench.random(*k.shape))
            kept.fill()

        kernel = kernel_of(bench, options, kind.op, kind.op, **kind.seen)
        spent, error = measured(
            bench, kind.op, lambda: kernel(q, *kept.arguments, lens, scale, y, team=team),
            lambda name, launch: bench.check(name, launch, fill, y, reference, 1e-2))
    flat = q.reshape(sequences, key_heads * GROUP, 1, D)
    keys, values = (t.permute(0, 2, 1, 3) for t in (k, v))
    everybody = torch.empty(w, *flat.shape, device="cuda", dtype=flat.dtype)

    def sequential():
        # The merging, which is left out, is to the peer's favour, and so are keys that follow
        # each other.
        part = torch_attention(flat, keys, values, enable_gqa=True)
        if w > 1:
            dist.all_gather_into_tensor(everybody, part)

    peer = bench.attempt(sequential)
    bytes_read = 4.0 * sequences * own * key_heads * D
    bench.row(op=kind.op, M=sequences, N=key_heads, K=length, dtile=spent,
              error=error, best_peer=peer, ratio=ratio(peer, spent),
              gbytes_per_s=spent and round(bytes_read / spent / 1e6))
