// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels one at a time, so that the first verdict does not wait for the last; and the counts that
// waits have, in the words of the program.
#include "backend/driver/lsp/lsp_proofs.h"

#include "backend/driver/check/check_kernels.h"
#include "backend/driver/compile.h"
#include "ir/analysis/algebra/polynomial.h"
#include "ir/analysis/communication.h"
#include "ir/core/attributes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace dtile::driver {

namespace {

/// Derived counts in the names that a kernel has for its sizes.
class CountText {
public:
  explicit CountText(ir::Op &kernel) {
    for (ir::Op &op : kernel.body().ops())
      if (op.is(ir::OpKind::LaunchDim) && !op.result()->nameHint().empty())
        names_["dim" + std::to_string(op.get(ir::attr::param)) + "." +
               std::to_string(op.get(ir::attr::dim))] = op.result()->nameHint().str();
  }

  /// How many notifies a wait waits for at each cell; empty where that is not said in a few words.
  std::string of(ir::Op &wait) {
    ir::Op *signal = ir::objectOf(wait.operand(0));
    // With a second operand the program says the count itself.
    if (!signal || !signal->is(ir::OpKind::SignalParam) || wait.numOperands() > 1)
      return "";
    const ir::Op *yield = signal->body().terminator();
    if (!yield || yield->numOperands() == 0)
      return "";
    const ir::Polynomial count = polynomials_.of(yield->operand(0), environment_);
    if (const std::optional<int64_t> number = count.constant())
      return std::to_string(*number);
    return named(polynomials_.str(count));
  }

private:
  /// Empty where a part has no name in the program.
  std::string named(llvm::StringRef text) const {
    constexpr size_t kMaxLength = 60;
    std::string result;
    while (!text.empty()) {
      const size_t length =
          text.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }).size();
      const llvm::StringRef word = text.take_front(std::max<size_t>(length, 1));
      text = text.drop_front(word.size());
      llvm::StringRef digits = word;
      const bool isOpaque = (digits.consume_front("x") || digits.consume_front("v")) &&
                            !digits.empty() && llvm::all_of(digits, llvm::isDigit);
      const auto name = names_.find(word.str());
      if (isOpaque || (name == names_.end() && word.contains('.')))
        return "";
      result += name == names_.end() ? word.str() : name->second;
    }
    return result.size() > kMaxLength ? "" : result;
  }

  ir::Polynomials polynomials_;
  ir::Polynomials::Environment environment_;
  std::map<std::string, std::string> names_;
};

void addHints(ir::Module &module, lsp::KernelProof &proof) {
  for (ir::Op &kernel : module.body().ops()) {
    if (!kernel.is(ir::OpKind::Kernel))
      continue;
    CountText text(kernel);
    ir::walk(kernel, [&](ir::Op &op) {
      if (!op.is(ir::OpKind::Wait) || !op.loc().isValid())
        return;
      const std::string count = text.of(op);
      if (!count.empty())
        proof.waits.push_back({op.loc(), count});
    });
  }
}

/// `proved for all W and all sizes; …`, without the kernel's name.
void setTitle(lsp::KernelProof &proof, const protocol::Verdict &verdict) {
  const std::string text = protocol::verdictText(verdict);
  llvm::StringRef title = llvm::StringRef(text).split('\n').first;
  title.consume_front("`" + verdict.kernel + "`: ");
  proof.title = title.str();
  proof.details = text;
}

} // namespace

void proveKernels(const lsp::Analysis &analysis, uint64_t work, lsp::ProofSink sink) {
  sema::Program &program = *analysis.program;
  const SourceManager &sources = analysis.sources;
  std::vector<const ast::KernelDecl *> kernels = program.kernels().vec();
  // Whoever edits a kernel looks at it.
  std::stable_partition(kernels.begin(), kernels.end(), [&](const ast::KernelDecl *kernel) {
    return kernel->range.begin <= analysis.lastEdit && analysis.lastEdit <= kernel->range.end;
  });
  for (const ast::KernelDecl *kernel : kernels) {
    lsp::KernelProof proof;
    proof.place = kernel->name.range;
    Diagnostics diagnostics(sources);
    const CheckedKernel checked = instantiateAlone(program, *kernel, {}, sources);
    if (!checked.instance) {
      proof.title = "not checked: it needs values of its generics";
      sink(proof, diagnostics);
      continue;
    }
    LoweredModule lowered = lowerInstances(sources, program, {checked.instance});
    protocol::CheckOptions checks;
    checks.isQuick = true;
    checks.work = work;
    const auto verdict = checkInstance(lowered, *checked.instance, sources, checks, diagnostics);
    if (verdict) {
      std::mutex isInUse;
      const OtherValues other = OtherValuesCheck(program, checked, sources, checks, isInUse)
                                    .finish(*verdict, diagnostics);
      const protocol::Verdict &known = other.instance ? other.verdict : *verdict;
      setTitle(proof, known);
      if (other.instance)
        proof.details += "  with " + choicesText(program, checked, *other.instance) + "\n";
      reportVerdict(diagnostics, known);
    } else {
      proof.title = "refused";
    }
    addHints(*lowered.module, proof);
    diagnostics.sortAndUnique();
    sink(proof, diagnostics);
  }
}

} // namespace dtile::driver
