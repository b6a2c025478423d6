// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled GEMM on one core beside OpenBLAS's sgemm, and how long compiling takes. Prints; asserts
// only that the two agree.
//
//   host_gemm [SIZE [BM BN BK [CPU]]]
#include "backend/host/host.h"
#include "backend/runtime/dtile.h"
#include "frontend/base/diagnostics.h"
#include "ir/core/text_format.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <random>
#include <string>
#include <vector>

using namespace dtile;

namespace {

/// Processor time: one core works at a time, and the machine may be busy with other things.
double now() { return double(std::clock()) / CLOCKS_PER_SEC; }

/// c = a b.T with f32 sums, in blocks, as `dtilec ir` gives it for the example.
std::string gemmText(int size, int bm, int bn, int bk) {
  const std::string s = std::to_string(size), m = std::to_string(bm), n = std::to_string(bn),
                    k = std::to_string(bk);
  const std::string sums = "tile<" + m + "x" + n + "xf32>";
  return "kernel @gemm {\n"
         "  %c0 = const {value = 0} : index\n  %S = const {value = " +
         s +
         "} : index\n"
         "  %BM = const {value = " +
         m + "} : index\n  %BN = const {value = " + n +
         "} : index\n"
         "  %BK = const {value = " +
         k +
         "} : index\n"
         "  %a = param @a %S, %S {param = 0, mode = \"in\"} : view<f32, 2>\n"
         "  %b = param @b %S, %S {param = 1, mode = \"in\"} : view<f32, 2>\n"
         "  %c = param @c %S, %S {param = 2, mode = \"out\"} : view<f32, 2>\n"
         "  space @main %c0, %S, %BM, %c0, %S, %BN {vars = [\"m\", \"n\"]} (%m: index, %n: index) "
         "{\n"
         "    %z = const {value = 0.0} : f32\n    %init = tile.splat %z : " +
         sums +
         "\n"
         "    %acc = for %c0, %S, %BK, %init : " +
         sums + " (%k: index, %sum: " + sums +
         ") {\n"
         "      %av = view.tile %a, %m, %S, %k, %S {dims = \"rr\", lens = [" +
         m + ", " + k +
         "]} : view<f32, 2>\n"
         "      %al = load %av : tile<" +
         m + "x" + k +
         "xf32>\n"
         "      %bv = view.tile %b, %n, %S, %k, %S {dims = \"rr\", lens = [" +
         n + ", " + k +
         "]} : view<f32, 2>\n"
         "      %bl = load %bv : tile<" +
         n + "x" + k +
         "xf32>\n"
         "      %bt = tile.trans %bl {perm = [1, 0]} : tile<" +
         k + "x" + n +
         "xf32>\n"
         "      %d = tile.dot %al, %bt, %sum : " +
         sums +
         "\n      yield %d\n    }\n"
         "    %cv = view.tile %c, %m, %S, %n, %S {dims = \"rr\", lens = [" +
         m + ", " + n +
         "]} : view<f32, 2>\n"
         "    store %acc, %cv\n    yield\n  }\n  return\n}\n";
}

/// Median seconds of some runs.
template <typename Fn> double median(Fn fn) {
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    const double start = now();
    fn();
    times.push_back(now() - start);
  }
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

using Sgemm = void(int, int, int, int, int, int, float, const float *, int, const float *, int,
                   float, float *, int);

int fail(const llvm::Twine &message) {
  llvm::errs() << message << "\n";
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 1024;
  const int bm = argc > 4 ? std::atoi(argv[2]) : 128;
  const int bn = argc > 4 ? std::atoi(argv[3]) : 256;
  const int bk = argc > 4 ? std::atoi(argv[4]) : 64;
  const backend::host::HostOptions hostOptions{.cpu = argc > 5 ? argv[5] : "native"};
  SourceManager sources;
  ir::TypeContext types;
  Diagnostics diagnostics(sources);
  auto module = ir::parseModule(sources.add("gemm.dtir", gemmText(size, bm, bn, bk)), sources,
                                types, diagnostics);
  if (!module)
    return fail("the kernel does not parse");
  double start = now();
  auto code = backend::host::jit(*module, hostOptions);
  if (!code)
    return fail(llvm::toString(code.takeError()));
  llvm::outs() << "compile " << llvm::format("%.1f", 1e3 * (now() - start)) << " ms (first)";
  start = now();
  (void)llvm::cantFail(backend::host::jit(*module, hostOptions));
  llvm::outs() << ", " << llvm::format("%.1f", 1e3 * (now() - start)) << " ms (again)\n";

  const size_t count = size_t(size) * size;
  std::vector<float> a(count), b(count), c(count), wanted(count);
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> values(-1, 1);
  for (size_t i = 0; i < count; ++i)
    a[i] = values(engine), b[i] = values(engine);
  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = 1;
  options.workers = 1;
  dtile_team *team = nullptr;
  if (dtile_team_create_threads(&options, &team) != DTILE_OK)
    return fail(dtile_last_error());
  dtile_tensor tensors[3];
  dtile_arg args[3];
  for (auto [tensor, arg, data] : {std::tuple{&tensors[0], &args[0], &a},
                                   {&tensors[1], &args[1], &b},
                                   {&tensors[2], &args[2], &c}}) {
    *tensor = {data->data(), DTILE_F32, 2, {size, size}, {size, 1}};
    arg->tensor = tensor;
  }
  const dtile_arg *rankArgs[] = {args};
  const dtile_kernel_desc *kernel = (*code)->find("gemm");
  const double flops = 2.0 * size * size * size;
  bool ran = true;
  const double ours =
      median([&] { ran &= dtile_launch_all(team, kernel, rankArgs, 3) == DTILE_OK; });
  if (!ran)
    return fail(dtile_last_error());
  dtile_team_destroy(team);
  llvm::outs() << "dtile    "
               << llvm::format("%7.2f ms %7.1f GFLOP/s\n", 1e3 * ours, flops / ours * 1e-9);

  // Found at run time: nothing of dtile links it.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void *library = dlopen("libopenblas.so.0", RTLD_NOW);
  auto *sgemm = library ? reinterpret_cast<Sgemm *>(dlsym(library, "cblas_sgemm")) : nullptr;
  if (!sgemm)
    return fail("no libopenblas.so.0 to compare with");
  // Row-major, A not transposed, B transposed.
  auto blas = [&] {
    sgemm(101, 111, 112, size, size, size, 1, a.data(), size, b.data(), size, 0, wanted.data(),
          size);
  };
  blas();
  const double theirs = median(blas);
  llvm::outs() << "OpenBLAS "
               << llvm::format("%7.2f ms %7.1f GFLOP/s\n", 1e3 * theirs, flops / theirs * 1e-9)
               << "ratio    " << llvm::format("%.2f\n", theirs / ours);
  double worst = 0;
  for (size_t i = 0; i < count; ++i)
    worst = std::max(worst, double(std::fabs(c[i] - wanted[i])));
  if (worst > 1e-5 * size)
    return fail("the results differ by " + llvm::Twine(std::to_string(worst)));
  return 0;
}
