// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Line tables from the positions of ops. Paths are kept as the user gave them, so that output does
// not depend on where it was built.
#include "backend/llvm/debug_info.h"

#include "llvm/IR/Module.h"

namespace dtile::backend {

DebugInfo::DebugInfo(llvm::Module &module, const SourceManager *sources)
    : builder_(module), sources_(sources) {
  if (!sources_)
    return;
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  module.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
}

llvm::DIFile *DebugInfo::file(llvm::StringRef name) { return builder_.createFile(name, "."); }

void DebugInfo::describe(llvm::Function &function, const ir::Op &op) {
  if (!sources_ || !op.loc().isValid())
    return;
  PresumedLoc at = sources_->presumed(op.loc());
  llvm::DIFile *where = file(at.file);
  // PTX with more than lines would be assembled without optimization.
  const bool isPtx = function.getParent()->getTargetTriple().isNVPTX();
  if (!unit_)
    unit_ = builder_.createCompileUnit(llvm::dwarf::DW_LANG_C99, where, "dtilec",
                                       /*isOptimized=*/true, "", 0, "",
                                       isPtx ? llvm::DICompileUnit::DebugDirectivesOnly
                                             : llvm::DICompileUnit::LineTablesOnly);
  llvm::DISubroutineType *type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  function.setSubprogram(builder_.createFunction(
      where, function.getName(), function.getName(), where, at.line, type, at.line,
      llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition));
}

void DebugInfo::moveTo(llvm::IRBuilder<> &builder, const ir::Op &op) {
  llvm::DISubprogram *function = builder.GetInsertBlock()->getParent()->getSubprogram();
  if (!function || !op.loc().isValid())
    return;
  PresumedLoc at = sources_->presumed(op.loc());
  llvm::DIScope *scope = function;
  // Inlined code may come from another file.
  if (at.file != function->getFile()->getFilename())
    scope = builder_.createLexicalBlockFile(function, file(at.file));
  builder.SetCurrentDebugLocation(
      llvm::DILocation::get(builder.getContext(), at.line, at.column, scope));
}

void DebugInfo::finish() {
  if (unit_)
    builder_.finalize();
}

} // namespace dtile::backend
