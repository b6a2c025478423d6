# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a program of random kernels that sum products in loops, each with a test that launches it.

    random_products.py SEED COUNT > products.dtile
    dtilec test --target nvptx --executor all products.dtile

What a kernel is made of is drawn at random: types, tiles, one or two products, which way operands
lie, rows that are picked by number, scales (of rows, columns, blocks, numbers), what a sum begins
with, a loop around, arithmetic behind, sizes that TMA can read and sizes that it
cannot. Executors are compared, so nothing has to be known of the results. Products of f8 are left
out: warpgroups add them with fewer bits (docs/language.md)."""

import random
import sys

BLOCKS = {"i8": (64, 128)}
# A scale of a product: its declaration, its sizes, and how it is read.
SCALES = {
    "row": ("f32[KB, M]", "{kb}, {m}", "expand({s}[k.index, m], axis: 1)"),
    "turned_row": ("f32[M, KB]", "{m}, {kb}", "expand({s}[m, k.index], axis: 1)"),
    "narrow_row": ("bf16[KB, M]", "{kb}, {m}", "expand(cast<f32>({s}[k.index, m]), axis: 1)"),
    "column": ("f32[KB, N]", "{kb}, {n}", "expand({s}[k.index, n], axis: 0)"),
    "number": ("f32[KB]", "{kb}", "{s}[k.index]"),
    "block": ("f32[NB, KB]", "{nb}, {kb}", "{s}[n.index, k.index]"),
}


class Kernel:
    """One kernel, and the test that launches it."""

    def __init__(self, number, draw):
        self.number, self.draw = number, draw
        self.parameters, self.arguments, self.lines = [], [], []
        self.type = draw.choice(("bf16", "bf16", "f16", "i8", "f32"))
        self.bk = draw.choice(BLOCKS.get(self.type, (32, 64)))
        self.products = draw.choice((1, 1, 2))
        # Rows of instructions; or others, which are columns of the transposed product.
        if self.products == 1 and draw.random() < 0.4:
            self.bm, self.bn = draw.choice((16, 48, 80, 192)), draw.choice((64, 128))
        else:
            self.bm = draw.choice((64, 128))
            self.bn = draw.choice((32, 64, 96) if self.products == 2 else (32, 64, 96, 128))
        self.is_across = self.type in ("bf16", "f16") and draw.random() < 0.3
        self.sizes = self.draw_sizes()

    def draw_sizes(self):
        word = 16 if self.type == "i8" else 8
        k = self.draw.choice((0, 1, 37, 130)) if self.draw.random() < 0.25 \
            else word * self.draw.choice((1, 5, 16, 20, 33))
        unit = 8 if self.is_across else 1
        m = unit * (self.draw.choice((7, 130, 200)) // unit or 1)
        n = unit * (self.draw.choice((9, 96, 150)) // unit or 1)
        return {"m": m, "n": n, "k": k, "kb": -(-k // self.bk), "nb": -(-n // self.bn)}

    def tensor(self, name, declared, sizes):
        """Declares an input, and gives it random values."""
        element = declared.split("[")[0]
        self.parameters.append(f"{name}: in {declared}")
        seed = 100 * self.number + len(self.parameters)
        self.arguments.append(f"random<{element}>[{sizes.format(**self.sizes)}](seed: {seed})")

    def picked(self, name, rows, size, block):
        """Rows of a tensor of 53, as many as the block has, some of which do not exist."""
        numbers = f"{name}_rows"
        self.tensor(name, f"{self.type}[{name.upper()}S, K]", "53, {k}")
        self.parameters.append(f"{numbers}: in i32[{rows}]")
        self.arguments.append(f"cast<i32>((arange({size.format(**self.sizes)}) * 7 + 3) % 60 - 4)")
        value = self.draw.choice(("{}", "{} / 2", "max({}, 1)", "2 * {} + cast<i32>(iota({}))"))
        self.lines.append(f"let {name}_at = "
                          f"{value.format(f'{numbers}[{rows.lower()}]', block)};")

    def operand(self, name, rows, size, across, form):
        if not across and self.draw.random() < 0.2:
            self.picked(name, rows, size, self.bm if rows == "M" else self.bn)
            return form[0].format(name).replace(f"[{rows.lower()},", f"[{name}_at,")
        if across:
            self.tensor(name, f"{self.type}[K, {rows}]", "{k}, " + size)
            return form[1].format(name)
        self.tensor(name, f"{self.type}[{rows}, K]", size + ", {k}")
        return form[0].format(name)

    def product(self, number, left):
        """A line that adds a product, and the type of its sum."""
        across = self.is_across and self.draw.random() < 0.6
        right = self.operand(f"b{number}", "N", "{n}", across, ("{}[n, k].T", "{}[k, n]"))
        value = f"{'dot<tf32>' if self.type == 'f32' else 'dot'}({left}, {right})"
        kinds = self.draw.sample(sorted(SCALES), self.draw.choice((0, 0, 1, 1, 2)))
        sum_type = "i32" if self.type == "i8" and not kinds else "f32"
        if self.type == "i8" and kinds:
            value = f"cast<f32>({value})"
        for kind in kinds:
            declared, sizes, read = SCALES[kind]
            name = f"{kind}{number}"
            self.tensor(name, declared, sizes)
            value += " * " + read.format(s=name)
        self.begin(number, sum_type)
        return f"sum{number} += {value};", sum_type

    def begin(self, number, sum_type):
        kind = self.draw.choice(("zeros", "zeros", "zeros", "tile", "narrow", "two"))
        start = f"zeros<{sum_type}>[{self.bm}, {self.bn}]"
        if kind in ("tile", "two"):
            self.tensor(f"c{number}", f"{sum_type}[M, N]", "{m}, {n}")
            start = f"c{number}[m, n]"
        if kind == "narrow":
            self.tensor(f"c{number}", "bf16[M, N]", "{m}, {n}")
            start = f"cast<{sum_type}>(c{number}[m, n])"
        if kind == "two":
            self.tensor(f"e{number}", f"{sum_type}[N]", "{n}")
            start += f" + expand(e{number}[n], axis: 0)"
        self.lines.append(f"var sum{number} = {start};")

    def end(self, value):
        """What becomes of the sums."""
        kind = self.draw.choice(("nothing", "nothing", "bias", "silu", "residual"))
        if kind == "bias":
            self.tensor("bias", "f32[N]", "{n}")
            value = f"({value}) + expand(bias[n], axis: 0)"
        if kind == "silu":
            self.lines.append(f"let z = 0.01 * ({value});")
            value = "z / (1.0 + exp(-z))"
        if kind == "residual":
            self.tensor("residual", "bf16[M, N]", "{m}, {n}")
            value = f"({value}) + cast<f32>(residual[m, n])"
        out = self.draw.choice(("f32", "bf16"))
        self.parameters.append(f"y: out {out}[M, N]")
        self.lines.append(f"y[m, n] = cast<{out}>({value});" if out != "f32"
                          else f"y[m, n] = {value};")

    def text(self):
        left = self.operand("a", "M", "{m}", self.is_across, ("{}[m, k]", "{}[k, m].T"))
        added, types = zip(*(self.product(number, left) for number in range(self.products)))
        loop = f"for k in K by {self.bk} {{ {' '.join(added)} }}"
        self.lines.append(f"for turn in 0..2 {{ {loop} }}" if self.draw.random() < 0.2 else loop)
        sums = [f"sum{i}" if kind == "f32" else f"cast<f32>(sum{i})"
                for i, kind in enumerate(types)]
        self.end(" - 0.5 * ".join(sums))
        name = f"k{self.number}"
        return "\n    ".join((
            f"kernel {name}({', '.join(self.parameters)})",
            f"over (m in M by {self.bm}, n in N by {self.bn}) {{", *self.lines)) + (
            f"\n}}\ntest \"{name}\" ranks (1) {{\n"
            f"    let y = {name}({', '.join(self.arguments)});\n    expect y == y;\n}}\n")


def main():
    seed, count = (int(text) for text in sys.argv[1:3])
    draw = random.Random(seed)
    for number in range(count):
        print(Kernel(number, draw).text())


if __name__ == "__main__":
    main()
