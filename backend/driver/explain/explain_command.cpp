// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `dtilec explain`: a diagnostic code, a built-in or library name, or what the scheduler decided
// for a program.
#include "backend/driver/diagnostic_pages.h"
#include "backend/driver/explain/draw_regions.h"
#include "backend/driver/explain/draw_timeline.h"
#include "backend/driver/explain/explain_joined.h"
#include "backend/driver/explain/explain_name.h"
#include "backend/driver/explain/explain_schedule.h"
#include "backend/driver/session.h"
#include "backend/driver/simulate/explain_simulation.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

namespace dtile::driver {

namespace {

// E0401, e401, W0901 …
bool looksLikeCode(llvm::StringRef text) {
  return text.size() >= 2 && (llvm::toUpper(text[0]) == 'E' || llvm::toUpper(text[0]) == 'W') &&
         llvm::all_of(text.drop_front(), llvm::isDigit);
}

// Codes in order, each with the text of its first row.
std::map<std::string_view, std::string_view> allCodes() {
  std::map<std::string_view, std::string_view> codes;
  for (unsigned id = 0; id < diag::kCount; ++id) {
    const DiagInfo &info = diagInfo(diag::Id(id));
    if (!info.code.empty())
      codes.try_emplace(info.code, info.text);
  }
  return codes;
}

void listCodes() {
  for (const auto &[code, text] : allCodes())
    llvm::outs() << code << "  " << llvm::StringRef(text) << '\n';
}

void explainCode(Session &session, const std::string &code) {
  for (const EmbeddedFile &page : diagnosticPages())
    if (page.name == code) {
      llvm::outs() << page.text;
      return;
    }
  // A code without a page still has its message.
  const auto codes = allCodes();
  if (auto it = codes.find(code); it != codes.end())
    llvm::outs() << code << ": " << llvm::StringRef(it->second) << '\n';
  else
    session.diagnostics.report(SourceLoc{}, diag::unknown_code, code);
}

// `dot`, `math.silu`: no file of that name, and nothing that ends as one.
bool looksLikeName(llvm::StringRef text) {
  return !text.empty() && !text.ends_with(".dtile") && !text.ends_with(".dtir") &&
         llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }) &&
         !llvm::sys::fs::exists(text);
}

void explainNameOrSay(Session &session, const std::string &name) {
  if (!explainName(session, name))
    session.diagnostics.report(SourceLoc{}, diag::cannot_read,
                               "`" + name + "` is no code, no function and no file");
}

} // namespace

ExitCode runExplain(const Options &options) {
  Session session(options);
  if (options.listCodes)
    listCodes();
  else if (looksLikeCode(options.inputs.front()))
    explainCode(session, llvm::StringRef(options.inputs.front()).upper());
  else if (looksLikeName(options.inputs.front()))
    explainNameOrSay(session, options.inputs.front());
  else if (options.simulate)
    explainSimulation(session, options.inputs.front());
  else if (!options.timeline.empty())
    drawTimeline(session, options.inputs.front(), options.timeline);
  else if (!options.output.empty())
    drawRegions(session, options.inputs.front(), options.output);
  else if (options.joined)
    explainJoined(session, options.inputs.front());
  else
    explainSchedule(session, options.inputs.front());
  return session.finish();
}

} // namespace dtile::driver
