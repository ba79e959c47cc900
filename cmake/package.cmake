# Installing and packaging: the program, its manual page and completions (which the program itself prints from its one
# table of options), the licence. `cmake --install build/release --prefix DIR`; `cpack --config
# build/release/CPackConfig.cmake -G DEB` or `-G TGZ`. Included last: it needs the target `tern`.

if(NOT TARGET tern)
  return()
endif()
include(GNUInstallDirs)

set_target_properties(tern PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../lib")
install(TARGETS tern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# tern_printed(DIRECTORY FILE tern-arguments...): installs what `tern ARGUMENTS` prints.
function(tern_printed directory file)
  string(REPLACE ";" "\" \"" arguments "${ARGN}")
  install(CODE "
    set(directory \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${directory}\")
    file(MAKE_DIRECTORY \"\${directory}\")
    execute_process(COMMAND \"$<TARGET_FILE:tern>\" \"${arguments}\" OUTPUT_FILE \"\${directory}/${file}\"
      RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR \"install: tern ${ARGN} ended with \${status}\")
    endif()
    message(STATUS \"Installing: \${directory}/${file}\")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${directory}/${file}\")")
endfunction()
tern_printed(${CMAKE_INSTALL_MANDIR}/man1 tern.1 man)
tern_printed(${CMAKE_INSTALL_DATADIR}/bash-completion/completions tern completion bash)
tern_printed(${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions _tern completion zsh)
tern_printed(${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d tern.fish completion fish)

set(CPACK_PACKAGE_NAME tern)
set(CPACK_PACKAGE_VENDOR "tern developers")
set(CPACK_PACKAGE_CONTACT "tern developers <tern@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR "TGZ")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fortunes, xz-utils")  # the demo's text, and the compressor it is measured against

# dpkg-shlibdeps asks the program itself which packages it needs; without it the list stands here (Debian 12 names).
find_program(TERN_DPKG dpkg)
find_program(TERN_DPKG_SHLIBDEPS dpkg-shlibdeps)
if(TERN_DPKG)
  list(APPEND CPACK_GENERATOR DEB)
endif()
if(TERN_DPKG_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libstdc++6 (>= 12), libgomp1, libfmt9, libonig5, libutf8proc2, liburing2, liblapack3, libblas3")
  if(TERN_ONEDNN)
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libdnnl2")
  endif()
endif()
include(CPack)
