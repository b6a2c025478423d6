// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says names of one file in another: `helper` may be `lib.helper` there.
#include "sema/declarations/homes.h"

namespace dtile::sema {

namespace {

// In `ensures`, what is called like a kernel or a plan is a test function.
bool isNamedInBodies(Symbol::Kind kind) {
  return kind == Symbol::Kind::Const || kind == Symbol::Kind::Fn || kind == Symbol::Kind::Module;
}

// What `module` is called in another; it gets a name there if it has none.
llvm::StringRef aliasOf(Context &context, ModuleInfo &module, ModuleInfo &in,
                        llvm::StringRef wanted) {
  for (auto &entry : in.names)
    if (entry.second.kind == Symbol::Kind::Module && entry.second.module == &module)
      return entry.first();
  std::string name = wanted.str();
  for (unsigned i = 2; in.names.contains(name); ++i)
    name = (wanted + "_" + llvm::Twine(i)).str();
  Symbol symbol;
  symbol.kind = Symbol::Kind::Module;
  symbol.module = &module;
  symbol.name = context.arena.copy(llvm::StringRef(name));
  symbol.used = true;
  return in.names.try_emplace(symbol.name, symbol).first->first();
}

} // namespace

join::Home homeOf(Context &context, ModuleInfo &from, ModuleInfo &to) {
  return {[&context, &from, &to](llvm::StringRef name, SourceRange at) -> ast::Expr * {
    const auto found = from.names.find(name);
    if (found == from.names.end() || !isNamedInBodies(found->second.kind))
      return nullptr;
    auto *plain = context.arena.make<ast::NameExpr>(at);
    plain->name = name;
    if (&from == &to)
      return plain;
    if (found->second.kind == Symbol::Kind::Module) {
      if (found->second.module != nullptr)
        plain->name = aliasOf(context, *found->second.module, to, name);
      return plain;
    }
    plain->name =
        aliasOf(context, from, to, llvm::StringRef(from.path).rsplit('/').second.split('.').first);
    auto *member = context.arena.make<ast::MemberExpr>(at);
    member->base = plain;
    member->member = {found->second.name, at};
    return member;
  }};
}

} // namespace dtile::sema
