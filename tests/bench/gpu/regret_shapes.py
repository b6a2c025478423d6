# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The shapes that regret.py measures, drawn at random from a seed, and the constants that kernels
can be built with. Needs no GPU and no PyTorch."""

import collections
import itertools
import json
import math
import random
import re
import subprocess

FORMS = ("nt", "nn", "tn")
LAYERS = ("ag_gemm", "gemm_rs", "gemm_ar")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Those of attention to all positions.
ATTENTION = ("ulysses_attention", "causal_ulysses", "causal_gathered_attention", "ring_attention")
# Experts of all ranks in a layer, and of one rank where others have attention; micro-batches there.
LAYER_EXPERTS, EXPERTS_OF_RANK, BATCHES = 64, 16, 4
# Hidden sizes of models, which all_reduce_norm is built for.
HIDDEN = (2048, 2880, 4096, 5120, 6144, 7168, 8192)
MOST_ROWS = 16384
LEAST_SIDE, MOST_SIDE = 256, 32768
LEAST_BYTES, MOST_BYTES = 4 << 10, 256 << 20

# What a product's operands are: dtilec's type, PyTorch's types of operands and result, their bytes,
# the forms that a peer multiplies, the largest relative error (of the norm, and of an element over
# the square root of K), and the most operations that a measurement may take.
Type = collections.namedtuple(
    "Type", "element operand result bytes result_bytes forms norm worst operations")
TYPES = {
    "bf16": Type("bf16", "bfloat16", "bfloat16", 2, 2, FORMS, 5e-3, 0.1, 2e14),
    "f16": Type("f16", "float16", "float16", 2, 2, FORMS, 2e-3, 0.1, 2e14),
    "f8": Type("f8e4m3", "float8_e4m3fn", "bfloat16", 1, 2, ("nt",), 5e-3, 0.1, 2e14),
    "tf32": Type("f32", "float32", "float32", 4, 4, FORMS, 2e-3, 0.1, 2e13),
    "f32": Type("f32", "float32", "float32", 4, 4, FORMS, 5e-5, 1e-3, 4e12),
}

# Constants of a product: every combination of these is tried.
SPACE = {"BM": (16, 32, 64, 128, 192, 256), "BN": (16, 32, 64, 128, 192, 256), "BK": (32, 64, 128)}


class Product(collections.namedtuple("Product", "form type m n k")):
    """c[M, N] of a and b. nt: a[M, K], b[N, K]. nn: a[M, K], b[K, N]. tn: a[K, M], b[K, N]."""

    @property
    def key(self):
        return f"{self.form} {self.type} {self.m}x{self.n}x{self.k}"

    @property
    def operations(self):
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self):
        """Of operands, of the result and the peer's, and of the numbers that one operand is drawn
        as."""
        its = TYPES[self.type]
        left, right, out = self.m * self.k, self.n * self.k, self.m * self.n
        return its.bytes * (left + right) + 2 * its.result_bytes * out + 8 * max(left, right)

    @property
    def aligned(self):
        """Whether the rows of all three matrices are multiples of 16 bytes."""
        its = TYPES[self.type]
        rows = {"nt": (self.k, self.k), "nn": (self.k, self.n), "tn": (self.m, self.n)}[self.form]
        return (all(row * its.bytes % 16 == 0 for row in rows)
                and self.n * its.result_bytes % 16 == 0)

    def program(self):
        """The program, the kernel in it, and the types that the tensors give it: no choices."""
        its = TYPES[self.type]
        if self.type == "tf32":
            return "products", self.form + "_tf32", {}
        if self.type == "f8":
            return "products", self.form, {"T": its.element, "U": "bf16"}
        if self.form == "nt":
            return "gemm", "gemm", {"T": its.element}
        return "products", self.form, {"T": its.element}


class Layer(collections.namedtuple("Layer", "op m n k ranks")):
    """bf16; M rows of the whole batch, and N and K of one rank's product."""

    @property
    def key(self):
        return f"{self.op} {self.m}x{self.n}x{self.k} on {self.ranks}"

    @property
    def model(self):
        """Hidden and ffn of the whole model."""
        if self.op == "ag_gemm":
            return self.k, self.n * self.ranks
        return self.n, self.k * self.ranks


class Collective(collections.namedtuple("Collective", "op count hidden ranks")):
    """bf16; `count` elements: of the vector of an all-reduce, of what an all-gather gives, of what
    a reduce-scatter takes, of what a rank sends in an all-to-all in rows of `hidden`."""

    @property
    def key(self):
        rows = f" in rows of {self.hidden}" if self.hidden else ""
        return f"{self.op} {2 * self.count} bytes{rows} on {self.ranks}"


class Joined(collections.namedtuple("Joined", "op m n k ranks")):
    """M rows, N and K of one rank's product. Rows of N elements (all_reduce_norm, heat_step), N
    columns of the vocabulary a rank (cross_entropy), M positions of all ranks in N heads a rank
    (ulysses and attention), N sequences of M keys (flash_decode), M tokens of each rank of N
    elements (dispatches, combines, layers of experts; K between two products), N columns of a layer
    a rank (tp_mlp), M micro-batches of N elements (pipeline), N elements (collectives, where M is
    1). K is 0 where there is no product."""

    @property
    def key(self):
        return f"{self.op} {self.m}x{self.n}{f'x{self.k}' if self.k else ''} on {self.ranks}"


# ---- Drawing ----


def log_uniform(rng, least, most):
    return min(most, max(least, round(math.exp(rng.uniform(math.log(least), math.log(most))))))


def rows(rng):
    """1 to 16384, half of them odd."""
    drawn = log_uniform(rng, 1, MOST_ROWS)
    if rng.random() < 0.5:
        return min(drawn | 1, MOST_ROWS - 1)
    return max(2, drawn - drawn % 2)


def sides(rng, unit, unaligned):
    """N and K: multiples of `unit`, or neither, with a probability of `unaligned`."""
    drawn = [log_uniform(rng, LEAST_SIDE, MOST_SIDE) for _ in range(2)]
    if rng.random() < unaligned:
        return [side + (side % unit == 0) * (-1 if side == MOST_SIDE else 1) for side in drawn]
    return [max(LEAST_SIDE, side - side % unit) for side in drawn]


def products(settings):
    """Endless. `settings`: seed, forms, types, unaligned, operations, memory (bytes)."""
    kinds = [(form, name) for name in settings["types"] for form in TYPES[name].forms
             if form in settings["forms"]]
    names = [name for name in settings["types"] if any(name == kind[1] for kind in kinds)]
    rng = random.Random(f"products {settings['seed']}")
    while True:
        name = rng.choice(names)
        form = rng.choice([form for form, other in kinds if other == name])
        n, k = sides(rng, max(8, 16 // TYPES[name].bytes), settings["unaligned"])
        drawn = Product(form, name, rows(rng), n, k)
        most = min(settings["operations"], TYPES[name].operations)
        if drawn.operations <= most and drawn.bytes <= settings["memory"]:
            yield drawn


def layers(settings, ranks):
    """Endless; rows are rounded up to a multiple of the ranks."""
    rng = random.Random(f"layers {settings['seed']}")
    while True:
        n, k = sides(rng, 8, settings["unaligned"])
        m = -(-rows(rng) // ranks) * ranks
        drawn = Layer(rng.choice(LAYERS), m, n, k, ranks)
        # All operands in f64 for the reference, and the model's matrix on each rank.
        fits = 8 * (m * k + n * k + 3 * m * n) <= settings["memory"]
        if 2 * m * n * k <= settings["operations"] and fits:
            yield drawn


def collectives(settings, ranks):
    """Endless; 4 KiB to 256 MiB."""
    rng = random.Random(f"collectives {settings['seed']}")
    while True:
        op = rng.choice(COLLECTIVES)
        count = log_uniform(rng, LEAST_BYTES, MOST_BYTES) // 2
        unaligned = rng.random() < settings["unaligned"]
        if op == "all_to_all":
            # As many rows for each of two experts of each rank.
            hidden = 8 * log_uniform(rng, 16, 1024)
            step = 2 * ranks * hidden
            yield Collective(op, max(1, round(count / step)) * step, hidden, ranks)
            continue
        shares = 1 if op == "all_reduce" else ranks
        share = max(1, count // shares)
        share = share | 1 if unaligned else max(8, share - share % 8)
        yield Collective(op, share * shares, 0, ranks)


def of_all_ranks(rng, ranks):
    return -(-rows(rng) // ranks) * ranks


def products_of_rows(unit, share):
    """Rows of all ranks, and N and K."""
    def sizes(rng, ranks, unaligned):
        return of_all_ranks(rng, ranks), *sides(rng, unit, share * unaligned)
    return sizes


def tokens_of(most):
    """So many tokens at most, with a scale for each 128 elements."""
    def sizes(rng, ranks, unaligned):
        return log_uniform(rng, 1, most), rng.choice([h for h in HIDDEN if h % 128 == 0]), 0
    return sizes


def layer_of(most):
    """So many tokens at most, and elements between two products."""
    def sizes(rng, ranks, unaligned):
        return log_uniform(rng, 1, most), rng.choice(HIDDEN), 8 * log_uniform(rng, 32, 256)
    return sizes


def heads_of(unit):
    """Positions in so many equal parts on each rank, and heads."""
    def sizes(rng, ranks, unaligned):
        return -(-rows(rng) // (unit * ranks)) * unit * ranks, rng.randint(1, 16), 0
    return sizes


def elements(rng, ranks, unaligned):
    """Of a vector of bf16."""
    count = log_uniform(rng, LEAST_BYTES, MOST_BYTES) // 2
    return 1, count | 1 if rng.random() < unaligned else count - count % 8, 0


def matrix(rng, ranks, unaligned):
    """Rows of 256 to 32768 elements."""
    return rows(rng), sides(rng, 8, unaligned)[0], 0


def flash_decode(rng, ranks, unaligned):
    keys = -(-log_uniform(rng, 1 << 10, 1 << 20) // ranks) * ranks
    return keys, log_uniform(rng, 1, max(1, min(64, (1 << 20) // keys))), 0


def split_k_gemm(rng, ranks, unaligned):
    """Few tiles, and a long sum."""
    return min(rows(rng), 512), 8 * log_uniform(rng, 8, 256), 8 * log_uniform(rng, 512, 8192)


def int8_gemm_ar(rng, ranks, unaligned):
    """What torch's product of 8-bit integers takes; sums of all ranks stay below 2^31."""
    n, k = sides(rng, 8, 0.0)
    return max(rows(rng), 17), n, min(k, 131071 // ranks // 8 * 8)


def blocks_of_matrices(rng, ranks, unaligned):
    """K in as many equal parts as there are ranks."""
    n, k = sides(rng, 8, unaligned)
    return rows(rng), n, -(-k // (8 * ranks)) * 8 * ranks


# The sizes of each joined kernel, from a generator of random numbers, the ranks, and the share of
# sizes that are no multiples of 8.
JOINED_SIZES = {
    "all_reduce_norm": lambda rng, ranks, unaligned: (rows(rng), rng.choice(HIDDEN), 0),
    "all_to_all_gemm": products_of_rows(8, 1), "ulysses": heads_of(1),
    "ulysses_attention": heads_of(1), "cross_entropy": matrix,
    "int8_gemm_ar": int8_gemm_ar, "split_k_gemm": split_k_gemm, "causal_ulysses": heads_of(1),
    "causal_gathered_attention": heads_of(2), "flash_decode": flash_decode,
    "tp_mlp": products_of_rows(8, 1), "dispatch_prefill": tokens_of(4096),
    "dispatch_quantized": tokens_of(128),
    # What torch's products of f8 take, with scales of rows or of blocks.
    "ag_row_scaled": products_of_rows(16, 0), "row_scaled_rs": products_of_rows(16, 0),
    "scaled_ag_gemm": products_of_rows(128, 0), "scaled_gemm_rs": products_of_rows(128, 0),
    "ring_attention": heads_of(1), "combine": tokens_of(128), "combine_once": tokens_of(128),
    "moe_layer": layer_of(1024),
    "attention_to_experts": tokens_of(256),
    "grouped_gemm_ar": layer_of(512), "summa": blocks_of_matrices, "cannon": blocks_of_matrices,
    "pipeline": lambda rng, ranks, unaligned: (
        log_uniform(rng, 1, 64), elements(rng, ranks, unaligned)[1] // 64 + 1, 0),
    "heat_step": lambda rng, ranks, unaligned: (
        max(2, rows(rng)), sides(rng, 8, unaligned)[0], 0),
    "broadcast": elements, "scatter": elements, "gather": elements,
    "barrier": lambda rng, ranks, unaligned: (1, 1, 0),
    "ring_all_reduce": elements, "halving_all_reduce": elements, "tree_all_reduce": elements,
    "rms_norm": matrix, "layer_norm": matrix, "softmax": matrix, "gated": matrix,
}


def joined_on(settings, ranks):
    """Those of the joined kernels asked for that run on so many ranks."""
    runs = {"attention_to_experts": ranks >= 2, "cannon": math.isqrt(ranks)**2 == ranks}
    return [op for op in settings.get("ops", JOINED_SIZES) if runs.get(op, True)]


def elements_of(drawn):
    """What a joined kernel's reference holds at once, at most, in f64."""
    op, m, n, k, ranks = drawn
    if op == "ulysses" or op in ATTENTION:
        return m * n * 128 * 8
    if op == "flash_decode":
        return m * n * 128 * 16
    if op in ("moe_layer", "grouped_gemm_ar"):
        return LAYER_EXPERTS * n * k + 3 * m * n * ranks
    if op == "combine":
        return m * n * ranks * 64
    return m * k + n * k + 3 * m * n * ranks


def joined(settings, ranks):
    """Endless, if any of them runs on so many ranks. `settings`: seed, unaligned, operations,
    memory (bytes), ops."""
    rng = random.Random(f"joined {settings['seed']}")
    ops = joined_on(settings, ranks)
    while ops:
        op = rng.choice(ops)
        drawn = Joined(op, *JOINED_SIZES[op](rng, ranks, settings["unaligned"]), ranks)
        # Attention multiplies twice, each position of all heads by all others.
        operations = 4 * drawn.m**2 * drawn.n * 128 if op in ATTENTION else \
            2 * drawn.m * drawn.n * drawn.k
        if operations <= settings["operations"] and \
                8 * elements_of(drawn) <= settings["memory"]:
            yield drawn


# ---- Configurations ----


def text_of(constants):
    return " ".join(f"{name}={constants[name]}" for name in sorted(constants))


def neighbours(constants):
    """Each constant halved and doubled, 16 at least and 256 at most."""
    for name, value in constants.items():
        for other in (value // 2, value * 2):
            if 16 <= other <= 256:
                yield {**constants, name: other}


def configurations(seed, default):
    """Constants to try: the neighbours of the default (where it is known), then all of SPACE in an
    order drawn from the seed; nothing twice."""
    whole = [dict(zip(SPACE, values)) for values in itertools.product(*SPACE.values())]
    random.Random(f"configurations {seed}").shuffle(whole)
    seen = {text_of(default)} if default else set()
    for constants in itertools.chain(neighbours(default) if default else (), whole):
        if text_of(constants) not in seen:
            seen.add(text_of(constants))
            yield constants


def kernels_of(path):
    """Names of the kernels that a program declares, and their generic parameters' text."""
    with open(path, encoding="utf-8") as program:
        return dict(re.findall(r"^kernel\s+(\w+)\s*(?:<([^>]*)>)?", program.read(), re.MULTILINE))


def default_of(path, kernel):
    """The numbers that a kernel's declaration gives BM, BN, BK; None where it gives none of them a
    number."""
    declared = dict(re.findall(r"(\w+)\s*=\s*(\d+)", kernels_of(path).get(kernel) or ""))
    found = {name: int(declared[name]) for name in SPACE if name in declared}
    return found if len(found) == len(SPACE) else None


# ---- The model ----


def parse_predictions(text):
    """What `dtilec explain … --json` prints: a list of {"constants": {…}, "ns": number}, the
    fastest first; None for anything else."""
    try:
        found = json.loads(text)
        rows_ = [{"constants": dict(row["constants"]), "ns": float(row["ns"])} for row in found]
    except (ValueError, TypeError, KeyError):
        return None
    return sorted(rows_, key=lambda row: row["ns"]) or None


def predictions(compiler, path, kernel, product, arch):
    """The compiler's own, for the sizes of a product; None where it makes none."""
    types = [word for name, value in product.program()[2].items()
             for word in ("--const", f"{name}={value}")]
    command = [compiler, "explain", path, "--kernel", kernel, "--target", "nvptx", "--arch", arch,
               *types, "--sizes", f"M={product.m},N={product.n},K={product.k}", "--json"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_predictions(done.stdout) if done.returncode == 0 else None


def rank_of(constants, predicted):
    """The place of a configuration in the model's order, 1 the first; None where it is not in it.
    Only constants that both name are compared."""
    for place, row in enumerate(predicted, 1):
        shared = constants.keys() & row["constants"].keys()
        if shared and all(str(constants[name]) == str(row["constants"][name]) for name in shared):
            return place
    return None
