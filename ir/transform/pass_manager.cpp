// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs passes by name, and finds the culprit when one breaks the module.
#include "ir/transform/pass_manager.h"

#include "frontend/base/check.h"
#include "ir/core/text_format.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <chrono>

namespace dtile::passes {

namespace {

bool isNamed(const std::vector<std::string> &names, llvm::StringRef pass) {
  return llvm::any_of(names, [&](const std::string &n) { return n == "all" || n == pass; });
}

/// Sets a step's options for as long as it runs.
class OptionScope {
public:
  OptionScope(PassContext &context, const PassStep &step)
      : context_(context), outer_(context.options), outerPass_(context.running) {
    for (const auto &[name, value] : step.options)
      context.options[name] = value;
    context.running = step.pass->name.str();
  }
  ~OptionScope() {
    context_.options = std::move(outer_);
    context_.running = std::move(outerPass_);
  }
  OptionScope(const OptionScope &) = delete;
  OptionScope &operator=(const OptionScope &) = delete;

private:
  PassContext &context_;
  llvm::StringMap<int64_t> outer_;
  std::string outerPass_;
};

/// The end of the pass that starts `text`: the comma outside of parentheses.
size_t endOfStep(llvm::StringRef text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(')
      ++depth;
    else if (text[i] == ')')
      --depth;
    else if (text[i] == ',' && depth <= 0)
      return i;
  }
  return text.size();
}

bool parseOptions(llvm::StringRef text, PassStep &step, Diagnostics &diagnostics) {
  llvm::SmallVector<llvm::StringRef, 8> options;
  llvm::SplitString(text, options, ", ");
  for (const llvm::StringRef option : options) {
    const auto [name, value] = option.split('=');
    int64_t number = 0;
    if (name.empty() || value.getAsInteger(10, number)) {
      diagnostics.report(SourceRange{}, diag::ir_bad_pass_option, option);
      return false;
    }
    step.options.emplace_back(name.str(), number);
  }
  return true;
}

} // namespace

std::optional<Pipeline> parsePipeline(llvm::StringRef text, llvm::ArrayRef<PassInfo> registry,
                                      Diagnostics &diagnostics) {
  Pipeline pipeline;
  while (!text.trim().empty()) {
    const size_t end = endOfStep(text);
    llvm::StringRef step = text.take_front(end).trim();
    text = text.drop_front(std::min(end + 1, text.size()));
    llvm::StringRef options;
    if (step.ends_with(")"))
      std::tie(step, options) = step.drop_back().split('(');

    const PassInfo *pass =
        llvm::find_if(registry, [&](const PassInfo &info) { return info.name == step.trim(); });
    if (pass == registry.end()) {
      diagnostics.report(SourceRange{}, diag::ir_unknown_pass, step);
      return std::nullopt;
    }
    pipeline.push_back({pass});
    if (!parseOptions(options, pipeline.back(), diagnostics))
      return std::nullopt;
  }
  return pipeline;
}

bool PassManager::isSkippedByBisect(const PassInfo &pass) {
  const bool mustRun = pass.kind == PassKind::Lower || pass.kind == PassKind::Check;
  if (!options_.bisect || mustRun)
    return false;
  const bool skipped = ++counted_ > *options_.bisect;
  out() << "bisect: " << (skipped ? "not running" : "running") << " pass " << counted_ << ", `"
        << pass.name << "`\n";
  return skipped;
}

void PassManager::print(ir::Module &module, llvm::StringRef when, llvm::StringRef pass) {
  out() << "// ---- " << when << ' ' << pass << " ----\n";
  ir::print(module, out());
}

bool PassManager::check(ir::Module &module, llvm::StringRef pass, const std::string &before,
                        PassContext &context) {
  const std::vector<std::string> violations = ir::verify(module);
  if (violations.empty())
    return true;
  context.diagnostics.report(SourceRange{}, diag::ir_pass_broke, pass);
  out() << "the IR is not well-formed after pass `" << pass << "`:\n";
  for (const std::string &violation : violations)
    out() << "  " << violation << '\n';
  if (!before.empty())
    out() << "// ---- before " << pass << " ----\n" << before;
  return false;
}

bool PassManager::runStep(ir::Module &module, const PassStep &step, PassContext &context) {
  const PassInfo &pass = *step.pass;
  if (isSkippedByBisect(pass))
    return true;
  if (isNamed(options_.printBefore, pass.name))
    print(module, "before", pass.name);
  std::string before;
  if (options_.verifyEach) {
    llvm::raw_string_ostream os(before);
    ir::print(module, os);
  }

  const PhaseScope phase(pass.name);
  const OptionScope scope(context, step);
  const unsigned errors = context.diagnostics.errorCount();
  const auto start = std::chrono::steady_clock::now();
  pass.run(module, context);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  times_.push_back({pass.name, taken.count()});

  if (isNamed(options_.printAfter, pass.name))
    print(module, "after", pass.name);
  if (options_.verifyEach && !check(module, pass.name, before, context))
    return false;
  return context.diagnostics.errorCount() == errors;
}

bool PassManager::checkPrinted(const Pipeline &pipeline, PassContext &context) const {
  for (const auto *names : {&options_.printBefore, &options_.printAfter})
    for (const std::string &name : *names) {
      const auto isIt = [&](const PassStep &step) { return step.pass->name == name; };
      if (name == "all" || llvm::any_of(pipeline, isIt))
        continue;
      context.diagnostics.report(SourceRange{}, diag::ir_pass_not_run, name);
      return false;
    }
  return true;
}

void PassManager::printTimes() {
  double total = 0;
  out() << "  seconds  pass\n";
  for (const Time &time : times_) {
    out() << llvm::format("%9.6f", time.seconds) << "  " << time.pass << '\n';
    total += time.seconds;
  }
  out() << llvm::format("%9.6f", total) << "  total\n";
}

bool PassManager::run(ir::Module &module, const Pipeline &pipeline, PassContext &context) {
  times_.clear();
  counted_ = 0;
  bool ok = checkPrinted(pipeline, context);
  for (const PassStep &step : pipeline) {
    if (!ok)
      break;
    ok = runStep(module, step, context);
  }
  if (options_.timePasses)
    printTimes();
  // With verifyEach the last pass has been checked, by name.
  if (ok && !options_.verifyEach && !pipeline.empty())
    ok = check(module, pipeline.back().pass->name, "", context);
  return ok;
}

} // namespace dtile::passes
