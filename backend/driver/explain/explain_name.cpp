// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Built-in functions come from the tables that sema has, and library ones from their own files.
#include "backend/driver/explain/explain_name.h"

#include "backend/driver/stdlib_files.h"
#include "frontend/ast/ast.h"
#include "frontend/parse/parser.h"

namespace dtile::driver {

namespace {

struct Row {
  llvm::StringLiteral name;
  llvm::StringLiteral signature;
  llvm::StringLiteral doc;
};

constexpr Row kCalls[] = {
#define CALL(HANDLER, NAME, SIGNATURE, DOC) {NAME, SIGNATURE, DOC},
#include "sema/calls/calls.def"
};

constexpr Row kTestFunctions[] = {
#define TEST_BUILTIN(ID, NAME, SIGNATURE, DOC) {NAME, SIGNATURE, DOC},
#include "sema/declarations/test_builtins.def"
};

bool explainRows(llvm::ArrayRef<Row> rows, llvm::StringRef name, llvm::StringRef where) {
  bool found = false;
  for (const Row &row : rows) {
    if (row.name != name)
      continue;
    llvm::outs() << row.name << row.signature << "    " << where << '\n'
                 << "    " << row.doc << "\n\n";
    found = true;
  }
  return found;
}

/// The declaration as far as its body.
llvm::StringRef headOf(llvm::StringRef text) {
  const size_t body = text.find_first_of("{;");
  return text.take_front(body == llvm::StringRef::npos ? text.size() : body).rtrim();
}

/// Where to look for it: the instructions of an `extern fn` stand before its body.
SourceRange headRange(const ast::FnDecl &fn) {
  const bool isPlain = fn.instructions.empty() || fn.results.empty();
  return {fn.range.begin, isPlain ? fn.range.end : fn.results.back()->range.end};
}

class LibraryFinder {
public:
  explicit LibraryFinder(Session &session) : session_(session) {}

  bool find(llvm::StringRef wanted) {
    for (const EmbeddedFile &file : stdlibFiles()) {
      llvm::StringRef module = file.name;
      module.consume_back(".dtile");
      module = module.rsplit('/').second.empty() ? module : module.rsplit('/').second;
      llvm::StringRef name = wanted;
      if (name.contains('.') && (!name.consume_front(module) || !name.consume_front(".")))
        continue;
      const FileId id = session_.sources.add("<stdlib>/" + file.name.str(), file.text.str());
      show(id, module, name, wanted == module);
    }
    return found_;
  }

private:
  void show(FileId file, llvm::StringRef module, llvm::StringRef name, bool isModule) {
    ast::Arena arena;
    const ast::Module *tree = parse::parse(file, session_.sources, arena, session_.diagnostics);
    if (isModule)
      print("module " + module.str(), tree->doc);
    for (const ast::Decl *decl : tree->decls) {
      if (const auto *fn = llvm::dyn_cast<ast::FnDecl>(decl))
        showOne(fn->name, fn->doc, headRange(*fn), module, name, isModule);
      else if (const auto *kernel = llvm::dyn_cast<ast::KernelDecl>(decl))
        showOne(kernel->name, kernel->doc, kernel->range, module, name, isModule);
      else if (const auto *plan = llvm::dyn_cast<ast::PlanDecl>(decl))
        showOne(plan->name, plan->doc, plan->range, module, name, isModule);
    }
  }

  /// Of a module all that is documented, else what is called `name`.
  void showOne(const ast::Ident &declared, llvm::StringRef doc, SourceRange range,
               llvm::StringRef module, llvm::StringRef name, bool isModule) {
    if (doc.empty() || (!isModule && declared.name != name))
      return;
    const llvm::StringRef head = headOf(session_.sources.text(range));
    print(head.str() + (isModule ? "" : "    of module " + module.str()), doc);
  }

  void print(const std::string &head, llvm::StringRef doc) {
    found_ = true;
    llvm::outs() << head << '\n';
    llvm::SmallVector<llvm::StringRef, 4> lines;
    doc.split(lines, '\n');
    for (llvm::StringRef line : lines)
      llvm::outs() << "    " << line << '\n';
    llvm::outs() << '\n';
  }

  Session &session_;
  bool found_ = false;
};

} // namespace

bool explainName(Session &session, llvm::StringRef name) {
  const bool isBuiltin = explainRows(kCalls, name, "in kernels and functions");
  const bool isInTests = explainRows(kTestFunctions, name, "in tests");
  return LibraryFinder(session).find(name) || isBuiltin || isInTests;
}

} // namespace dtile::driver
