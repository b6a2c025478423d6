# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Run by the build: writes OUTPUT, a C++ file with every file of DIRECTORY (and below) that fits
# FILES.
#   cmake -DDIRECTORY=docs/diagnostics -DFILES=*.md -DNAMES=stem -DOUTPUT=pages.cpp
#         -DHEADER=pages.h -DFUNCTION=pages -P embed_files.cmake
# NAMES is `stem`, the name without its extension, or `path`, from DIRECTORY on.
file(GLOB_RECURSE files RELATIVE "${DIRECTORY}" "${DIRECTORY}/${FILES}")
list(SORT files)
set(rows "")
foreach(path IN LISTS files)
  set(name "${path}")
  if(NAMES STREQUAL "stem")
    cmake_path(GET path STEM name)
  endif()
  file(READ "${DIRECTORY}/${path}" text)
  if(text MATCHES "[)]dtile-file\"")
    message(FATAL_ERROR "${path} holds the delimiter that embeds it")
  endif()
  string(APPEND rows "      {\"${name}\", R\"dtile-file(${text})dtile-file\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from ${FILES} by embed_files.cmake.
#include \"${HEADER}\"

namespace dtile::driver {

llvm::ArrayRef<EmbeddedFile> ${FUNCTION}() {
  static constexpr EmbeddedFile kFiles[] = {
      {\"\", \"\"},
${rows}  };
  return llvm::ArrayRef(kFiles).drop_front();
}

} // namespace dtile::driver
")
