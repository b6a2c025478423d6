# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of regret.py on one GPU: the default beside cuBLAS, and the best of many constants."""

import concurrent.futures
import itertools
import os
import time

import dtile
import torch

import regret_shapes
from goals import compiler
from harness import build, source_of, team_for
from regret_guard import default_beside_peer, guarded, is_over, plan, told, words
from regret_shapes import TYPES, text_of

# Rows of a result that are compared; so many columns of the reference are made at a time.
MOST_CHECKED = 256
COLUMNS = 4096
# How many constants are compiled at a time, before they are measured.
BATCH = 32
# What a launch says that needs more than the machine has: no failure of the kernel.
UNFIT = (dtile.DtileInvalid, dtile.DtileUnavailable, dtile.DtileOutOfMemory)


class Operands:
    """The tensors of a product, its reference and its peer."""

    def __init__(self, bench, product):
        its = TYPES[product.type]
        m, n, k = product.m, product.n, product.k
        self.bench, self.product, self.type = bench, product, its
        operand, result = getattr(torch, its.operand), getattr(torch, its.result)
        self.a = torch.empty((k, m) if product.form == "tn" else (m, k), device="cuda",
                             dtype=operand)
        self.b = torch.empty((n, k) if product.form == "nt" else (k, n), device="cuda",
                             dtype=operand)
        self.c, self.d = (torch.empty(m, n, device="cuda", dtype=result) for _ in range(2))
        self.one = torch.ones((), device="cuda")
        self.rows = self.checked_rows(m)
        self.wrong = 0.0
        torch.backends.cuda.matmul.allow_tf32 = product.type == "tf32"

    @staticmethod
    def checked_rows(m):
        """One random row of each of MOST_CHECKED equal parts, and the last: every tile of more than
        M / MOST_CHECKED rows has one."""
        if m <= MOST_CHECKED:
            return torch.arange(m, device="cuda")
        part = m / MOST_CHECKED
        places = torch.arange(MOST_CHECKED, device="cuda") + torch.rand(MOST_CHECKED, device="cuda")
        rows = (places * part).long().clamp_max(m - 1)
        rows[-1] = m - 1
        return rows

    def fill(self):
        kind = torch.float32 if self.a.dtype == torch.float32 else torch.bfloat16
        for tensor in (self.a, self.b):
            tensor.copy_(self.bench.random(*tensor.shape, dtype=kind))

    def reference(self):
        """The checked rows in f64."""
        left = self.a.T if self.product.form == "tn" else self.a
        if left.element_size() == 1:
            # Rows of bytes: not all operations know f8.
            left = left.view(torch.uint8)[self.rows].view(self.a.dtype)
        else:
            left = left[self.rows]
        left = left.double()
        if self.product.form == "nt":
            parts = [left @ rows.double().T for rows in self.b.split(COLUMNS)]
        else:
            parts = [left @ columns.double() for columns in self.b.split(COLUMNS, dim=1)]
        return torch.cat(parts, dim=1)

    def error(self, got, want):
        """Of the checked rows, relative to the norm; infinite where an element is far from what it
        should be (elements are sums of K products of numbers around 1, so about the square root of
        K)."""
        got = got[self.rows].double()
        off = self.bench.error(got, want)
        worst = self.bench.worst((got - want).abs().max() / self.product.k**0.5)
        return off if worst <= self.type.worst else float("inf")

    def peer(self):
        """cuBLAS through PyTorch."""
        if self.product.type == "f8":
            return torch._scaled_mm(self.a, self.b.T, self.one, self.one,
                                    out_dtype=self.d.dtype)
        left = self.a.T if self.product.form == "tn" else self.a
        right = self.b.T if self.product.form == "nt" else self.b
        return torch.matmul(left, right, out=self.d)

    def check(self, what, launch, times, fill):
        """Whether launches are right, and their relative error."""
        return self.bench.check(what, launch, fill, self.c, self.reference, self.type.norm,
                                times=times, error=self.error)


class Products:
    """Measures the products that it is given."""

    def __init__(self, bench, options, log, until):
        self.bench, self.options, self.log, self.until = bench, options, log, until
        self.compiler = compiler()
        self.predicts = True

    def kernel(self, product, **constants):
        """The kernel of a product, compiled before or now; with nothing pinned but `constants`."""
        program, name, types = product.program()
        library, _ = build(self.bench, self.options, program, flags=("--kernel", name), **types,
                           **constants)
        return getattr(library, name)

    def predictions(self, product):
        """The compiler's, or None; it is asked until it fails once."""
        if not self.predicts:
            return None
        program, name, _ = product.program()
        found = regret_shapes.predictions(self.compiler, source_of(self.options, program), name,
                                          product, self.options.arch)
        if found is None:
            self.predicts = False
            self.bench.say("no predictions: `dtilec explain --sizes --json` fails")
        return found

    # ---- The default beside the peer ----

    def measure(self, product):
        """The line of a shape."""
        bench, key = self.bench, product.key
        with guarded(bench, self.log, key, self.options.guard), \
                team_for(bench, self.options) as team:
            kernel, its = self.kernel(product), Operands(bench, product)
            launch = lambda: kernel(its.a, its.b, its.c, team=team)
            good, error = its.check(key, launch, 2, its.fill)
            if not good:
                self.log.write("failed", key=key, why=f"wrong: relative error {error:.1e}")
                return
            times = default_beside_peer(bench, self.options, launch, lambda: self.peer(its))
            guess = self.predictions(product)
            self.log.write(
                "shape", key=key, form=product.form, type=product.type, m=product.m, n=product.n,
                k=product.k, aligned=product.aligned, **times, error=error,
                predicted_ns=guess and guess[0]["ns"],
                tflops=round(1e-9 * product.operations / times["default"], 1))
            bench.say(told(key, times))

    def peer(self, its):
        """Milliseconds, or None where it cannot multiply this or is wrong."""
        spent = self.bench.attempt(its.peer)
        if spent is None:
            return None
        wrong = its.error(its.peer(), its.reference())
        if wrong > 4 * its.type.norm:
            self.bench.say(f"peer: wrong: {its.product.key}: relative error {wrong:.1e}")
            return None
        return spent

    # ---- The best ----

    def search(self, product):
        """Measures all configurations that are not measured yet; False when time is over first."""
        key = product.key
        if f"searched {key}" in self.log.known or self.log.known[key]["kind"] == "failed":
            return True
        guess = self.predictions(product)
        if guess and f"predictions {key}" not in self.log.known:
            self.log.write("predictions", shape=key, rows=guess)
        with team_for(self.bench, self.options) as team:
            its = Operands(self.bench, product)
            its.fill()
            want = its.reference()
            its.reference = lambda: want
            todo = self.todo(product)
            names = [f"{key} {text_of(constants)}" for constants in todo]
            left = [(name, constants) for name, constants in zip(names, todo)
                    if name not in self.log.known]
            for begin in range(0, len(left), BATCH):
                batch = left[begin:begin + BATCH]
                self.compile(product, batch)
                for name, constants in batch:
                    if is_over(self.bench, self.until):
                        return False
                    if name not in self.log.known:
                        self.measure_configuration(product, its, team, name, constants)
            self.finish(product, its, team, names)
        return True

    def default(self, product):
        """The constants of the default: those of the declaration, else the model's first choice;
        None where neither is known."""
        program, name, _ = product.program()
        found = regret_shapes.default_of(source_of(self.options, program), name)
        guess = self.log.known.get(f"predictions {product.key}")
        if found is None and guess:
            first = guess["rows"][0]["constants"]
            found = {name: int(first[name]) for name in regret_shapes.SPACE if name in first}
        return found

    def todo(self, product):
        """Constants to try."""
        seed = f"{self.log.settings['seed']} {product.key}"
        return list(regret_shapes.configurations(seed, self.default(product)))

    def compile(self, product, batch):
        """All of a batch at a time, into the cache of builds; what does not build is written
        down."""
        program, kernel, types = product.program()
        path = source_of(self.options, program)

        def one(constants):
            try:
                dtile.build(path, arch=self.options.arch, flags=("--kernel", kernel), **types,
                            **constants)
                return None
            except (dtile.DtileError, OSError) as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            errors = list(pool.map(one, [constants for _, constants in batch]))
        for (name, _), error in zip(batch, errors):
            if error is not None:
                said = str(error).strip().split("\n")
                why = next((line for line in said if "error:" in line), said[0])
                self.log.write("failed", key=name, why=f"does not build: {why[:160]}")

    def measure_configuration(self, product, its, team, name, constants):
        """Checks once and measures; briefly where it is far from the fastest so far."""
        bench = self.bench
        with guarded(bench, self.log, name, self.options.guard):
            kernel = self.kernel(product, **constants)
            launch = lambda: kernel(its.a, its.b, its.c, team=team)
            try:
                good, error = its.check(name, launch, 1, lambda: None)
                team.synchronize()
            except UNFIT as error:
                self.log.write("failed", key=name, why=f"does not launch: {words(error)}")
                return
            if not good:
                self.log.write("failed", key=name, why=f"wrong: relative error {error:.1e}")
                return
            spent = plan(bench, self.options, launch, warm=0)
            fastest = min([self.log.known[product.key]["default"],
                           *(line["ms"] for line in self.log.configurations(product.key))])
            if spent < 1.5 * fastest:
                spent = bench.milliseconds(launch)
            self.log.write("configuration", key=name, shape=product.key, constants=constants,
                           ms=spent)

    def finish(self, product, its, team, names):
        """Measures the default and the fastest once more, one after the other, so that neither
        chance nor a warm GPU decides."""
        bench, key = self.bench, product.key
        with guarded(bench, self.log, f"{key} at last", self.options.guard):
            measured = self.log.configurations(key)
            winner = min(measured, key=lambda line: line["ms"], default=None)
            kernels = [self.kernel(product)]
            if winner:
                kernels.append(self.kernel(product, **winner["constants"]))
            launches = [lambda kernel=kernel: kernel(its.a, its.b, its.c, team=team)
                        for kernel in kernels]
            plan(bench, self.options, launches[0])
            times = [min(pair) for pair in zip(*([bench.milliseconds(launch)
                                                  for launch in launches] for _ in range(2)))]
            is_other = times[-1] < times[0]
            self.log.write("searched", shape=key, default=times[0], best=min(times),
                           winner=winner["constants"] if is_other else self.default(product) or {},
                           tried=len(names), measured=len(measured))
            bench.say(f"{key}: the default takes {times[0]:.4g} ms, the best {min(times):.4g} ms: "
                      f"{text_of(winner['constants']) if is_other else 'the default'}")

    # ---- All of it ----

    def draw(self, drawn, until):
        """Measures what is drawn until then."""
        for product in drawn:
            if product.key not in self.log.known:
                self.measure(product)
            if is_over(self.bench, until):
                return

    def run(self):
        """The default on the shapes that are searched; then on others for a third of the time;
        then the search; then the default until time is over."""
        options, log = self.options, self.log
        drawn = itertools.islice(regret_shapes.products(log.settings), options.shapes)
        searched = list(itertools.islice(drawn, options.exhaustive))
        self.draw(iter(searched), self.until)
        if searched:
            now = time.time()
            self.draw(drawn, now + (self.until - now) / 3)
        for product in searched:
            if is_over(self.bench, self.until) or not self.search(product):
                return
        self.draw(drawn, self.until)
