// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec test`: finds test blocks, runs each on each of its rank counts, counts.
#include "backend/driver/execute/executor.h"
#include "backend/driver/execute/job.h"
#include "backend/driver/execute/mesh.h"
#include "backend/driver/output/output_file.h"
#include "backend/driver/testing/bench_report.h"
#include "backend/driver/testing/test_evaluator.h"
#include "backend/driver/testing/test_progress.h"
#include "backend/driver/trace/trace_log.h"
#include "frontend/ast/mesh.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace dtile::driver {

namespace {

// The text of a test or bench block.
struct Block {
  llvm::StringRef name;
  SourceRange place;
  llvm::ArrayRef<ast::Expr *> ranks;
  const ast::BlockStmt *body = nullptr;
};

// The sizes of axes; one where only a number of ranks was said.
using Mesh = std::vector<int64_t>;

int ranksOf(const Mesh &mesh) {
  int64_t ranks = 1;
  for (const int64_t size : mesh)
    ranks *= size;
  return int(ranks);
}

// Runs the blocks of all files.
class TestRunner {
public:
  TestRunner(Session &session, Job *job)
      : session_(session), job_(job), trace_(session.options), progress_(job),
        watchdog_(session, trace_, session.options.timeoutSeconds, progress_.isPrinting()) {}

  /// False after reporting that the job's processes cannot write their traces.
  bool joinTrace() { return !job_ || trace_.joinJob(session_, job_->rank()); }
  void runFile(const std::string &path);
  ExitCode finish();

private:
  std::vector<Block> blocksOf(const sema::Program &program) const;
  std::vector<Mesh> rankCounts(const sema::Program &program, const Block &block);
  std::optional<int64_t> rankCount(const sema::Program &program, const ast::Expr &e);
  std::optional<int64_t> constantInt(const sema::Program &program, const ast::Expr &e);
  bool isAsked(int ranks) const;
  void runBlock(const std::string &path, KernelLibrary &library, const Block &block,
                const Mesh &mesh);
  void timeBlock(const std::string &what, KernelLibrary &library, const Block &block,
                 Executor &executor, const Mesh &mesh);
  void plot();
  bool runWatched(TestEvaluator &evaluator, const Block &block, const std::string &what);
  void count(bool passed, const std::string &what, double seconds);

  Session &session_;
  Job *job_;
  TraceLog trace_;
  TestProgress progress_;
  TestWatchdog watchdog_;
  /// What was measured so far.
  std::vector<BenchRow> measured_;
  unsigned passed_ = 0;
  unsigned failed_ = 0;
  /// Tests that were found before `--filter`, and the numbers of ranks of those after it.
  unsigned found_ = 0;
  std::set<int> knownRanks_;
};

std::vector<Block> TestRunner::blocksOf(const sema::Program &program) const {
  std::vector<Block> blocks;
  if (session_.options.bench)
    for (const ast::BenchDecl *bench : program.benches())
      blocks.push_back({bench->name, bench->nameRange, bench->ranks, bench->body});
  else
    for (const ast::TestDecl *test : program.tests())
      blocks.push_back({test->name, test->nameRange, test->ranks, test->body});
  return blocks;
}

// Rank counts stand before the body: literals and constants of the file.
std::optional<int64_t> TestRunner::constantInt(const sema::Program &program, const ast::Expr &e) {
  if (const auto *literal = llvm::dyn_cast<ast::IntLit>(&e))
    return int64_t(literal->value);
  if (const auto *name = llvm::dyn_cast<ast::NameExpr>(&e))
    if (auto value = program.findConst(name->name))
      return value;
  session_.diagnostics.report(e.range, diag::test_cannot_evaluate,
                              "a number of ranks is an integer or a constant of the file");
  return std::nullopt;
}

std::optional<int64_t> TestRunner::rankCount(const sema::Program &program, const ast::Expr &e) {
  const auto count = constantInt(program, e);
  if (!count || (*count >= 1 && *count <= kMaxRanks))
    return count;
  session_.diagnostics.report(e.range, diag::test_bad_ranks, kMaxRanks, *count);
  return std::nullopt;
}

std::vector<Mesh> TestRunner::rankCounts(const sema::Program &program, const Block &block) {
  std::vector<Mesh> counts;
  for (const ast::Expr *expr : block.ranks) {
    Mesh &mesh = counts.emplace_back();
    int64_t ranks = 1;
    llvm::SmallVector<const ast::Expr *, 3> sizes = {expr};
    if (const ast::CallExpr *axes = ast::meshOfTest(expr)) {
      sizes.clear();
      for (const ast::Arg &axis : axes->args)
        sizes.push_back(axis.value);
    }
    for (const ast::Expr *size : sizes) {
      const auto count = rankCount(program, *size);
      if (!count)
        return {};
      mesh.push_back(*count);
      ranks *= *count;
      if (ranks > kMaxRanks) {
        session_.diagnostics.report(expr->range, diag::test_bad_ranks, kMaxRanks, ranks);
        return {};
      }
    }
  }
  if (block.ranks.empty())
    counts.push_back({1});
  return counts;
}

bool TestRunner::isAsked(int ranks) const {
  // A job has as many ranks as it has.
  if (job_ && ranks != job_->ranks())
    return false;
  return session_.options.ranks.empty() || llvm::is_contained(session_.options.ranks, ranks);
}

void TestRunner::runFile(const std::string &path) {
  const ErrorMark mark(session_);
  const auto program = analyzeFile(session_, path);
  if (!program) {
    count(false, path + " cannot be tested", 0);
    return;
  }
  KernelLibrary library(session_, *program);
  for (const Block &block : blocksOf(*program)) {
    ++found_;
    if (!block.name.contains(session_.options.filter))
      continue;
    const std::vector<Mesh> counts = rankCounts(*program, block);
    if (counts.empty())
      count(false, path + ": " + block.name.str(), 0);
    for (const Mesh &mesh : counts)
      knownRanks_.insert(ranksOf(mesh));
    for (const Mesh &mesh : counts)
      if (isAsked(ranksOf(mesh)))
        runBlock(path, library, block, mesh);
  }
}

void TestRunner::runBlock(const std::string &path, KernelLibrary &library, const Block &block,
                          const Mesh &mesh) {
  const int ranks = ranksOf(mesh);
  trace_.name(path + ": " + block.name.str());
  const auto executors =
      makeExecutors(session_.options, ranks, job_, trace_.isOn() ? &trace_ : nullptr);
  const std::vector<LaunchRecord> *other = nullptr;
  std::vector<LaunchRecord> first;
  for (const auto &executor : executors) {
    std::string what =
        path + ": " + block.name.str() + " (" + meshText(mesh) + (ranks == 1 ? " rank" : " ranks");
    if (executors.size() > 1)
      what += ", " + executor->name().str();
    what += ")";
    progress_.running(what);
    if (session_.options.bench) {
      timeBlock(what, library, block, *executor, mesh);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const ErrorMark mark(session_);
    bool passed = true;
    std::vector<LaunchRecord> launches;
    for (int run = 1; run <= session_.options.repeat && passed; ++run) {
      TestEvaluator evaluator(session_, library, *executor, other, executors.front()->name());
      evaluator.onMesh(mesh);
      passed = runWatched(evaluator, block, what) && !mark.failed();
      launches = evaluator.launches();
      if (!passed && run > 1)
        what += ", run " + std::to_string(run);
    }
    count(passed, what,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (!other) {
      first = std::move(launches);
      other = &first;
    }
  }
}

bool TestRunner::runWatched(TestEvaluator &evaluator, const Block &block, const std::string &what) {
  evaluator.watch(watchdog_);
  watchdog_.begin(block.place, "FAIL " + what + '\n' + std::to_string(passed_) + " passed, " +
                                   std::to_string(failed_ + 1) +
                                   " failed; what follows was not run\n");
  const bool passed = evaluator.run(*block.body);
  watchdog_.end();
  return passed;
}

void TestRunner::timeBlock(const std::string &what, KernelLibrary &library, const Block &block,
                           Executor &executor, const Mesh &mesh) {
  // The first run warms caches and is not counted.
  constexpr int kRuns = 6;
  std::vector<std::vector<double>> times;
  std::vector<BenchRow> rows;
  bool passed = true;
  for (int run = 0; run < kRuns && passed; ++run) {
    TestEvaluator evaluator(session_, library, executor);
    evaluator.onMesh(mesh);
    passed = runWatched(evaluator, block, what);
    times.resize(evaluator.launches().size());
    rows.resize(times.size());
    for (size_t i = 0; i < times.size(); ++i) {
      const LaunchRecord &launch = evaluator.launches()[i];
      rows[i] = {.kernel = launch.kernel->name,
                 .ranks = executor.ranks(),
                 .sizes = launch.sizes,
                 .bytes = launch.bytes};
      if (run > 0)
        times[i].push_back(launch.seconds);
    }
  }
  count(passed, what, 0);
  if (!passed || rows.empty())
    return;
  for (size_t i = 0; i < times.size(); ++i) {
    llvm::sort(times[i]);
    rows[i].median = times[i][times[i].size() / 2];
    rows[i].least = times[i].front();
    rows[i].most = times[i].back();
  }
  std::string table;
  llvm::raw_string_ostream os(table);
  printBench(rows, os);
  progress_.line(llvm::StringRef(table).rtrim('\n').str());
  llvm::append_range(measured_, rows);
}

// One picture of all blocks; rank 0 of a job has it.
void TestRunner::plot() {
  const std::string &path = session_.options.plot;
  if (path.empty() || !progress_.isPrinting())
    return;
  if (llvm::Error error = writeFile(path, plotBench(measured_)))
    session_.diagnostics.report(SourceLoc{}, diag::cannot_write, llvm::toString(std::move(error)));
}

void TestRunner::count(bool passed, const std::string &what, double seconds) {
  const bool isSaid = progress_.messages(session_);
  ++(passed ? passed_ : failed_);
  // A body that does not compile does so on no number of ranks.
  progress_.done(passed, passed || isSaid ? what : what + ", as said above", seconds);
}

ExitCode TestRunner::finish() {
  if (passed_ + failed_ == 0) {
    if (!knownRanks_.empty()) {
      std::vector<std::string> counts;
      for (int ranks : knownRanks_)
        counts.push_back(std::to_string(ranks));
      session_.diagnostics.report(SourceLoc{}, diag::no_such_rank_count, llvm::join(counts, ", "));
    } else {
      const bool isBench = session_.options.bench;
      std::string how;
      if (found_ != 0)
        how = " whose name contains `" + session_.options.filter + "`";
      else if (isBench)
        how = ": write `bench \"…\" { … }`, or time launches of a kernel by `dtilec bench --sizes`";
      session_.diagnostics.report(SourceLoc{}, diag::no_tests, isBench ? "bench block" : "test",
                                  how);
    }
  }
  if (failed_ != 0)
    session_.setFailed();
  progress_.clear();
  trace_.finish(session_);
  plot();
  return session_.finish(job_,
                         [&] { llvm::outs() << passed_ << " passed, " << failed_ << " failed\n"; });
}

// All tests, once.
ExitCode runOnce(const Options &options) {
  Session session(options);
  if (!checkConstantValues(session))
    return session.finish();
  for (int ranks : options.ranks)
    if (ranks < 1 || ranks > kMaxRanks) {
      session.diagnostics.report(SourceLoc{}, diag::bad_ranks, ranks, kMaxRanks);
      return session.finish();
    }
  std::vector<std::string> files;
  for (const std::string &path : options.inputs)
    collectFiles(session, path, files);
  std::unique_ptr<Job> job;
  if (!joinJob(session, job))
    return session.finish();
  TestRunner runner(session, job.get());
  if (!runner.joinTrace())
    return session.finish(job.get());
  for (const std::string &path : files)
    runner.runFile(path);
  return runner.finish();
}

// All tests in one random schedule after the other, until one fails: its seed runs it again.
ExitCode explore(const Options &options) {
  for (unsigned i = 1; i <= options.explore; ++i) {
    Options one = options;
    one.scheduleSeed = options.scheduleSeed + i;
    llvm::outs() << "--schedule=random:" << one.scheduleSeed << '\n';
    if (const ExitCode code = runOnce(one); code != ExitCode::Ok) {
      llvm::outs() << "failed in schedule " << i << " of " << options.explore
                   << "; run it again with --schedule=random:" << one.scheduleSeed << '\n';
      return code;
    }
  }
  return ExitCode::Ok;
}

} // namespace

ExitCode runTest(const Options &options) {
  return options.explore == 0 ? runOnce(options) : explore(options);
}

} // namespace dtile::driver
