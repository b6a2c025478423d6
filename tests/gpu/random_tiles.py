# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a program of random kernels on large tiles, most of which change threads several times.

    random_tiles.py SEED COUNT > tiles.dtile
    build-for-machines tiles.dtile

Each loads a tile of some type and size, odd ones among them, and sends it through transposes, other
shapes, reductions and scans along both dimensions, products with itself and with others, rows that
are picked by number, and casts. Nothing has to fit the shared memory of any machine."""

import random
import sys

ROWS = (16, 33, 64, 96, 100, 128, 200, 256)
COLUMNS = (8, 31, 48, 64, 72, 128, 136, 256)
# Registers of 256 threads hold so many elements of one tile.
MOST_ELEMENTS = 65536
TYPES = ("f32", "f32", "f64", "bf16", "f16", "i32")


class Kernel:
    """One kernel; `self.tile` is the name of the tile of `rows` x `columns` that goes on."""

    def __init__(self, number, draw):
        self.number, self.draw = number, draw
        self.type = draw.choice(TYPES)
        self.rows, self.columns = draw.choice(ROWS), draw.choice(COLUMNS)
        self.parameters = [f"x: in {self.type}[{self.rows}, {self.columns}]"]
        self.lines = ["let t0 = x[:, :];"]
        self.tiles = 0
        self.wide = self.type
        if self.type in ("bf16", "f16"):
            self.add("cast<f32>({t})")
            self.wide = "f32"

    @property
    def tile(self):
        return f"t{self.tiles}"

    def add(self, text):
        text = text.format(t=self.tile)
        self.tiles += 1
        self.lines.append(f"let {self.tile} = {text};")

    def transpose(self):
        self.add("{t}.T")
        self.rows, self.columns = self.columns, self.rows

    def reshape(self):
        size = self.rows * self.columns
        ways = [n for n in range(4, 513) if size % n == 0 and 4 <= size // n <= 512]
        if ways:
            self.rows = self.draw.choice(ways)
            self.columns = size // self.rows
            self.add(f"reshape({{t}})[{self.rows}, {self.columns}]")

    def reduce(self):
        axis = self.draw.choice((0, 1))
        kind = self.draw.choice(("sum", "max_of", "min_of"))
        self.add(f"{{t}} - expand({kind}({{t}}, axis: {axis}), axis: {axis})")

    def place(self):
        axis = self.draw.choice((0, 1))
        at = f"expand(argmax({{t}}, axis: {axis}), axis: {axis})"
        self.add(f"{{t}} + cast<{self.wide}>({at})")

    def scan(self):
        kind = self.draw.choice(("cumsum", "cummax"))
        self.add(f"{kind}({{t}}, axis: {self.draw.choice((0, 1))})")

    def gather(self):
        axis = self.draw.choice((0, 1))
        name = f"g{len(self.parameters)}"
        self.parameters.append(f"{name}: in i32[{self.rows}, {self.columns}]")
        self.add(f"gather({{t}}, {name}[:, :], axis: {axis})")

    def product(self):
        if self.wide == "i32" or self.columns > 256:
            return
        columns = self.draw.choice((16, 40, 64, 128))
        if self.rows * columns > MOST_ELEMENTS or self.columns * columns > MOST_ELEMENTS:
            return
        name = f"w{len(self.parameters)}"
        element = self.draw.choice(("bf16", "f32")) if self.wide == "f32" else "f64"
        turned = self.draw.random() < 0.5
        shape = (columns, self.columns) if turned else (self.columns, columns)
        self.parameters.append(f"{name}: in {element}[{shape[0]}, {shape[1]}]")
        tile = self.tile if element == self.wide else f"cast<{element}>({self.tile})"
        precision = "<tf32>" if element == "f32" and self.draw.random() < 0.3 else ""
        self.add(f"dot{precision}({tile}, {name}[:, :]{'.T' if turned else ''})")
        self.columns = columns

    def square(self):
        if self.wide == "i32" or self.columns > 256 or self.rows > 256:
            return
        self.add("dot({t}, {t}.T)")
        self.columns = self.rows

    def pick(self):
        name = f"p{len(self.parameters)}"
        self.parameters.append(f"{name}: in i32[{self.rows}]")
        more = f"q{len(self.parameters)}"
        self.parameters.append(f"{more}: in {self.wide}[S{self.number}, {self.columns}]")
        self.add(f"{{t}} + {more}[{name}[:], :]")

    def text(self):
        ways = (self.transpose, self.reshape, self.reduce, self.place, self.scan, self.product,
                self.square, self.pick, self.gather)
        for _ in range(self.draw.randint(2, 6)):
            self.draw.choice(ways)()
        self.parameters.append(f"y: out {self.wide}[{self.rows}, {self.columns}]")
        self.lines.append(f"y[:, :] = {self.tile};")
        parameters = ",\n    ".join(self.parameters)
        lines = "\n    ".join(self.lines)
        return (f"kernel k{self.number}(\n    {parameters},\n) over (once in 0..1) {{\n"
                f"    {lines}\n}}\n")


def main():
    draw = random.Random(int(sys.argv[1]))
    print("\n".join(Kernel(number, draw).text() for number in range(int(sys.argv[2]))))


if __name__ == "__main__":
    main()
