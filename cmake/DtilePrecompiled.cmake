# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Precompiled headers: what the standard library, LLVM and GoogleTest declare is parsed once for
# each kind of target instead of once a file, which took more than half of a build's time. Headers
# of ours are never among them, so an edit of one recompiles what includes it and nothing else.
#
# Sources include what they use all the same: builds with -D DTILE_PRECOMPILED_HEADERS=OFF, as
# scripts/test_gcc.sh makes, hold them to it.
option(DTILE_PRECOMPILED_HEADERS "Parse headers of the standard library and LLVM once" ON)

# A target that only holds what `header` declares, compiled with `options` beside what all have.
function(dtile_add_precompiled_headers name header)
  set(empty "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  file(CONFIGURE OUTPUT "${empty}" CONTENT "// Compiled for its precompiled headers.\n")
  add_library(${name} OBJECT "${empty}")
  target_compile_options(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE dtile_options)
  target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled/${header}")
endfunction()

if(DTILE_PRECOMPILED_HEADERS)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # ccache compares contents; a time in the file would make every one different.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
    # clang forgets which warnings a precompiled header has turned off for templates in it, and
    # libstdc++ turns this one off in std::stable_sort. GCC's build still warns of our own uses.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>")
  endif()
  dtile_add_precompiled_headers(dtile_precompiled compiler.h -fno-exceptions -fno-rtti)
  if(DTILE_BUILD_TESTS)
    dtile_add_precompiled_headers(dtile_precompiled_tests tests.h -fno-exceptions -fno-rtti)
    target_link_libraries(dtile_precompiled_tests PRIVATE GTest::gtest GTest::gmock)
    set_target_properties(dtile_precompiled_tests PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
endif()
