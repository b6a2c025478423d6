# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What `cmake --install` adds to the libraries that install themselves: the compiler, and the
# package that find_package(dtile) finds.
include(CMakePackageConfigHelpers)

if(TARGET dtilec)
  install(TARGETS dtilec RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(FILES "$<TARGET_FILE_DIR:dtilec>/dtile-top" DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES
  "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD-PARTY-NOTICES.txt"
  "${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${PROJECT_SOURCE_DIR}/SECURITY.md"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# The pages of users, and those that they link to, laid out as in the repository.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.dtile" PATTERN "contributing" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.dtile" PATTERN "CMakeLists.txt" PATTERN "*.cpp")
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

# `ninja uninstall` takes away what the last `cmake --install` of this build tree has put somewhere.
configure_file("${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake.in"
  "${PROJECT_BINARY_DIR}/uninstall.cmake" @ONLY)
add_custom_target(uninstall
  COMMAND "${CMAKE_COMMAND}" -P "${PROJECT_BINARY_DIR}/uninstall.cmake" VERBATIM)

# `cpack` makes packages of Debian from the same files; scripts/build_deb.sh has the options. The
# provider that needs a library of MPI has a package of its own, so that dtile does not need one.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME dtile)
if(TARGET dtile_shmem_openshmem)
  list(APPEND CPACK_COMPONENTS_ALL openshmem)
  set(CPACK_COMPONENT_OPENSHMEM_DESCRIPTION "Ranks of dtile as processes of OpenSHMEM")
  set(CPACK_COMPONENT_OPENSHMEM_DEPENDS Unspecified)
  set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
  set(CPACK_DEBIAN_OPENSHMEM_PACKAGE_NAME dtile-openshmem)
  # It has oshrun.
  set(CPACK_DEBIAN_OPENSHMEM_PACKAGE_RECOMMENDS openmpi-bin)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS dtile-openshmem)
endif()
set(CPACK_PACKAGE_NAME dtile)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "The dtile maintainers <maintainers@dtile.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# Which packages have the libraries that it is linked with, in their versions.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Its own library is in the package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS "python3, gcc | clang")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The loader learns of libdtile_rt.so.0.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# Python keeps compiled modules beside the package, which dpkg does not know of.
configure_file("${PROJECT_SOURCE_DIR}/cmake/prerm.in" "${PROJECT_BINARY_DIR}/debian/prerm" @ONLY)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/debian/prerm")
include(CPack)
