#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of what regret.py does without a GPU: drawing, constants, logs, figures, command lines."""

import itertools
import os
import re
import sys
import tempfile
import unittest

import regret
import regret_figures as figures
import regret_log
import regret_shapes as shapes

SETTINGS = {"mode": "products", "seed": 11, "unaligned": 0.25, "operations": 2e14,
            "memory": 48 << 30, "types": list(shapes.TYPES), "forms": list(shapes.FORMS)}
EXAMPLES = os.path.join(regret.HERE, "..", "..", "..", "examples")


def some(drawn, count=4000):
    return list(itertools.islice(drawn, count))


class Drawing(unittest.TestCase):
    def test_same_seed_same_shapes(self):
        self.assertEqual(some(shapes.products(SETTINGS)), some(shapes.products(SETTINGS)))
        other = some(shapes.products({**SETTINGS, "seed": 12}))
        self.assertNotEqual(some(shapes.products(SETTINGS)), other)

    def test_rows_are_log_uniform_and_half_odd(self):
        drawn = [product.m for product in some(shapes.products(SETTINGS))]
        self.assertAlmostEqual(sum(m % 2 for m in drawn) / len(drawn), 0.5, delta=0.04)
        self.assertTrue(all(1 <= m <= 16384 for m in drawn))
        # 128 is the middle of 1 and 16384.
        middle = sum(m <= 128 for m in drawn) / len(drawn)
        self.assertAlmostEqual(middle, 0.5, delta=0.05)

    def test_share_of_sides_that_are_no_multiples(self):
        drawn = some(shapes.products(SETTINGS))
        units = [max(8, 16 // shapes.TYPES[product.type].bytes) for product in drawn]
        both = sum(p.n % unit == 0 and p.k % unit == 0 for p, unit in zip(drawn, units))
        none = sum(p.n % unit != 0 and p.k % unit != 0 for p, unit in zip(drawn, units))
        self.assertEqual(both + none, len(drawn))
        self.assertAlmostEqual(none / len(drawn), 0.25, delta=0.04)
        self.assertTrue(all(256 <= side <= 32768 for p in drawn for side in (p.n, p.k)))

    def test_limits_hold(self):
        small = {**SETTINGS, "operations": 1e9, "memory": 64 << 20}
        for product in some(shapes.products(small), 500):
            self.assertLessEqual(product.operations, 1e9)
            self.assertLessEqual(product.bytes, 64 << 20)

    def test_f8_is_drawn_as_nt_alone(self):
        forms = {product.form for product in some(shapes.products(SETTINGS))
                 if product.type == "f8"}
        self.assertEqual(forms, {"nt"})

    def test_aligned_is_of_all_matrices(self):
        self.assertTrue(shapes.Product("nt", "bf16", 3, 64, 64).aligned)
        self.assertFalse(shapes.Product("tn", "bf16", 3, 64, 64).aligned)
        self.assertFalse(shapes.Product("nt", "f8", 3, 64, 72).aligned)
        self.assertFalse(shapes.Product("nn", "f32", 4, 65, 64).aligned)

    def test_layers_divide_among_ranks(self):
        for layer in some(shapes.layers(SETTINGS, 3), 300):
            self.assertEqual(layer.m % 3, 0)
            hidden, ffn = layer.model
            self.assertEqual(ffn % 3, 0)
            self.assertIn(layer.k, (hidden, ffn // 3))

    def test_collectives_divide_among_ranks(self):
        for drawn in some(shapes.collectives(SETTINGS, 2), 2000):
            self.assertLessEqual(drawn.count * 2, (256 << 20) + 4 * drawn.hidden)
            if drawn.op == "all_to_all":
                self.assertEqual(drawn.count % (4 * drawn.hidden), 0)
            elif drawn.op != "all_reduce":
                self.assertEqual(drawn.count % 2, 0)

    def test_joined_kernels_get_what_they_take(self):
        drawn = some(shapes.joined(SETTINGS, 3), 2000)
        self.assertEqual({its.op for its in drawn}, set(shapes.joined_on(SETTINGS, 3)))
        products = {"all_to_all_gemm", "int8_gemm_ar", "split_k_gemm", "tp_mlp", "ag_row_scaled",
                    "row_scaled_rs", "scaled_ag_gemm", "scaled_gemm_rs", "moe_layer",
                    "grouped_gemm_ar", "summa", "cannon"}
        for its in drawn:
            self.check_sizes(its)
            self.assertEqual(its.k != 0, its.op in products, its.op)
            self.assertLessEqual(2 * its.m * its.n * its.k, SETTINGS["operations"])
        self.assertEqual(len({its.key for its in drawn}), len(set(drawn)))

    def check_sizes(self, its):
        if its.op in ("ulysses", "ulysses_attention", "causal_ulysses", "ring_attention",
                      "all_to_all_gemm", "flash_decode", "tp_mlp"):
            self.assertEqual(its.m % 3, 0)
        if its.op in ("ag_row_scaled", "row_scaled_rs"):
            self.assertEqual((its.m % 3, its.n % 16, its.k % 16), (0, 0, 0))
        if its.op in ("scaled_ag_gemm", "scaled_gemm_rs"):
            self.assertEqual((its.m % 3, its.n % 128, its.k % 128), (0, 0, 0))
        if its.op == "causal_gathered_attention":
            self.assertEqual(its.m % 6, 0)
        if its.op == "flash_decode":
            self.assertLessEqual(its.m * its.n, (1 << 20) + 3)
        if its.op.startswith(("dispatch", "combine")):
            self.assertEqual(its.n % 128, 0)
            self.assertLessEqual(its.m, 4096 if its.op == "dispatch_prefill" else 128)
        if its.op == "int8_gemm_ar":
            self.assertGreater(its.m, 16)
            self.assertEqual((its.n % 8, its.k % 8), (0, 0))
            self.assertLessEqual(3 * its.k, 131071)
        if its.op in ("all_reduce_norm", "moe_layer", "grouped_gemm_ar"):
            self.assertIn(its.n, shapes.HIDDEN)
        if its.op == "summa":
            self.assertEqual(its.k % 24, 0)
        if its.op == "heat_step":
            self.assertGreaterEqual(its.m, 2)
        if its.op in ("broadcast", "scatter", "gather") or its.op.endswith("_all_reduce"):
            self.assertEqual(its.m, 1)
            self.assertTrue(2 << 10 <= its.n <= 128 << 20, its.n)

    def test_joined_kernels_that_need_other_ranks(self):
        for ranks, lacks in ((1, {"attention_to_experts"}), (2, {"cannon"}), (4, set())):
            runs = set(shapes.joined_on(SETTINGS, ranks))
            self.assertEqual(set(shapes.JOINED_SIZES) - runs, lacks)
        named = {**SETTINGS, "ops": ["cannon", "barrier"]}
        self.assertEqual({its.op for its in some(shapes.joined(named, 2), 20)}, {"barrier"})
        self.assertEqual(some(shapes.joined({**SETTINGS, "ops": ["cannon"]}, 2), 20), [])

    def test_joined_kernels_are_declared(self):
        text = ""
        for name in ("attention", "collectives", "expert_layers", "experts", "grids", "scaled",
                     "joined"):
            with open(os.path.join(regret.HERE, f"regret_{name}.py"), encoding="utf-8") as file:
                text += file.read()
        ops = dict(re.findall(r'"(\w+)": (\w+)[,}]', text[text.index("OPERATIONS = "):]))
        self.assertEqual(tuple(ops), tuple(shapes.JOINED_SIZES))
        programs = re.findall(r'kernel_of\(bench, options, "(\w+)",\s+"?(\w+)', text)
        with open(os.path.join(regret.HERE, "regret_rows.py"), encoding="utf-8") as file:
            of_rows = re.findall(r'= row_kernel\("(\w+)"', file.read())
        with open(os.path.join(regret.HERE, "rows.dtile"), encoding="utf-8") as file:
            self.assertEqual(re.findall(r"^kernel (\w+)", file.read(), re.MULTILINE), of_rows)
        self.assertEqual(len(programs) + len(of_rows), len(ops))
        for program, kernel in programs:
            path = os.path.join(EXAMPLES, program, program + ".dtile")
            with open(path, encoding="utf-8") as file:
                declared = re.findall(r"^(?:kernel|overlap) (\w+)", file.read(), re.MULTILINE)
            # Where two kernels are chosen from by size, both of one choice are declared.
            choices = re.findall(r'name = "(\w+)" if .* else "(\w+)"', text)
            names = [(kernel,)] if kernel != "name" else choices
            self.assertTrue(any(set(either) <= set(declared) for either in names), program)


class Constants(unittest.TestCase):
    def test_neighbours_come_first_and_nothing_twice(self):
        default = {"BM": 64, "BN": 64, "BK": 32}
        found = list(shapes.configurations("1", default))
        texts = [shapes.text_of(constants) for constants in found]
        self.assertEqual(len(texts), len(set(texts)))
        self.assertGreaterEqual(len(texts), 100)
        self.assertNotIn(shapes.text_of(default), texts)
        self.assertEqual(found[:6], list(shapes.neighbours(default)))
        self.assertNotEqual(found, list(shapes.configurations("2", default)))

    def test_defaults_are_those_of_the_declaration(self):
        gemm = os.path.join(EXAMPLES, "gemm", "gemm.dtile")
        own = os.path.join(regret.HERE, "products.dtile")
        self.assertIsNone(shapes.default_of(gemm, "gemm"))
        self.assertIsNone(shapes.default_of(own, "tn_tf32"))
        with tempfile.NamedTemporaryFile("w", suffix=".dtile") as program:
            program.write("kernel k<BM = 64, BN = 64, BK = 32>(\n")
            program.flush()
            self.assertEqual(shapes.default_of(program.name, "k"), {"BM": 64, "BN": 64, "BK": 32})
        with tempfile.NamedTemporaryFile("w", suffix=".dtile") as program:
            program.write("kernel k<BM = auto, BN = 64, BK = 32>(\n")
            program.flush()
            self.assertIsNone(shapes.default_of(program.name, "k"))

    def test_every_product_has_its_kernel(self):
        for name, its in shapes.TYPES.items():
            for form in its.forms:
                program, kernel, types = shapes.Product(form, name, 1, 256, 256).program()
                path = os.path.join(EXAMPLES, "gemm", "gemm.dtile") if program == "gemm" else \
                    os.path.join(regret.HERE, program + ".dtile")
                declared = shapes.kernels_of(path)
                self.assertIn(kernel, declared)
                for constant in types:
                    self.assertRegex(declared[kernel], rf"\b{constant}\b")


class Predictions(unittest.TestCase):
    TEXT = '[{"constants": {"BM": 64, "stages": 3}, "ns": 90}, {"constants": {"BM": 128}, "ns": 7}]'

    def test_format(self):
        self.assertEqual([row["ns"] for row in shapes.parse_predictions(self.TEXT)], [7, 90])
        for text in ("", "{}", "[]", '[{"ns": 1}]', "[3]", '[{"constants": {}, "ns": "x"}]'):
            self.assertIsNone(shapes.parse_predictions(text), text)

    def test_rank_compares_what_both_name(self):
        rows = shapes.parse_predictions(self.TEXT)
        self.assertEqual(shapes.rank_of({"BM": 64, "BK": 32}, rows), 2)
        self.assertEqual(shapes.rank_of({"BM": 128}, rows), 1)
        self.assertIsNone(shapes.rank_of({"BM": 16}, rows))
        self.assertIsNone(shapes.rank_of({}, rows))

    def test_a_command_that_fails_predicts_nothing(self):
        product = shapes.Product("nt", "bf16", 1, 256, 256)
        for command in ("/bin/false", "/no/such/program"):
            self.assertIsNone(shapes.predictions(command, "x", "gemm", product, "sm_90a"))


class Logs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "log.jsonl")

    def tearDown(self):
        self.folder.cleanup()

    def test_a_later_run_knows_what_was_measured(self):
        log = regret_log.Log(self.path, "here")
        log.write("run", settings={"seed": 5})
        log.write("try", key="a")
        log.write("shape", key="a", default=1.0)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"kind": "shape", "key": "tor')
        again = regret_log.Log(self.path, "here")
        self.assertEqual(again.settings, {"seed": 5})
        self.assertEqual(list(again.known), ["a"])
        again.write("shape", key="b", default=2.0)
        self.assertEqual(list(regret_log.Log(self.path, "here").known), ["a", "b"])
        self.assertEqual(again.others, 0)

    def test_other_machines_do_not_count(self):
        regret_log.Log(self.path, "there").write("shape", key="a", default=1.0)
        log = regret_log.Log(self.path, "here")
        self.assertEqual((log.known, log.others), ({}, 1))

    def test_what_was_begun_and_not_ended(self):
        log = regret_log.Log(self.path, "here")
        for key in ("a", "b", "c"):
            log.write("try", key=key)
            if key != "b":
                log.write("failed" if key == "a" else "configuration", key=key, why="", shape="s")
        self.assertEqual([line["key"] for line in regret_log.unfinished(log.lines)], ["b"])


class Figures(unittest.TestCase):
    def test_means_and_percentiles(self):
        self.assertAlmostEqual(figures.geometric_mean([0.25, 1.0]), 0.5)
        self.assertAlmostEqual(figures.percentile([3, 1, 2], 50), 2)
        self.assertAlmostEqual(figures.percentile(list(range(11)), 10), 1)
        self.assertEqual(figures.percentile([7], 10), 7)

    def test_histogram(self):
        lines = figures.histogram([1, 1, 3, 60, None])
        self.assertEqual([line.split(":")[0].strip() for line in lines],
                         ["1", "3", "51 and more", "not predicted"])
        self.assertIn("2 ##", lines[0])

    def test_noise(self):
        said = figures.noise([{"default": 1.0, "again": 1.1}, {"default": 1.0, "again": 0.95}])
        self.assertIn("most 10.0% of 2 shapes", said)


class CommandLine(unittest.TestCase):
    def settings(self, *words, earlier=None):
        return regret.settings_of(regret.parser().parse_args(words), earlier)

    def test_a_seed_from_the_clock(self):
        self.assertGreater(self.settings()["seed"], 1e9)
        self.assertEqual(self.settings("--seed", "3")["seed"], 3)

    def test_resuming_keeps_settings_and_refuses_others(self):
        first = self.settings("--seed", "3", "--types", "bf16")
        self.assertEqual(self.settings(earlier=first), first)
        self.assertEqual(self.settings("--types", "bf16", earlier=first), first)
        self.assertIsNone(self.settings("--seed", "4", earlier=first))
        self.assertIsNone(self.settings("--layers", earlier=first))
        self.assertIsNone(self.settings("--joined", earlier=first))
        self.assertEqual(self.settings("--joined")["peer"], "torch")
        self.assertEqual(self.settings("--joined")["ops"], list(shapes.JOINED_SIZES))
        named = self.settings("--joined", "--ops", "gather", "--seed", "3")
        self.assertEqual(named["ops"], ["gather"])
        self.assertIsNone(self.settings("--joined", "--ops", "scatter", earlier=named))

    def test_what_no_peer_multiplies(self):
        self.assertFalse(regret.measurable(self.settings("--types", "f8", "--forms", "nn")))
        self.assertTrue(regret.measurable(self.settings("--types", "f8", "f16", "--forms", "nn")))
        self.assertTrue(regret.measurable(self.settings("--collectives")))


if __name__ == "__main__":
    sys.exit(unittest.main())
