# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gemm_scaled beside cuBLAS's product of f8 with the same scales, and swiglu beside cuBLAS's
product of both matrices at once, with torch's arithmetic behind it and without."""

import torch
import torch.nn.functional as functional

from goals import shapes_of
from harness import kernel_of, measured, ratio, team_for

BLOCK = 128


def gemm_scaled(bench, options):
    for m, n, k in options.shapes or shapes_of("scaled_products"):
        a, b = (torch.empty(rows, k, device="cuda", dtype=torch.float8_e4m3fn) for rows in (m, n))
        sa = torch.empty(k // BLOCK, m, device="cuda")
        sb = torch.empty(n // BLOCK, k // BLOCK, device="cuda")
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def fill():
            for tensor in (a, b):
                tensor.copy_(bench.random(*tensor.shape))
            for scales in (sa, sb):
                scales.copy_(bench.random(*scales.shape, dtype=torch.float32).abs() + 0.1)

        def reference():
            rows = a.double() * sa.double().T.repeat_interleave(BLOCK, 1)
            blocks = sb.double().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
            return rows @ (b.double() * blocks).T

        with team_for(bench, options) as team:
            kernel = kernel_of(bench, options, "gemm_scaled", "gemm_scaled")
            spent, error = measured(
                bench, "gemm_scaled", lambda: kernel(a, sa, b, sb, c, team=team),
                lambda name, launch: bench.check(name, launch, fill, c, reference, 5e-3))

        def cublas():
            return functional.scaled_mm(
                a, b.T, sa.T, functional.ScalingType.BlockWise1x128, sb.T,
                functional.ScalingType.BlockWise128x128, output_dtype=torch.bfloat16)

        peer = bench.attempt(cublas)
        if peer is not None and (wrong := bench.error(cublas(), reference())) > 5e-3:
            bench.say(f"peer: cuBLAS's scaled product is wrong: relative error {wrong:.2e}")
            peer = None
        bench.row(op="gemm_scaled", M=m, N=n, K=k, dtile=spent, error=error,
                  cublas=peer, ratio=ratio(peer, spent),
                  tflops=spent and round(2e-9 * m * n * k / spent))


def swiglu(bench, options):
    for m, n, k in options.shapes or shapes_of("gated_products"):
        x, both = bench.random(m, k), torch.empty(2 * n, k, device="cuda", dtype=torch.bfloat16)
        g, u = both[:n], both[n:]
        y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def fill():
            x.copy_(bench.random(m, k))
            both.copy_(bench.random(2 * n, k, dtype=torch.float32) / k**0.5)

        def reference():
            return functional.silu(x.double() @ g.double().T) * (x.double() @ u.double().T)

        with team_for(bench, options) as team:
            kernel = kernel_of(bench, options, "swiglu", "swiglu")
            spent, error = measured(
                bench, "swiglu", lambda: kernel(x, g, u, y, team=team),
                lambda name, launch: bench.check(name, launch, fill, y, reference, 1e-2))

        def gated():
            products = x @ both.T
            return functional.silu(products[:, :n]) * products[:, n:]

        product, peer = bench.attempt(lambda: x @ both.T), bench.attempt(gated)
        bench.row(op="swiglu", M=m, N=n, K=k, dtile=spent, error=error,
                  cublas_product=product, best_peer=peer, ratio=ratio(peer, spent),
                  ratio_product=ratio(product, spent),
                  tflops=spent and round(4e-9 * m * n * k / spent))
