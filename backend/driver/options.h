// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the command line asked for, as plain values. Declared to users in command_line.cpp only.
#pragma once

#include "frontend/base/diagnostics.h"
#include "ir/machine/target_facts.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dtile::driver {

/// Exit codes that scripts can trust.
enum class ExitCode : uint8_t {
  Ok = 0,
  /// The input is wrong, a test failed, a file could not be written.
  Failed = 1,
  /// The command line itself makes no sense.
  Usage = 2,
  /// check: nothing wrong was found, and not everything that it asks is decided.
  Undecided = 3,
};

enum class Command : uint8_t {
  None,
#define COMMAND(command, name, about, examples) command,
#include "backend/driver/commands.def"
};

/// How `top` says what it sees.
enum class TopForm : uint8_t { Text, Json, Prometheus };
enum class ColorChoice : uint8_t { Auto, Always, Never };
/// Where launches run.
enum class ExecutorKind : uint8_t { Host, Interpreter, All };
/// What `build` writes.
enum class EmitKind : uint8_t {
  Object,
  TvmFfi,
  Assembly,
  Llvm,
  Ir,
  Header,
  Depfile,
  Ptx,
  Cubin,
  Hsaco,
  SassStats
};
enum class OptLevel : uint8_t { O0, O1, O2 };

/// The most ranks that a run may have.
inline constexpr int kMaxRanks = 1024;

/// `NAME=VALUE` on the command line.
using NamedText = std::pair<std::string, std::string>;

struct Options {
  Command command = Command::None;

  // Every subcommand.
  DiagnosticForm diagnosticForm = DiagnosticForm::Text;
  ColorChoice color = ColorChoice::Auto;
  std::vector<std::string> importPaths;
  bool warningsAsErrors = false;
  /// `--const NAME=VALUE`: values of generic parameters.
  std::vector<NamedText> constants;
  /// Files, folders, `-`, or what to explain.
  std::vector<std::string> inputs;

  /// check, build, run, test: refuse what depends on timing.
  bool deterministic = false;

  // check
  bool dumpAst = false;

  // Where programs are compiled, checked or predicted.
  /// `--machine`: a row of the table, or a file that `calibrate` wrote; empty for the row of what
  /// is compiled for.
  std::string machineName;
  /// explain --simulate: the network between hosts; empty where none is named.
  std::string network;
  /// What `machineName` says (findMachineOfOptions); null where it is empty.
  std::shared_ptr<const TargetFacts> machine;

  // ir, build, run, test
  OptLevel optLevel = OptLevel::O2;
  /// build: variants a kernel and architecture at most.
  unsigned variants = 10;
  /// build: the launches to choose variants for, each as `M=1..4096,N=512`; empty for all kinds.
  std::vector<std::string> expectedSizes;
  /// explain: sizes of a launch, `M=4096`.
  std::vector<std::pair<std::string, std::string>> sizes;
  /// explain: a simulation of that launch, on a mesh such as `8x8`, with traces for simulators.
  bool simulate = false;
  std::string mesh;
  std::string chakra;
  bool allRanks = false;
  /// tune, bench: the launches to measure, each as `M=4096,N=512`.
  std::vector<std::string> launches;
  /// tune: a launch by the shapes of its arguments, `a=512x4096`.
  std::vector<std::pair<std::string, std::string>> shapes;
  /// tune, bench --search: how long it may take in all.
  int seconds = 60;
  /// bench: look for slow launches; --sizes are ranges, then.
  bool search = false;
  /// bench --search: so many times as long as it should is slow.
  double slowFactor = 2;
  uint64_t seed = 1;
  /// bench --search: timings after which it ends; 0 is no limit.
  int64_t timings = 0;
  /// bench: constants with the values that are timed, `L=1,2,4`.
  std::vector<NamedText> vary;
  /// tune: all configurations, not only those that the model ranks best.
  bool exhaustive = false;
  /// tune: print what was measured, not only the fastest.
  bool table = false;
  /// build, explain: choices that `tune` measured; empty for none.
  std::string tuning;
  /// build, explain: the order of a row's sums is the same for all numbers of rows.
  bool batchInvariant = false;
  /// explain: times for other programs to read.
  bool json = false;
  /// check, ir, build, run: only this kernel.
  std::string kernel;

  // ir
  /// Pipeline text as in `inline,specialize(W=4),cse`; empty where none was asked for.
  std::string passes;
  /// `-O` was given: run the pipeline of that level.
  bool runPipeline = false;
  std::vector<std::string> printAfter;
  std::vector<std::string> printBefore;
  bool verifyEach = false;
  /// Run only the first so many optional passes; negative is all.
  int bisect = -1;
  bool timePasses = false;
  bool remarks = false;

  // fmt
  bool formatCheck = false;
  bool formatInPlace = false;

  // explain
  bool listCodes = false;
  bool joined = false;

  // build
  std::string output;
  /// build: one or more, with commas.
  std::string target = "host";
  /// `--target` was given.
  bool hasTarget = false;
  EmitKind emit = EmitKind::Object;
  std::string header;
  std::string depfile;
  /// What was read and what was looked for in vain.
  std::string inputList;
  /// Empty: the target's default.
  std::string cpu;
  /// Provider of symmetric memory on GPUs, and where its bitcode is.
  std::string shmem = "p2p";
  std::string shmemPath;
  /// Objects carry what the GPU's assembler makes, where it is found.
  bool assemble = true;
  /// `--file-prefix-map OLD=NEW`, in the order given.
  std::vector<NamedText> filePrefixes;
  /// Prologues check what is required of elements of inputs.
  bool checkRequires = false;

  // run, test
  ExecutorKind executor = ExecutorKind::Host;
  /// Architecture of the GPUs (`sm_90a`); empty for what they are.
  std::string arch;
  /// GPUs of the ranks, used in turn; empty for all.
  std::vector<int> devices;
  /// This rank of GPUs starts late, by a random time; negative is none.
  int delayRank = -1;
  /// Launches on GPUs are captured in graphs, and those are replayed.
  bool graph = false;
  /// Budget of a wait on GPUs.
  int waitTimeoutMs = 10'000;
  std::vector<int> ranks;
  uint64_t scheduleSeed = 0;
  /// Interpreted launches are watched for races, and for what outlives them.
  bool sanitize = false;
  /// Where to write what ranks did when; `-` is a summary on standard output, empty is nowhere.
  std::string trace;
  /// Slices of a trace at most.
  int64_t traceLimit = 250'000;
  /// trace: where to write the timeline of several files; empty for nowhere.
  std::string merged;
  /// trace: where to write a page; empty for none.
  std::string page;
  /// build: bodies can be traced; those for GPUs may print.
  bool isTraced = false;
  bool prints = false;
  /// test: so many seeds, one after the other, until something fails; 0 is one run.
  unsigned explore = 0;

  // run, tune
  std::vector<NamedText> arguments;
  std::vector<NamedText> outputs;
  int repeat = 1;
  bool showTime = false;

  // test
  std::string filter;
  bool bench = false;
  /// test --bench, bench: where to draw the times; empty for nowhere.
  std::string plot;
  /// Seconds that one run of a test may take; 0 is no limit.
  unsigned timeoutSeconds = 300;

  /// explain: where to draw what the model predicts for a launch.
  std::string timeline;

  // run, test, top
  /// Where to write who waits for whom when a launch cannot go on, or, for top, now; empty is
  /// nowhere.
  std::string waitGraph;

  // top
  TopForm topForm = TopForm::Text;
  /// Once, and not again and again.
  bool once = false;
  /// Who is slow, in place of who waits.
  bool stragglers = false;
  /// Between two looks.
  int intervalMs = 1000;
};

} // namespace dtile::driver
