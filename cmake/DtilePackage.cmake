# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What `cmake --install` adds to the libraries that install themselves: the compiler, and the
# package that find_package(dtile) finds.
include(CMakePackageConfigHelpers)

if(TARGET dtilec)
  install(TARGETS dtilec RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES
  "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD-PARTY-NOTICES.txt"
  "${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${PROJECT_SOURCE_DIR}/SECURITY.md"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# The pages of users, and those that they link to, laid out as in the repository.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.dtile" PATTERN "contributing" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.dtile" PATTERN "consumer" EXCLUDE)
foreach(folder IN ITEMS grammar sema sema/join ir backend backend/amdgpu backend/runtime
        backend/runtime/python)
  install(FILES "${PROJECT_SOURCE_DIR}/${folder}/README.md"
    DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/tests/bench/gpu/goals.md"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}/tests/bench/gpu")

set(packageDirectory "${CMAKE_INSTALL_LIBDIR}/cmake/dtile")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/dtileConfig.cmake.in" "${PROJECT_BINARY_DIR}/dtileConfig.cmake"
  INSTALL_DESTINATION "${packageDirectory}"
  PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dtileConfigVersion.cmake"
  VERSION "${PROJECT_VERSION}" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/dtileConfig.cmake" "${PROJECT_BINARY_DIR}/dtileConfigVersion.cmake"
  DESTINATION "${packageDirectory}")
