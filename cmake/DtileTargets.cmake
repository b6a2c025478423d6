# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How dtile's libraries, programs and tests are declared:
#
#   dtile_add_library(name SOURCES a.cpp… [DEPS lib…] [LLVM component…] [EXCEPTIONS] [RTTI])
#   dtile_add_executable(name SOURCES a.cpp… [DEPS lib…] [LLVM component…] [EXCEPTIONS] [RTTI])
#   dtile_add_unit_test(name a.cpp… [DEPS lib…] [EXCEPTIONS])      needs GTest
#   dtile_add_fuzzer(name a.cpp… [DEPS lib…])
#   dtile_add_antlr(name LEXER l.g4 PARSER p.g4 NAMESPACE a::b)    library from a grammar
#
# A library's DEPS are PUBLIC: the list is the dependency rule of that directory, and
# tests/check_layering.py holds the #include lines to it. LLVM takes llvm-config component names
# and links them statically. EXCEPTIONS and RTTI undo the defaults, which are off.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 17)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# What every target of ours is compiled and linked with, whatever its language features.
add_library(dtile_options INTERFACE)
# Members that an initializer leaves out are zero: that is how descriptors are written.
target_compile_options(dtile_options INTERFACE
  -Wall -Wextra -Werror=switch -Werror=return-type -Wno-unused-parameter
  -Wno-missing-field-initializers -ffunction-sections -fdata-sections)
target_link_options(dtile_options INTERFACE
  -fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed
  -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # It takes a literal in front of a string for a copy that overlaps itself (GCC bug 105651).
    target_compile_options(dtile_options INTERFACE -Wno-restrict)
  endif()
  # GoogleTest's assertions are `if … else …`, and stand in `if`s without braces.
  target_compile_options(dtile_options INTERFACE -Wno-dangling-else)
  # GCC looks for ld.lld beside its own programs, and where -B says.
  target_link_options(dtile_options INTERFACE "-B${LLVM_TOOLS_BINARY_DIR}")
endif()

# The same sources give the same bytes, whatever folder they and the build are in: what __FILE__ and
# debug information name is named from the root of the source. ccache with a base_dir names files
# from the build folder. Debuggers want whole paths, so builds for these keep them.
cmake_path(RELATIVE_PATH PROJECT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_BINARY_DIR}"
  OUTPUT_VARIABLE sourceFromBuild)
set(prefixMap "$<IF:$<CONFIG:Debug>,-fmacro-prefix-map,-ffile-prefix-map>")
target_compile_options(dtile_options INTERFACE
  "${prefixMap}=${sourceFromBuild}/="
  "${prefixMap}=${PROJECT_SOURCE_DIR}/="
  "${prefixMap}=${PROJECT_BINARY_DIR}=.")
target_include_directories(dtile_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
target_include_directories(dtile_options SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(dtile_options INTERFACE
  __STDC_CONSTANT_MACROS __STDC_FORMAT_MACROS __STDC_LIMIT_MACROS
  "$<$<BOOL:${DTILE_ASSERTS}>:DTILE_ASSERTS=1>")
if(DTILE_SANITIZE)
  target_compile_options(dtile_options INTERFACE
    -fsanitize=${DTILE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    "-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitize_ignore.txt")
  target_link_options(dtile_options INTERFACE -fsanitize=${DTILE_SANITIZE})
endif()
if(DTILE_FUZZ)
  target_compile_options(dtile_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(DTILE_STATIC)
  # The C library stays shared: the runtime opens device drivers with dlopen.
  target_link_options(dtile_options INTERFACE
    -static-libstdc++ -static-libgcc "$<$<CONFIG:Release,MinSizeRel>:-Wl,--strip-all>")
endif()

include(DtilePrecompiled)

# Reads `arg_EXCEPTIONS`, `arg_RTTI`, `arg_DEPS` and `arg_LLVM` of the function that calls it.
# Precompiled headers, where there are any, come from the target `precompiled`: compiled like a
# library, with the defaults' language options.
function(dtile_configure_target name scope precompiled)
  if(TARGET "${precompiled}" AND arg_SOURCES MATCHES "\\.cpp"
     AND NOT arg_EXCEPTIONS AND NOT arg_RTTI)
    target_precompile_headers(${name} REUSE_FROM ${precompiled})
  endif()
  if(NOT arg_EXCEPTIONS)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>")
  endif()
  if(NOT arg_RTTI)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>")
  endif()
  target_link_libraries(${name} ${scope} dtile_options ${arg_DEPS})
  if(arg_LLVM)
    llvm_map_components_to_libnames(llvmLibraries ${arg_LLVM})
    target_link_libraries(${name} ${scope} ${llvmLibraries})
  endif()
endfunction()

# Declared sources and options are checked here, so that a misspelt keyword is an error.
macro(dtile_parse_target_arguments name)
  cmake_parse_arguments(arg "EXCEPTIONS;RTTI" "" "SOURCES;DEPS;LLVM" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

function(dtile_add_library name)
  dtile_parse_target_arguments(${name} ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    dtile_configure_target(${name} PUBLIC dtile_precompiled)
  else()
    message(FATAL_ERROR "${name}: no SOURCES")
  endif()
endfunction()

function(dtile_add_executable name)
  dtile_parse_target_arguments(${name} ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  dtile_configure_target(${name} PRIVATE "")
endfunction()

function(dtile_add_unit_test name)
  dtile_parse_target_arguments(${name} SOURCES ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  list(APPEND arg_DEPS GTest::gtest GTest::gmock GTest::gtest_main)
  dtile_configure_target(${name} PRIVATE dtile_precompiled_tests)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/unit")
  gtest_discover_tests(${name}
    TEST_PREFIX "${name}/" DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 120 LABELS unit)
  set_property(GLOBAL APPEND PROPERTY DTILE_UNIT_TESTS ${name})
endfunction()

# A libFuzzer program where DTILE_FUZZ is on; scripts/fuzz.sh runs them all. Otherwise a unit test
# that runs its saved corpus, tests/fuzz/corpus/<name>, once.
function(dtile_add_fuzzer name)
  dtile_parse_target_arguments(${name} SOURCES ${ARGN})
  if(NOT DTILE_FUZZ)
    list(APPEND arg_SOURCES "${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cpp")
    list(APPEND arg_LLVM support)
  endif()
  add_executable(${name} ${arg_SOURCES})
  dtile_configure_target(${name} PRIVATE "")
  if(NOT DTILE_FUZZ)
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fuzz")
    add_test(NAME ${name}/saved_corpus
      COMMAND ${name} "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
    set_tests_properties(${name}/saved_corpus PROPERTIES TIMEOUT 120 LABELS unit)
    set_property(GLOBAL APPEND PROPERTY DTILE_UNIT_TESTS ${name})
    return()
  endif()
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzzers")
  set_property(GLOBAL APPEND PROPERTY DTILE_FUZZERS ${name})
endfunction()

# Runs ANTLR in the build tree on a lexer and a parser grammar and builds what it writes. Generated
# headers are included as "<directory>/<Grammar>.h". Generated code needs exceptions and RTTI, has
# warnings that are not ours, and writes u8 literals where it means char.
function(dtile_add_antlr name)
  cmake_parse_arguments(arg "" "LEXER;PARSER;NAMESPACE" "" ${ARGN})
  cmake_path(GET arg_LEXER STEM lexer)
  cmake_path(GET arg_PARSER STEM parser)
  set(generated)
  foreach(grammar IN ITEMS ${lexer} ${parser})
    list(APPEND generated
      "${CMAKE_CURRENT_BINARY_DIR}/${grammar}.h" "${CMAKE_CURRENT_BINARY_DIR}/${grammar}.cpp")
  endforeach()
  # Both in one command: ANTLR orders them, as the parser reads the lexer's token numbers.
  add_custom_command(
    OUTPUT ${generated}
    BYPRODUCTS "${CMAKE_CURRENT_BINARY_DIR}/${lexer}.tokens"
    COMMAND "${DTILE_ANTLR4}" -Werror -Dlanguage=Cpp -no-listener -no-visitor
            -package "${arg_NAMESPACE}" -lib "${CMAKE_CURRENT_BINARY_DIR}"
            -o "${CMAKE_CURRENT_BINARY_DIR}" "${arg_LEXER}" "${arg_PARSER}"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    DEPENDS "${arg_LEXER}" "${arg_PARSER}"
    COMMENT "Generating ${lexer} and ${parser}"
    VERBATIM)
  add_library(${name} STATIC ${generated})
  target_compile_options(${name} PRIVATE -fno-char8_t -w)
  target_link_libraries(${name} PUBLIC dtile_options dtile_antlr4_runtime)
endfunction()
