# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Run by the build: writes OUTPUT, a C++ file with every page of DIRECTORY.
#   cmake -DDIRECTORY=docs/diagnostics -DOUTPUT=diagnostic_pages.cpp -P embed_pages.cmake
file(GLOB pages "${DIRECTORY}/[EW]*.md")
list(SORT pages)
set(rows "")
foreach(page IN LISTS pages)
  cmake_path(GET page STEM code)
  file(READ "${page}" text)
  # The delimiter cannot occur in a page.
  if(text MATCHES "[)]dtile-page\"")
    message(FATAL_ERROR "${page} holds the delimiter that embeds it")
  endif()
  string(APPEND rows "    {\"${code}\", R\"dtile-page(${text})dtile-page\"},\n")
endforeach()
file(WRITE "${OUTPUT}.new" "// Generated from docs/diagnostics by embed_pages.cmake.
#include \"backend/driver/diagnostic_pages.h\"

namespace dtile::driver {

namespace {
struct Page {
  std::string_view code;
  std::string_view text;
};
constexpr Page kPages[] = {
    {\"\", \"\"},
${rows}};
} // namespace

std::string_view diagnosticPage(std::string_view code) {
  for (const Page &page : kPages)
    if (page.code == code)
      return page.text;
  return {};
}

} // namespace dtile::driver
")
file(COPY_FILE "${OUTPUT}.new" "${OUTPUT}" ONLY_IF_DIFFERENT)
file(REMOVE "${OUTPUT}.new")
# The build asks for a file that is newer than the pages.
file(TOUCH_NOCREATE "${OUTPUT}")
