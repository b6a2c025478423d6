// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is printed as text parses to the same tree: for all programs of the repository, and for what
// these do not have.
#include "frontend/ast/source_printer.h"

#include "frontend/ast/ast_printer.h"
#include "frontend/parse/parser.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

using namespace dtile;

namespace {

std::string treeOf(const ast::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ast::printAst(module, os);
  return text;
}

std::string textOf(const ast::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const ast::Decl *decl : module.decls)
    ast::printSource(decl, os);
  return text;
}

void expectSame(SourceManager &sources, FileId file) {
  Diagnostics diagnostics(sources);
  ast::Arena arena;
  ast::Module module = *parse::parse(file, sources, arena, diagnostics);
  ASSERT_FALSE(diagnostics.hasErrors()) << sources.name(file).str();
  // Comments of files are no part of declarations.
  module.doc = {};
  const std::string text = textOf(module);
  const ast::Module *again =
      parse::parse(sources.add("printed", text), sources, arena, diagnostics);
  EXPECT_FALSE(diagnostics.hasErrors()) << text;
  EXPECT_EQ(treeOf(module), treeOf(*again)) << text;
}

TEST(SourcePrinterTest, ProgramsOfTheRepositoryComeBack) {
  unsigned count = 0;
  for (llvm::StringRef folder : {"examples", "stdlib", "docs/tutorial", "tests/join"}) {
    std::error_code error;
    llvm::SmallString<128> root(DTILE_SOURCE_DIR);
    llvm::sys::path::append(root, folder);
    for (llvm::sys::fs::recursive_directory_iterator it(root, error), end; it != end && !error;
         it.increment(error)) {
      const llvm::StringRef name = llvm::sys::path::filename(it->path());
      if (!name.ends_with(".dtile") || name.starts_with("fail_"))
        continue;
      SourceManager sources;
      llvm::Expected<FileId> file = sources.load(it->path());
      ASSERT_TRUE(bool(file));
      expectSame(sources, *file);
      ++count;
    }
  }
  EXPECT_GT(count, 30u);
}

TEST(SourcePrinterTest, ParenthesesStandWhereTheyAreNeeded) {
  SourceManager sources;
  const FileId file = sources.add("t.dtile", R"(
import a.b as c;
import "x/y.dtile" as z;
const A = (1 + 2) * 3 - (4 - 5) - -6 * (1 << 2) | 7 & ~8;
const B = (A < 3 ? 1 : 2) + (A == (1 | 2) ? 3 : A != 4 ? 5 : 6);
const C = 1.5e-3;
const D = "a \"quoted\" line\n";
kernel k<T: dtype = f32, const N, F: bool = (1 < 2)>(x: symm T[N], y: out T[N], s: symm signal[W])
{
    requires N > 0, all(x < 3);
    assume N < 5 because "it is";
    let half = N / 2;
    role one over (i in 0..N, m in N by 4) ordered programs(2) {
        var gone = done;
        let (a, b) = f<T, N = 3>(x[m], -(x[m] after wait(s[0])), seed: 3);
        for j in 0..2 unordered { gone &= put(x[m] after (done & gone), y@(rank() + 1)[m]); }
        while A < 3 { if A < 1 { await done; } else if A < 2 { await done; } else { await done; } }
        y[..half] = x[half..][0..2].T[:, 1];
        y[i] += (a + b) @ 3;
        yield gone, done;
    } when all (gone, more) over (p in 0..W) { notify(s@p[0], after: gone & more); }
    role two { }
    ensures y ~= (x + 1) * 2 rtol 1e-2 atol 0.5;
}
plan p<C = auto(1, 2)>(x: in T[M], y: scratch symm T[W, M] = 0) {
    requires M > 1;
    let h = M / 2;
    over (i in h..M) { put(x[i], y[0, i]); }
    role named { }
    ensures y ~= x;
}
plan q(x: in T[M], y: scratch symm T[W, M]) = p | c.p;
overlap o = c.k<N = 4> with { x <- p<2>(z), y -> q(v, axis: 1) };
)");
  expectSame(sources, file);
}

} // namespace
