// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes as IR text: they are read or refused with a message. What is read prints to text that
// reads to the same; what is well-formed stays so through every simplifying pass.
#include "frontend/base/check.h"
#include "ir/core/text_format.h"
#include "ir/transform/pass_manager.h"

#include <cstdint>

using namespace dtile;

namespace {

/// Passes that work on any well-formed module.
constexpr passes::PassInfo kPasses[] = {
    {"inline", passes::inlineCalls, passes::PassKind::Lower, ""},
    {"specialize", passes::specialize, passes::PassKind::Simplify, ""},
    {"canonicalize", passes::canonicalize, passes::PassKind::Canonicalize, ""},
    {"cse", passes::eliminateCommonSubexpressions, passes::PassKind::Simplify, ""},
    {"licm", passes::hoistInvariants, passes::PassKind::Simplify, ""},
    {"dce", passes::eliminateDeadCode, passes::PassKind::Simplify, ""},
};
constexpr llvm::StringRef kPipeline =
    "inline,specialize(W=4 dim.0.0=64),cse,canonicalize,licm,cse,dce,canonicalize,dce";

std::string printed(ir::Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  ir::print(module, os);
  return text;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  ir::TypeContext types;
  const FileId file =
      sources.add("fuzz.dtir", std::string(reinterpret_cast<const char *>(data), size));
  const std::unique_ptr<ir::Module> module = ir::parseModule(file, sources, types, diagnostics);
  DTILE_CHECK((module == nullptr) == diagnostics.hasErrors(), "refused without a message");
  if (!module)
    return 0;

  const std::string text = printed(*module);
  const FileId again = sources.add("again.dtir", text);
  const std::unique_ptr<ir::Module> copy = ir::parseModule(again, sources, types, diagnostics);
  DTILE_CHECK(copy && printed(*copy) == text, "printed IR does not read to the same");

  if (!ir::verify(*module).empty())
    return 0;
  const std::optional<passes::Pipeline> pipeline =
      passes::parsePipeline(kPipeline, kPasses, diagnostics);
  passes::PassContext context(diagnostics);
  passes::PassManager manager({.verifyEach = true});
  DTILE_CHECK(pipeline && manager.run(*module, *pipeline, context), "a pass broke the module");
  return 0;
}
