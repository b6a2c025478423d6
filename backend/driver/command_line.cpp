// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares every option once, with CLI11. CLI11 throws; nothing leaves this file.
#include "backend/driver/command_line.h"

#include "backend/gpu/device_library.h"
#include "ir/machine/networks.h"
#include "ir/machine/target_facts.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"

#include <CLI/CLI.hpp>

#include <map>

namespace dtile::driver {

namespace {

constexpr const char *kVersionText = "dtilec " DTILE_VERSION " (LLVM " DTILE_LLVM_VERSION ")";

constexpr const char *kAbout =
    "dtilec compiles .dtile: kernels that compute and communicate at the same time.";

// What scripts may rely on; docs/diagnostics/README.md says more.
constexpr const char *kFooter =
    "Example:\n"
    "  dtilec test examples\n\n"
    "`dtilec COMMAND --help` explains one command.\n\n"
    "Exit codes:\n"
    "  0  all is well\n"
    "  1  something is wrong: a program, a test, a file, memory or time\n"
    "  2  the command line makes no sense\n"
    "  3  check: nothing is wrong, and something stays undecided\n"
    "Anything else is a bug in dtilec.\n\n"
    "Codes of messages, as E0406, keep their meaning in later versions, and none is given to\n"
    "something else. `dtilec explain CODE` explains one, `dtilec explain --list` lists all.";

// `NAME=VALUE` options end here.
CLI::Option *addNamed(CLI::App &app, const std::string &flag, std::vector<NamedText> &into,
                      const char *what, const std::string &help, bool mayBeEmpty = false) {
  return app
      .add_option_function<std::vector<std::string>>(
          flag,
          [&into, flag, what, mayBeEmpty](const std::vector<std::string> &texts) {
            for (const std::string &text : texts) {
              const size_t equals = text.find('=');
              if (equals == 0 || equals == std::string::npos ||
                  (equals + 1 == text.size() && !mayBeEmpty))
                throw CLI::ValidationError(flag, "`" + text + "` is not " + what);
              into.emplace_back(text.substr(0, equals), text.substr(equals + 1));
            }
          },
          help)
      ->type_name(what)
      ->allow_extra_args(false);
}

// One of a few words, each with its value.
template <typename T>
CLI::Option *addChoice(CLI::App &app, const std::string &flag, T &into,
                       const std::vector<std::pair<std::string, T>> &choices,
                       const std::string &help) {
  std::vector<std::string> words;
  for (const auto &[word, value] : choices)
    words.push_back(word);
  return app
      .add_option_function<std::string>(
          flag,
          [&into, choices, words, flag](const std::string &text) {
            for (const auto &[word, value] : choices)
              if (word == text) {
                into = value;
                return;
              }
            throw CLI::ValidationError(flag,
                                       "`" + text + "` is not one of " + llvm::join(words, ", "));
          },
          help)
      ->type_name(llvm::join(words, "|"));
}

void addCommon(CLI::App &app, Options &o) {
  addChoice<DiagnosticForm>(app, "--diagnostics", o.diagnosticForm,
                            {{"text", DiagnosticForm::Text}, {"json", DiagnosticForm::Json}},
                            "form of messages: for people, or one JSON array for tools");
  addChoice<ColorChoice>(
      app, "--color", o.color,
      {{"auto", ColorChoice::Auto}, {"always", ColorChoice::Always}, {"never", ColorChoice::Never}},
      "colour messages; auto does on a terminal");
  app.set_help_flag("-h,--help", "print this help and exit");
}

void addSourceOptions(CLI::App &app, Options &o) {
  app.add_option("-I", o.importPaths, "folder to look for imports in, may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "-W",
         [&o](const std::string &value) {
           if (value != "error")
             throw CLI::ValidationError("-W", "`-W" + value + "` is not known; -Werror is");
           o.warningsAsErrors = true;
         },
         "-Werror: warnings are errors")
      ->type_name("error");
  addNamed(
      app, "--const", o.constants, "NAME=VALUE",
      "value of a generic parameter, as BM=64 or T=f32, or of one kernel's, as gemm.BM=64; may be "
      "repeated");
}

void addDeterministic(CLI::App &app, Options &o) {
  app.add_flag(
      "--deterministic", o.deterministic,
      "refuse what depends on timing, as atomic sums of floats: two runs are equal bit by bit");
}

void addOptLevel(CLI::App &app, Options &o) {
  app.add_option_function<std::string>(
         "-O",
         [&o](const std::string &text) {
           if (text.size() != 1 || text[0] < '0' || text[0] > '2')
             throw CLI::ValidationError("-O", "`" + text + "` is not a level; use 0, 1 or 2");
           o.optLevel = OptLevel(text[0] - '0');
           o.runPipeline = true;
         },
         "optimization level: -O0, -O1, -O2")
      ->type_name("0|1|2");
}

void addExecutor(CLI::App &app, Options &o, bool withAll) {
  std::vector<std::pair<std::string, ExecutorKind>> kinds = {{"host", ExecutorKind::Host},
                                                             {"interp", ExecutorKind::Interpreter}};
  if (withAll)
    kinds.emplace_back("all", ExecutorKind::All);
  addChoice<ExecutorKind>(app, "--executor", o.executor, kinds,
                          withAll
                              ? "where launches run: compiled for this machine, interpreted, "
                                "or both, comparing them"
                              : "where launches run: compiled for this machine, or interpreted");
  app.add_option("--schedule-seed", o.scheduleSeed,
                 "start bodies in a random order of this seed; 0 is schedule order")
      ->type_name("N");
  app.add_option_function<std::string>(
         "--schedule",
         [&o](const std::string &text) {
           llvm::StringRef seed = text;
           const bool isRandom = seed.consume_front("random:");
           if (text != "fixed" && !(isRandom && !seed.getAsInteger(10, o.scheduleSeed)))
             throw CLI::ValidationError("--schedule",
                                        "`" + text + "` is not a schedule; use random:SEED");
         },
         "order in which bodies run and transfers land: `fixed`, or random:SEED, which replays")
      ->type_name("fixed|random:SEED");
  app.add_flag("--sanitize", o.sanitize,
               "interpret, and report races and what outlives a kernel, with the data at hand");
}

void addTraceOption(CLI::App &app, Options &o) {
  app.add_option("--trace", o.trace,
                 "write what ranks did when, for ui.perfetto.dev; `-` prints a summary instead")
      ->type_name("FILE.json");
  app.add_option("--trace-limit", o.traceLimit,
                 "slices of a trace at most; what is left out is counted; default 250000")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), int64_t(100'000'000)))
      ->needs("--trace");
}

void addWaitGraph(CLI::App &app, Options &o, const char *when) {
  app.add_option("--wait-graph", o.waitGraph, std::string("write who waits for whom") + when)
      ->type_name("FILE.dot|FILE.json")
      ->check([](const std::string &path) {
        return llvm::StringRef(path).ends_with(".dot") || llvm::StringRef(path).ends_with(".json")
                   ? std::string()
                   : "`" + path + "` ends neither in .dot nor in .json";
      });
}

/// Where launches of run, test and tune are.
void addDevices(CLI::App &app, Options &o) {
  app.add_option("--target", o.target,
                 "what to compile for and run on: host (default), nvptx or amdgpu")
      ->type_name("TARGET")
      ->check(CLI::IsMember({"host", "nvptx", "amdgpu"}));
  app.add_option("--arch", o.arch, "architecture of the GPUs; default: the best for what is there")
      ->type_name("ARCH");
  app.add_option("--devices", o.devices,
                 "GPUs of the ranks, used in turn; ranks share where there are fewer GPUs")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--wait-timeout", o.waitTimeoutMs,
                 "milliseconds that a wait on a GPU may take; default 10000")
      ->type_name("MS")
      ->check(CLI::Range(1, 1'000'000'000));
}

/// Options of `app` that mean nothing without a GPU.
void refuseForHost(CLI::App &app, const Options &o, std::initializer_list<const char *> names) {
  if (o.target != "host")
    return;
  for (const char *name : names)
    if (app.count(name) != 0)
      throw CLI::ValidationError(name, "is for GPUs: give --target nvptx or amdgpu as well");
}

/// The same, and how launches of run and test are made there.
void addLaunching(CLI::App &app, Options &o) {
  addDevices(app, o);
  app.add_option("--delay-rank", o.delayRank, "on GPUs, start this rank late, by random times")
      ->type_name("RANK")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--graph", o.graph, "on GPUs, capture launches in graphs and replay those");
  app.final_callback([&app, &o] {
    refuseForHost(app, o, {"--arch", "--devices", "--wait-timeout", "--delay-rank", "--graph"});
  });
}

CLI::Option *addMachine(CLI::App &app, Options &o, const char *about) {
  return app.add_option("--machine", o.machineName, about)->type_name("NAME|FILE.json");
}

/// Where launches are predicted for what is compiled for.
void addPredictedMachine(CLI::App &app, Options &o) {
  addMachine(app, o,
             "whose times the model takes: a machine of the table, or what `dtilec calibrate` has "
             "written; default: the usual one of the architecture");
}

void addCheck(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addDeterministic(*sub, o);
  addChoice<bool>(*sub, "--dump", o.dumpAst, {{"ast", true}}, "print the syntax tree instead");
  sub->add_option("--ranks", o.ranks, "numbers of ranks to check communication for; default 1 to 8")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, kMaxRanks));
  addMachine(*sub, o,
             "where bodies that wait must leave room for those that they wait for; default host, "
             "which has room for all");
  sub->add_option("--kernel", o.kernel, "only this kernel")->type_name("NAME");
  sub->add_option("FILE", o.inputs, "programs, or folders of them; `-` is standard input")
      ->required();
  sub->footer(sub->get_footer() +
              "\n\nExit status: 0 proved, or run without a fault for the ranks and sizes that are "
              "named;\n1 something is wrong; 3 something stays undecided, and is named.");
}

void addIr(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addOptLevel(*sub, o);
  sub->add_option("--pass", o.passes, "passes to run, with options: specialize(W=4),cse")
      ->type_name("PASS,...");
  sub->add_option("--print-after", o.printAfter, "print the IR after a pass, or after `all`")
      ->type_name("PASS")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--print-before", o.printBefore, "print the IR before a pass, or before `all`")
      ->type_name("PASS")
      ->delimiter(',')
      ->allow_extra_args(false);
  addMachine(*sub, o, "whose facts passes for GPUs read; default host");
  sub->add_flag("--verify-each", o.verifyEach, "verify the IR after each pass");
  sub->add_flag("--time-passes", o.timePasses, "print how long each pass took");
  sub->add_flag("--remarks", o.remarks, "print what passes decided");
  sub->add_option("--bisect", o.bisect, "run only the first N optional passes, and say which")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20));
  sub->add_option("--kernel", o.kernel, "only this kernel")->type_name("NAME");
  sub->add_option("FILE", o.inputs, "a program, or IR text (.dtir); `-` is standard input")
      ->required()
      ->expected(1);
}

void addFmt(CLI::App *sub, Options &o) {
  CLI::Option *check =
      sub->add_flag("--check", o.formatCheck, "write nothing; fail when a file is not formatted");
  sub->add_flag("-i,--in-place", o.formatInPlace, "rewrite the files")->excludes(check);
  sub->add_option("FILE", o.inputs, "programs; `-` is standard input; folders with -i or --check")
      ->required();
}

void addImport(CLI::App *sub, Options &o) {
  sub->add_option("-o,--output", o.output, "the program; default: standard output")
      ->type_name("OUT");
  sub->add_option("FILE", o.inputs, "the algorithm; `-` is standard input")
      ->required()
      ->expected(1);
  sub->footer(sub->get_footer() +
              "\n\nThe program is a kernel for the ranks that the file names, with a test. Signals "
              "order what\nthe file orders and nothing else, so `dtilec check` says what the "
              "algorithm is worth.\n\n"
              "Understood: of XML, the steps s, r, cpy, re, rcs, rrc, rrs, rrcs and nop; of plans, "
              "nop, flush,\nbarrier, put, pws, pwsf, get, copy, re, res, rre, rres, ppkt, rppkt, "
              "cpkt, upkt, repkt,\nrespkt, recpkt, recspkt, signal, wait, rlxsignal, rlxwait, "
              "sem_acquire, sem_release\nand pipeline.");
}

void addLsp(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  sub->add_flag_callback("--stdio", [] {}, "what editors add; it is the only way there is");
}

void addTargets(CLI::App &app, Options &o, const char *about) {
  app.add_option_function<std::string>(
         "--target",
         [&o](const std::string &targets) {
           o.target = targets;
           o.hasTarget = true;
         },
         about)
      ->type_name("TARGET,...");
  app.add_option("--arch", o.arch,
                 "architectures of GPUs, as sm_90a or gfx942; default: each target's first")
      ->type_name("ARCH,...");
}

void addTuning(CLI::App &app, Options &o) {
  app.add_option("--tuning", o.tuning, "choices that `dtilec tune` measured")->type_name("FILE");
  app.add_flag("--batch-invariant", o.batchInvariant,
               "the bits of a row do not depend on how many rows there are: all variants add up in "
               "one order, and nothing adds floats in the order of arrival");
}

/// `h200+ib`: a file's name may have a plus.
void splitNetwork(Options &o) {
  if (llvm::StringRef(o.machineName).ends_with(".json"))
    return;
  const auto [machine, network] = llvm::StringRef(o.machineName).rsplit('+');
  const std::string name = machine.str();
  o.network = network.str();
  o.machineName = name;
}

std::string networkNames() {
  std::string names;
  for (const NetworkFacts &network : allNetworks())
    names += (names.empty() ? "" : ", ") + network.name.str();
  return names;
}

void addExplain(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addOptLevel(*sub, o);
  addTargets(*sub, o, "also what was decided for these: host, nvptx, amdgpu");
  sub->add_option("--kernel", o.kernel, "only this kernel")->type_name("NAME");
  addNamed(
      *sub, "--sizes", o.sizes, "NAME=SIZE,...",
      "a launch, by the sizes of its arguments (`--sizes M=4096 --sizes K=512`), its scalars and "
      "its ranks (`W=8`): the times of configurations, and which variant runs")
      ->delimiter(',');
  CLI::Option *simulate = sub->add_flag(
      "--simulate", o.simulate,
      "that launch on many ranks, by the model: its time, what bounds it, and what is exposed");
  sub->add_option("--mesh", o.mesh, "with --simulate: hosts and their ranks, as 8x8; or axes")
      ->type_name("SIZExSIZE...")
      ->needs(simulate);
  CLI::Option *machine =
      addMachine(*sub, o,
                 "whose times the model takes, as for build; with --simulate the network between "
                 "hosts, too: h200+ib; default h200")
          ->type_name("NAME|FILE.json[+NETWORK]");
  machine->description(machine->get_description() + "\nnetworks: " + networkNames());
  sub->add_flag("--all-ranks", o.allRanks,
                "with --simulate: each rank, also where some stand for all")
      ->needs(simulate);
  sub->add_option("--chakra", o.chakra,
                  "with --simulate: write Chakra execution traces into this new folder, with "
                  "ASTRA-sim's inputs")
      ->type_name("FOLDER")
      ->needs(simulate);
  sub->add_flag("--json", o.json, "with --sizes: these times as JSON");
  sub->add_flag("--joined", o.joined,
                "kernels as text, overlaps as the kernels that they are joined to");
  sub->add_option("--svg", o.output,
                  "a picture of what roles read and write, and of the cells that they wait for")
      ->type_name("FILE");
  sub->add_option("--timeline", o.timeline,
                  "with --sizes, --kernel and --target: a picture of when roles and the way to "
                  "other devices are predicted to be busy, and of the bound")
      ->type_name("FILE");
  addTuning(*sub, o);
  CLI::Option *list = sub->add_flag("--list", o.listCodes, "list every diagnostic code");
  sub->add_option("TOPIC", o.inputs,
                  "a code such as E0401, a name such as dot or math.silu, or a program")
      ->expected(1)
      ->excludes(list);
  sub->final_callback([&o] {
    splitNetwork(o);
    if (!o.network.empty() && !o.simulate)
      throw CLI::ValidationError("--machine", "names a network, which is for --simulate");
    if (o.inputs.empty() && !o.listCodes)
      throw CLI::RequiredError("a code or a program is needed", CLI::ExitCodes::RequiredError);
  });
}

void addBuild(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addDeterministic(*sub, o);
  addOptLevel(*sub, o);
  sub->add_option("-o,--output", o.output,
                  "what to write; `-` is standard output. Where code is of one architecture a file "
                  "and --arch has several, out.ptx is out.sm_90a.ptx and so on")
      ->type_name("OUT")
      ->required();
  addPredictedMachine(*sub, o);
  addTargets(*sub, o,
             "what to compile for: host (default), nvptx, amdgpu; several with commas, in one "
             "object");
  sub->add_option("--shmem", o.shmem,
                  "who carries bytes between GPUs: " + backend::gpu::providerNames() +
                      "; p2p is the default")
      ->type_name("PROVIDER");
  const std::vector<std::string> paths = backend::gpu::providerOptions();
  sub->add_option(llvm::join(paths, ","), o.shmemPath, "where that provider's device bitcode is")
      ->type_name("PATH");
  sub->final_callback([&o, paths] {
    if (!o.shmemPath.empty() && o.shmem == "p2p")
      throw CLI::ValidationError(llvm::join(paths, ", "),
                                 "are where a provider other than p2p finds its bitcode; "
                                 "give `--shmem` as well");
  });
  sub->add_option("--variants", o.variants,
                  "of a kernel that leaves constants to the compiler, variants an architecture at "
                  "most; 10")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  sub->add_option("--sizes", o.expectedSizes,
                  "choose variants for these launches (others may be slower), as M=1..8192,N=4096,"
                  "K=64..8192:64,W=8; several with semicolons, or by several --sizes")
      ->type_name("NAME=SIZES,...")
      ->delimiter(';')
      ->allow_extra_args(false);
  addTuning(*sub, o);
  sub->add_flag("--check-requires", o.checkRequires,
                "host code checks what is required of the elements of inputs before each launch: "
                "each is read once, and sorted in a copy for `distinct`");
  sub->add_flag("!--no-assemble", o.assemble, "objects with PTX only, also where ptxas is found");
  addChoice<EmitKind>(*sub, "--emit", o.emit,
                      {{"obj", EmitKind::Object},
                       {"tvm-ffi", EmitKind::TvmFfi},
                       {"asm", EmitKind::Assembly},
                       {"llvm", EmitKind::Llvm},
                       {"ir", EmitKind::Ir},
                       {"header", EmitKind::Header},
                       {"depfile", EmitKind::Depfile},
                       {"ptx", EmitKind::Ptx},
                       {"cubin", EmitKind::Cubin},
                       {"hsaco", EmitKind::Hsaco},
                       {"sass-stats", EmitKind::SassStats}},
                      "what to write to OUT; default obj");
  sub->add_option("--header", o.header, "also write a C header")->type_name("FILE");
  sub->add_option("--depfile", o.depfile, "also write which files were read, for make and ninja")
      ->type_name("FILE");
  sub->add_flag("--trace", o.isTraced,
                "kernels can be traced (dtile_trace_begin); others have no code for that");
  sub->add_flag("--print", o.prints,
                "kernels for GPUs may `print`, which costs time; without it such a kernel is an "
                "error");
  addNamed(*sub, "--file-prefix-map", o.filePrefixes, "OLD=NEW",
           "in what is written, names of files that begin with OLD begin with NEW instead: in "
           "messages of kernels and debug information; NEW may be empty",
           /*mayBeEmpty=*/true);
  sub->add_option("--inputs", o.inputList,
                  "also write, for programs, `+PATH` for each file that was read and `-PATH` where "
                  "an import was looked for in vain, a zero byte behind each")
      ->type_name("FILE");
  sub->add_option("--kernel", o.kernel, "only this kernel")->type_name("NAME");
  sub->add_option("--cpu", o.cpu,
                  "processor: native, or a name that LLVM knows; default x86-64-v3, or generic "
                  "where that is not x86-64")
      ->type_name("CPU");
  sub->add_option("FILE", o.inputs, "a program; `-` is standard input")->required()->expected(1);
}

void addRun(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addDeterministic(*sub, o);
  addOptLevel(*sub, o);
  addExecutor(*sub, o, /*withAll=*/false);
  addLaunching(*sub, o);
  sub->add_option("--kernel", o.kernel, "the kernel; may be left out where there is only one")
      ->type_name("NAME");
  sub->add_option("--ranks", o.ranks, "number of ranks, 1 to 1024; default 1")
      ->type_name("N")
      ->expected(1);
  sub->add_option("--mesh", o.mesh,
                  "ranks by axes of the kernel's mesh, as 2x4; scalars that are sizes of axes need "
                  "no --arg")
      ->type_name("SIZExSIZE...");
  addNamed(*sub, "--arg", o.arguments, "NAME=VALUE",
           "an argument: a .npy file (`@rank` is replaced by the rank) or a number");
  addNamed(*sub, "--out", o.outputs, "NAME=FILE",
           "where to write a result; needs `@rank` where there are several ranks");
  sub->add_option("--repeat", o.repeat, "launch so many times")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  sub->add_flag("--time", o.showTime, "print how long the launches took");
  addTraceOption(*sub, o);
  addWaitGraph(*sub, o, " when a launch cannot go on");
  sub->add_option("FILE", o.inputs, "a program; `-` is standard input")->required()->expected(1);
}

void addTune(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addOptLevel(*sub, o);
  addPredictedMachine(*sub, o);
  addDevices(*sub, o);
  sub->add_option("--kernel", o.kernel, "the kernel; may be left out where there is only one")
      ->type_name("NAME");
  sub->add_option("--sizes", o.launches,
                  "launches to tune for, by the sizes of their arguments: M=512,N=4096,K=4096; "
                  "several with semicolons, or by several --sizes")
      ->type_name("NAME=SIZE,...")
      ->delimiter(';')
      ->allow_extra_args(false);
  addNamed(*sub, "--shape", o.shapes, "NAME=SIZExSIZE",
           "one launch instead, by the shapes of its arguments; may be repeated");
  sub->final_callback([sub, &o] {
    refuseForHost(*sub, o, {"--arch", "--devices", "--wait-timeout"});
    if (o.launches.empty() == o.shapes.empty())
      throw CLI::ValidationError("--sizes, --shape", "one of them says which launches to tune for");
  });
  sub->add_option("--ranks", o.ranks, "number of ranks, 1 to 1024; default 1")
      ->type_name("N")
      ->expected(1);
  addNamed(*sub, "--arg", o.arguments, "NAME=VALUE",
           "an argument where random numbers make no sense: a .npy file (`@rank` is replaced by "
           "the rank) or a number");
  sub->add_option("--seconds", o.seconds, "how long it may take in all; default 60")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  sub->add_flag(
      "--exhaustive", o.exhaustive,
      "measure all configurations in that time, not only those that the model ranks best");
  sub->add_flag("--table", o.table,
                "print all that was measured, the fastest first, beside what the model expects");
  sub->add_option("-o,--output", o.output,
                  "what to write, and to add to where it is there; default standard output")
      ->type_name("FILE");
  sub->add_option("FILE", o.inputs, "a program; `-` is standard input")->required()->expected(1);
}

void addCalibrate(CLI::App *sub, Options &o) {
  addDevices(*sub, o);
  addMachine(*sub, o,
             "the row of the table, or the file, that has what is not measured; default: the usual "
             "one of the architecture");
  sub->add_option("--ranks", o.ranks,
                  "number of ranks; with 2 or more, ways between them are measured, too; default 1")
      ->type_name("N")
      ->expected(1);
  sub->add_option("--seconds", o.seconds, "how long it may take; default 60")
      ->type_name("N")
      ->check(CLI::Range(1, 3600));
  sub->add_option("-o,--output", o.output, "what to write; default standard output")
      ->type_name("FILE.json");
  sub->final_callback(
      [sub, &o] { refuseForHost(*sub, o, {"--arch", "--devices", "--wait-timeout"}); });
  sub->footer(sub->get_footer() +
              "\n\nA table of what was measured goes to standard error. What could not be measured "
              "is named, and\nstays as the table has it. Nothing else should run on the machine "
              "meanwhile.");
}

void addBench(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addOptLevel(*sub, o);
  addPredictedMachine(*sub, o);
  addDevices(*sub, o);
  sub->add_option("--filter", o.filter, "only bench blocks whose name contains this text")
      ->type_name("TEXT");
  sub->add_option("--plot", o.plot, "draw the times of bench blocks against sizes")
      ->type_name("FILE.svg");
  sub->add_option("--ranks", o.ranks, "only these numbers of ranks; default of launches: 1")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--kernel", o.kernel, "the kernel; may be left out where there is only one")
      ->type_name("NAME");
  sub->add_option(
         "--sizes", o.launches,
         "time these launches, not bench blocks: M=512,N=4096,K=4096; several with "
         "semicolons. A search takes ranges: M=1..8192,N=64..8192:64,K=512; default 1..4096")
      ->type_name("NAME=SIZE,...")
      ->delimiter(';')
      ->allow_extra_args(false);
  addNamed(*sub, "--vary", o.vary, "NAME=VALUE,...",
           "a constant with the values that launches are timed with, as L=1,2,4; may be repeated");
  addNamed(*sub, "--arg", o.arguments, "NAME=VALUE",
           "an argument where random numbers make no sense: a .npy file (`@rank` is replaced by "
           "the rank) or a number");
  CLI::Option *search = sub->add_flag("--search", o.search,
                                      "look for launches that take much longer than they should");
  sub->add_option("--factor", o.slowFactor, "so many times as long as it should is slow; default 2")
      ->type_name("X")
      ->check(CLI::Range(1.1, 1e6))
      ->needs(search);
  sub->add_option("--seed", o.seed, "of the random numbers of a search; default 1")
      ->type_name("N")
      ->needs(search);
  sub->add_option("--timings", o.timings, "end a search after so many timings, too")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->needs(search);
  sub->add_option("--seconds", o.seconds, "how long a search may take; default 60")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(search);
  sub->add_flag("--json", o.json, "times of launches as JSON");
  sub->add_option("FILE", o.inputs, "a program, or for bench blocks several, and folders of them")
      ->required();
  sub->final_callback([sub, &o] {
    refuseForHost(*sub, o, {"--arch", "--devices", "--wait-timeout"});
    const bool isOfBlocks = !o.search && o.launches.empty();
    o.bench = isOfBlocks;
    if (isOfBlocks)
      o.command = Command::Test;
    for (const char *name : {"--kernel", "--vary", "--arg", "--json"})
      if (isOfBlocks && sub->count(name) != 0)
        throw CLI::ValidationError(name, "is for --sizes and --search");
    for (const char *name : {"--filter", "--plot"})
      if (!isOfBlocks && sub->count(name) != 0)
        throw CLI::ValidationError(name, "is for bench blocks");
    if (!isOfBlocks && o.inputs.size() != 1)
      throw CLI::ValidationError("FILE", "one program is timed at once");
  });
}

void addTest(CLI::App *sub, Options &o) {
  addSourceOptions(*sub, o);
  addDeterministic(*sub, o);
  addOptLevel(*sub, o);
  addExecutor(*sub, o, /*withAll=*/true);
  addPredictedMachine(*sub, o);
  addLaunching(*sub, o);
  sub->add_option("--ranks", o.ranks, "only these numbers of ranks")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--filter", o.filter, "only tests whose name contains this text")
      ->type_name("TEXT");
  sub->add_option("--explore", o.explore,
                  "interpret in N random schedules, with transfers landing late; the seed of one "
                  "that fails is printed")
      ->type_name("N");
  sub->add_option("--repeat", o.repeat, "run each test so many times, or until it fails")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  sub->add_option("--timeout", o.timeoutSeconds,
                  "end everything, with a message, when one run of a test takes longer; default "
                  "300, and 0 is never")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 1'000'000));
  sub->add_flag("--bench", o.bench, "run bench blocks instead and print a table of times");
  sub->add_option("--plot", o.plot, "draw these times against sizes")
      ->type_name("FILE.svg")
      ->needs("--bench");
  addTraceOption(*sub, o);
  addWaitGraph(*sub, o, " when a launch cannot go on");
  sub->add_option("FILE", o.inputs, "programs, or folders that are searched for .dtile files")
      ->required();
}

void addTrace(CLI::App *sub, Options &o) {
  sub->add_option("--html", o.page,
                  "write a page with the timeline and the summary instead, which needs no network")
      ->type_name("FILE.html");
  sub->add_option("--merge", o.merged,
                  "write one timeline of what the processes of a job have written instead")
      ->type_name("FILE.json")
      ->excludes("--html");
  sub->add_option("FILE", o.inputs,
                  "what `--trace` of run or test has written, or what each process of a job has; "
                  "`-` is standard input")
      ->required();
}

void addTop(CLI::App *sub, Options &o) {
  sub->add_flag(
      "--once", o.once,
      "print once, and do not go on; so it is, too, where standard output is no terminal");
  sub->add_flag("--stragglers", o.stragglers,
                "show which rank, or which way between two, is slower than the others");
  const auto form = [&](const char *name, TopForm form, const char *help) {
    return sub->add_flag_callback(name, [&o, form] { o.topForm = form; }, help);
  };
  form("--json", TopForm::Json, "print once, as JSON");
  form("--prometheus", TopForm::Prometheus, "print once, in the text format of Prometheus")
      ->excludes("--json")
      ->excludes("--stragglers");
  sub->add_option_function<double>(
         "--interval", [&o](double seconds) { o.intervalMs = int(seconds * 1000); },
         "seconds between two looks, and for which --stragglers looks where it prints once; "
         "default 1")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 3600.0));
  addWaitGraph(*sub, o, " now, and nothing else");
  sub->add_option("JOB", o.inputs, "a job's name, or one of its processes; default: all of yours")
      ->expected(0, 1);
}

// What all subcommands have; their own options are added to it.
CLI::App *addCommand(CLI::App &app, Options &o, Command command, const char *name,
                     const char *about, const char *examples) {
  CLI::App *sub = app.add_subcommand(name, about);
  sub->footer(std::string("Example:\n  ") + examples);
  sub->parse_complete_callback([&o, command] { o.command = command; });
  addCommon(*sub, o);
  return sub;
}

// CLI11's words as one lower-case sentence without its full stop.
std::string mistake(const CLI::ParseError &error) {
  std::string text = error.what();
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  while (!text.empty() && (text.back() == '.' || text.back() == ' '))
    text.pop_back();
  if (!text.empty() && (text.size() == 1 || !llvm::isUpper(text[1])))
    text[0] = llvm::toLower(text[0]);
  return text;
}

ExitCode explainMistake(const CLI::App &app, const CLI::ParseError &error,
                        const std::string &firstWord, const Options &options,
                        llvm::raw_ostream &err) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  std::string command = "dtilec";
  for (const CLI::App *sub : app.get_subcommands())
    command += " " + sub->get_name();
  const std::string what = command == "dtilec" && !firstWord.empty() && firstWord[0] != '-'
                               ? "`" + firstWord + "` is not a command"
                               : mistake(error);
  diagnostics.report(SourceLoc{}, diag::bad_command_line, what, command);
  printDiagnostics(diagnostics, options.diagnosticForm, colorMode(options.color), err);
  return ExitCode::Usage;
}

} // namespace

ColorMode colorMode(ColorChoice choice) {
  switch (choice) {
  case ColorChoice::Auto:
    return llvm::sys::Process::StandardErrHasColors() ? ColorMode::Always : ColorMode::Never;
  case ColorChoice::Always:
    return ColorMode::Always;
  case ColorChoice::Never:
    return ColorMode::Never;
  }
  return ColorMode::Never;
}

std::optional<ExitCode> readCommandLine(int argc, const char *const *argv, Options &options,
                                        llvm::raw_ostream &out, llvm::raw_ostream &err) {
  CLI::App app(kAbout, "dtilec");
  try {
    app.require_subcommand(1);
    app.set_version_flag("--version", kVersionText, "print the version and exit");
    app.set_help_flag("-h,--help", "print this help and exit");
    app.footer(kFooter);
#define COMMAND(command, name, about, examples)                                                    \
  add##command(addCommand(app, options, Command::command, name, about, examples), options);
#include "backend/driver/commands.def"
    app.parse(argc, argv);
    // Only the interpreter can be watched, and only its transfers land late.
    const bool isInterpreted = options.sanitize || options.explore != 0;
    if (isInterpreted && options.executor == ExecutorKind::Host)
      options.executor = ExecutorKind::Interpreter;
    const bool isOnHost = options.executor != ExecutorKind::Interpreter && options.target == "host";
    if (!options.trace.empty() && options.executor == ExecutorKind::Interpreter)
      throw CLI::ValidationError("--trace",
                                 "is for compiled kernels, which the interpreter does not "
                                 "run");
    if (!options.waitGraph.empty() && !isOnHost)
      throw CLI::ValidationError("--wait-graph",
                                 "is for compiled kernels on this machine's processors");
  } catch (const CLI::CallForVersion &) {
    out << kVersionText << '\n';
    return ExitCode::Ok;
  } catch (const CLI::CallForHelp &) {
    const auto subs = app.get_subcommands();
    out << (subs.empty() ? app.help() : subs.front()->help("dtilec"));
    return ExitCode::Ok;
  } catch (const CLI::ParseError &error) {
    return explainMistake(app, error, argc > 1 ? argv[1] : "", options, err);
  } catch (const std::exception &error) {
    err << "dtilec: internal error: " << error.what() << '\n';
    return ExitCode::Failed;
  }
  return std::nullopt;
}

} // namespace dtile::driver
