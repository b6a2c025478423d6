// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes documents in turn.
#include "editors/lsp/proof_queue.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile::lsp {

namespace json = llvm::json;

void ProofQueue::add(const std::string &path, std::shared_ptr<const Analysis> analysis) {
  remove(path);
  if (!prover_.canProve() || !options_.areWanted || !analysis->program ||
      analysis->diagnostics.hasErrors() || analysis->program->kernels().empty())
    return;
  entries_[path] = {std::move(analysis), Clock::now() + options_.delay, false, {}};
}

void ProofQueue::remove(const std::string &path) {
  if (prover_.isRunning() && prover_.document() == path)
    prover_.cancel();
  entries_.erase(path);
}

std::map<std::string, ProofQueue::Entry>::const_iterator ProofQueue::next() const {
  auto first = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (!it->second.hasBegun && (first == entries_.end() || it->second.due < first->second.due))
      first = it;
  return first;
}

std::string ProofQueue::advance() {
  if (prover_.isRunning()) {
    const std::string document = prover_.document();
    if (prover_.poll(entries_.at(document).proofs))
      return document;
  }
  const auto first = next();
  if (prover_.isRunning() || first == entries_.end() || first->second.due > Clock::now())
    return "";
  Entry &entry = entries_.at(first->first);
  entry.hasBegun = true;
  entry.proofs.hasFailed = !prover_.start(first->first, entry.analysis, options_.work);
  return entry.proofs.hasFailed ? first->first : "";
}

int ProofQueue::millisecondsLeft() const {
  // What runs tells when it has something, and the next begins when it has ended.
  const auto first = next();
  if (prover_.isRunning() || first == entries_.end())
    return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first->second.due - Clock::now());
  return int(std::max<int64_t>(left.count(), 0));
}

const Proofs *ProofQueue::of(const std::string &path, const Analysis &analysis) const {
  const auto it = entries_.find(path);
  return it != entries_.end() && it->second.analysis.get() == &analysis ? &it->second.proofs
                                                                        : nullptr;
}

json::Value ProofQueue::lenses(const std::string &path, const Analysis &analysis) const {
  json::Array result;
  const Proofs *known = of(path, analysis);
  if (!known)
    return result;
  result = known->lenses;
  const auto isThere = [&](const json::Value &range) {
    return llvm::any_of(result, [&](const json::Value &lens) {
      return *lens.getAsObject()->get("range") == range;
    });
  };
  for (const ast::KernelDecl *kernel : analysis.program->kernels()) {
    const json::Value range = analysis.range(kernel->name.range);
    if (!analysis.isInRoot(kernel->name.range.begin) || isThere(range))
      continue;
    const llvm::StringRef title = known->hasFailed    ? "not checked: the check failed"
                                  : known->isComplete ? "not checked"
                                                      : "checking …";
    result.push_back(json::Object{{"range", range},
                                  {"command", json::Object{{"title", title}, {"command", ""}}}});
  }
  return result;
}

} // namespace dtile::lsp
