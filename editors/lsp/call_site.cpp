// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads backwards from a position to the bracket that is open there.
#include "editors/lsp/call_site.h"

#include "llvm/ADT/StringExtras.h"

namespace dtile::lsp {

namespace {

using sema::Definition;

// A call whose arguments are longer is not looked for.
constexpr size_t kMaxCallBytes = 8192;

bool isWordByte(char c) { return llvm::isAlnum(c) || c == '_'; }

llvm::StringRef lastWord(llvm::StringRef text) {
  size_t begin = text.size();
  while (begin > 0 && isWordByte(text[begin - 1]))
    --begin;
  return text.substr(begin);
}

// Comments and strings, blanked: brackets in them are none.
std::string withoutComments(llvm::StringRef text) {
  std::string result = text.str();
  for (size_t i = 0; i < result.size(); ++i) {
    size_t end = i;
    if (text.substr(i).starts_with("//"))
      end = text.find('\n', i);
    else if (text.substr(i).starts_with("/*"))
      end = text.find("*/", i);
    else if (text[i] == '"')
      end = text.find_first_of("\"\n", i + 1);
    else
      continue;
    end = std::min(end, text.size());
    for (; i < end; ++i)
      result[i] = ' ';
  }
  return result;
}

/// Where the bracket that is open at the end of a text stands, and what is inside.
struct OpenBracket {
  size_t at = 0;
  unsigned commas = 0;
  size_t lastComma = llvm::StringRef::npos;
};

std::optional<OpenBracket> openBracket(llvm::StringRef text) {
  unsigned round = 0, square = 0;
  OpenBracket result;
  for (size_t i = text.size(); i-- > 0;) {
    const bool isOuter = round == 0 && square == 0;
    switch (text[i]) {
    case ')':
      ++round;
      break;
    case ']':
      ++square;
      break;
    case '(':
      if (round == 0) {
        result.at = i;
        return result;
      }
      --round;
      break;
    case '[':
      // Of a slice in the argument, or of the whole that the position is in.
      if (square == 0)
        return std::nullopt;
      --square;
      break;
    case '<':
      // `name<`, without a space, where nothing has closed it.
      if (isOuter && i > 0 && isWordByte(text[i - 1]) && !text.substr(i).contains('>')) {
        result.at = i;
        return result;
      }
      break;
    case ',':
      if (isOuter) {
        ++result.commas;
        if (result.lastComma == llvm::StringRef::npos)
          result.lastComma = i;
      }
      break;
    case ';':
    case '{':
    case '}':
      return std::nullopt;
    default:
      break;
    }
  }
  return std::nullopt;
}

} // namespace

const Definition *resolve(const Analysis &analysis, SourceLoc loc, llvm::StringRef module,
                          llvm::StringRef name) {
  const Definition *found = nullptr;
  const auto take = [&](llvm::StringRef wanted) {
    return [&found, wanted](const Definition &definition) {
      if (!found && definition.name == wanted)
        found = &definition;
    };
  };
  const llvm::StringRef first = module.empty() ? name : module;
  analysis.names->forEachVisible(loc, take(first));
  analysis.names->forEachMember(analysis.root, take(first));
  if (module.empty() || !found)
    return found;
  const std::optional<FileId> file = found->file;
  found = nullptr;
  if (file)
    analysis.names->forEachMember(*file, take(name));
  return found;
}

std::optional<CallSite> callAround(const Analysis &analysis, SourceLoc loc) {
  const uint32_t at = analysis.sources.offsetInFile(loc);
  const llvm::StringRef whole = analysis.sources.text(analysis.root).take_front(at);
  const std::string blanked = withoutComments(whole.take_back(kMaxCallBytes));
  const llvm::StringRef text = blanked;
  const std::optional<OpenBracket> open = openBracket(text);
  if (!open)
    return std::nullopt;
  CallSite site;
  site.isInGenerics = text[open->at] == '<';
  site.argument = open->commas;
  const size_t start = open->lastComma == llvm::StringRef::npos ? open->at : open->lastComma;
  const llvm::StringRef argument = text.substr(start + 1).ltrim();
  const size_t labelEnd = argument.find(site.isInGenerics ? '=' : ':');
  if (labelEnd != llvm::StringRef::npos)
    site.label = lastWord(argument.take_front(labelEnd).rtrim());
  llvm::StringRef callee = text.take_front(open->at).rtrim();
  if (!site.isInGenerics && callee.ends_with(">"))
    callee = callee.take_front(callee.rfind('<')).rtrim();
  else if (!site.isInGenerics && callee.ends_with("]"))
    // `zeros<f32>[M](`
    callee = callee.take_front(callee.find_last_of('[')).take_front(callee.rfind('<'));
  const llvm::StringRef name = lastWord(callee);
  if (name.empty())
    return std::nullopt;
  llvm::StringRef before = callee.drop_back(name.size());
  const llvm::StringRef module = before.consume_back(".") ? lastWord(before) : "";
  // They outlive this function as parts of the source.
  const auto inSource = [&](llvm::StringRef part) {
    const size_t offset = whole.size() - text.size() + size_t(part.data() - text.data());
    return part.empty() ? llvm::StringRef() : whole.substr(offset, part.size());
  };
  site.name = inSource(name);
  site.module = inSource(module);
  site.label = inSource(site.label);
  if (const Definition *found = resolve(analysis, loc, site.module, site.name))
    site.definition = analysis.names->of(found->decl) == found ? found : nullptr;
  else if (site.module.empty())
    site.builtin = findBuiltin(site.name, isInTest(analysis, loc));
  if (!site.definition && !site.builtin)
    return std::nullopt;
  return site;
}

} // namespace dtile::lsp
