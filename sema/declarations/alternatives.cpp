// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signatures are compared as they are written: names, element types and shapes of the parameters
// are the same, so that one call serves all alternatives. Modes are the same, too, or the declared
// one is the stronger.
#include "sema/declarations/alternatives.h"

#include "frontend/ast/ast.h"
#include "frontend/ast/source_printer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace dtile::sema {

namespace {

llvm::SmallVector<const ast::Param *, 8> passed(const ast::KernelDecl &kernel) {
  llvm::SmallVector<const ast::Param *, 8> found;
  for (const ast::Param &param : kernel.params)
    if (isPassed(param))
      found.push_back(&param);
  return found;
}

/// Whether what callers pass with one mode is enough for another: symmetric memory is memory, too.
bool serves(ast::ParamMode passed, ast::ParamMode wanted) {
  return passed == wanted ||
         (passed == ast::ParamMode::Symm && wanted != ast::ParamMode::ScratchSymm);
}

class AlternativeCheck {
public:
  AlternativeCheck(Context &context, const ast::KernelDecl &kernel)
      : context_(context), kernel_(kernel) {}

  bool check(const ast::Ident &name, const ast::KernelDecl &alternative, bool isFirst) {
    if (const std::string why = difference(alternative, isFirst); !why.empty())
      context_.report(name.range, diag::alternative_differs, name.name, kernel_.name.name, why)
          .note(alternative.name.range, diag::note_declared_here, name.name);
    else if (alternative.ensures.empty())
      context_.report(name.range, diag::alternative_without_ensures, name.name, kernel_.name.name)
          .note(alternative.name.range, diag::note_declared_here, name.name);
    else
      return ensuresTheSame(name, alternative);
    return false;
  }

private:
  /// In the same words: nothing else says that they compute it.
  bool ensuresTheSame(const ast::Ident &name, const ast::KernelDecl &alternative) {
    if (!first_)
      first_ = &alternative;
    for (const ast::KernelDecl *one : {first_, &alternative}) {
      const ast::KernelDecl *other = one == first_ ? &alternative : first_;
      for (const ast::ExpectStmt *promise : one->ensures) {
        const auto isSame = [&](const ast::ExpectStmt *its) {
          return textOf(its->condition) == textOf(promise->condition);
        };
        if (llvm::any_of(other->ensures, isSame))
          continue;
        context_
            .report(name.range, diag::alternative_differs, name.name, kernel_.name.name,
                    "only `" + one->name.name.str() + "` ensures `" + textOf(promise->condition) +
                        "`; alternatives ensure the same, in the same words")
            .note(other->name.range, diag::note_declared_here, other->name.name);
        return false;
      }
    }
    return true;
  }

  /// Without spaces.
  [[nodiscard]] std::string written(SourceRange range) const {
    std::string text;
    for (const char c : context_.sources.text(range))
      if (!llvm::isSpace(c))
        text += c;
    return text;
  }
  [[nodiscard]] std::string typeOf(const ast::Param &param) const {
    return param.type ? written(param.type->range) : "";
  }

  [[nodiscard]] std::string defaultOf(const ast::Param &param) const {
    return param.init ? "`" + written(param.init->range) + "`" : "none";
  }

  /// In words; empty where one call serves both.
  [[nodiscard]] std::string difference(const ast::KernelDecl &other, bool isFirst) const {
    const auto ours = passed(kernel_), theirs = passed(other);
    for (const ast::Param *param : theirs)
      if (llvm::none_of(ours, [&](const auto *one) { return one->name.name == param->name.name; }))
        return "its parameter `" + param->name.name.str() + "` is not declared here";
    for (auto [i, param] : llvm::enumerate(ours)) {
      if (i >= theirs.size() || theirs[i]->name.name != param->name.name)
        return "parameter " + std::to_string(i + 1) + " is `" + param->name.name.str() +
               "` here, and " +
               (i < theirs.size() ? "`" + theirs[i]->name.name.str() + "`" : std::string("none")) +
               " there";
      if (typeOf(*param) != typeOf(*theirs[i]))
        return "`" + param->name.name.str() + "` is `" + typeOf(*param) + "` here, and `" +
               typeOf(*theirs[i]) + "` there";
      if (defaultOf(*param) != defaultOf(*theirs[i]))
        return "the default value of `" + param->name.name.str() + "` is " + defaultOf(*param) +
               " here, and " + defaultOf(*theirs[i]) + " there";
      const bool isServed = serves(param->mode, theirs[i]->mode);
      // Headers, Python and hosts know a name by the first alternative.
      if (!isServed || (isFirst && param->mode != theirs[i]->mode))
        return "`" + param->name.name.str() + "` is `" + ast::spelling(param->mode).str() +
               "` here, and `" + ast::spelling(theirs[i]->mode).str() + "` there" +
               (isServed ? "; only later alternatives may be content with less" : "");
    }
    return differenceOfGenerics(other);
  }

  [[nodiscard]] std::string differenceOfGenerics(const ast::KernelDecl &other) const {
    const auto has = [](const ast::KernelDecl &kernel, llvm::StringRef name) {
      return llvm::any_of(kernel.generics,
                          [&](const ast::GenericParam &one) { return one.name.name == name; });
    };
    for (const ast::GenericParam &generic : kernel_.generics)
      if (!has(other, generic.name.name))
        return "it has no compile-time parameter `" + generic.name.name.str() + "`";
    for (const ast::GenericParam &generic : other.generics)
      if (!generic.defaultValue && !has(kernel_, generic.name.name))
        return "its compile-time parameter `" + generic.name.name.str() +
               "` has no default and is not declared here";
    return "";
  }

  Context &context_;
  const ast::KernelDecl &kernel_;
  const ast::KernelDecl *first_ = nullptr;
};

/// Null where the name is no kernel with a body.
const ast::KernelDecl *kernelNamed(const ModuleInfo &home, llvm::StringRef name) {
  const auto found = home.names.find(name);
  if (found == home.names.end() || found->second.kind != Symbol::Kind::Kernel)
    return nullptr;
  const auto *kernel = llvm::cast<ast::KernelDecl>(found->second.decl);
  return kernel->alternatives.empty() ? kernel : nullptr;
}

} // namespace

bool isPassed(const ast::Param &param) {
  return param.mode != ast::ParamMode::ScratchSymm &&
         (param.type == nullptr || param.type->name.name != "signal");
}

std::string promisesOf(llvm::ArrayRef<ast::ExpectStmt *> ensures) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const ast::ExpectStmt *one : ensures) {
    os << (text.empty() ? "" : ", ");
    ast::printSource(one->condition, os);
  }
  return text;
}

std::string differenceOfJoined(const ast::KernelDecl &first, const ast::KernelDecl &other) {
  const auto ours = passed(first), theirs = passed(other);
  const auto text = [](const ast::Param &param) {
    std::string written = param.name.name.str() + ": " + ast::spelling(param.mode).str();
    llvm::raw_string_ostream os(written);
    if (param.type != nullptr) {
      os << ' ' << param.type->name.name;
      for (const ast::Expr *size : param.type->shape) {
        os << (size == param.type->shape.front() ? "[" : ", ");
        ast::printSource(size, os);
      }
      os << (param.type->shape.empty() ? "" : "]");
    }
    return written;
  };
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string here = i < ours.size() ? text(*ours[i]) : "no more parameters";
    const std::string there = i < theirs.size() ? text(*theirs[i]) : "no more parameters";
    if (here != there)
      return "it has `" + there + "` where the first has `" + here + "`";
  }
  if (const std::string here = promisesOf(first.ensures), there = promisesOf(other.ensures);
      here != there)
    return "it ensures `" + there + "`, and the first `" + here + "`";
  return "";
}

bool checkAlternative(Context &context, const ast::KernelDecl &kernel, const ast::Ident &name,
                      const ast::KernelDecl &alternative) {
  return AlternativeCheck(context, kernel).check(name, alternative, /*isFirst=*/false);
}

llvm::SmallVector<const ast::KernelDecl *, 4> alternativesOf(const ModuleInfo &home,
                                                             const ast::KernelDecl &kernel) {
  llvm::SmallVector<const ast::KernelDecl *, 4> found;
  for (const ast::Ident &name : kernel.alternatives)
    if (const ast::KernelDecl *one = kernelNamed(home, name.name))
      found.push_back(one);
  return found;
}

void checkAlternatives(Context &context, const ModuleInfo &home, const ast::KernelDecl &kernel) {
  AlternativeCheck check(context, kernel);
  for (auto [i, name] : llvm::enumerate(kernel.alternatives)) {
    if (llvm::any_of(kernel.alternatives.take_front(i),
                     [&](const ast::Ident &other) { return other.name == name.name; }))
      context.report(name.range, diag::repeated_alternative, name.name, kernel.name.name);
    else if (const ast::KernelDecl *alternative = kernelNamed(home, name.name))
      check.check(name, *alternative, /*isFirst=*/i == 0);
    else
      context.report(name.range, diag::unknown_alternative, name.name, kernel.name.name);
  }
}

} // namespace dtile::sema
