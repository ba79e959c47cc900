# One static library per folder, named tern_FOLDER, made of every .cpp in it; one test program per folder, FOLDER_test,
# made of every *_test.cpp; SUBFOLDERS belong to it. A folder's CMakeLists.txt states only what it may include, so the direction of
# includes stands twice: here and in dev/check_includes.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)
find_package(fmt REQUIRED)
find_program(TERN_CCACHE ccache)
if(TERN_CCACHE)  # paths relative to the tree: another clone of the same commit finds what this one compiled
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
    ${TERN_CCACHE})
endif()
find_program(TERN_MOLD mold)
if(TERN_MOLD AND NOT TERN_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()

add_library(tern_flags INTERFACE)
target_include_directories(tern_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(tern_flags INTERFACE -Wall -Wextra -Wshadow -Wno-unknown-pragmas -fno-math-errno -ffp-contract=off
  -fstack-protector-strong -fvisibility=hidden)
# -Wrestrict alarms falsely on std::string (GCC 105651); designated initializers leave out members on purpose.
target_compile_options(tern_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Wno-missing-field-initializers)
# GCC looks for garbage from 512 MB on, not from 128: a tenth of its time.
target_compile_options(tern_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
target_compile_definitions(tern_flags INTERFACE _GLIBCXX_ASSERTIONS TERN_VERSION="${PROJECT_VERSION}")
target_link_options(tern_flags INTERFACE -pie -Wl,-z,relro,-z,now)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(tern_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
if(TERN_SANITIZE)
  target_compile_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()
target_link_libraries(tern_flags INTERFACE fmt::fmt OpenMP::OpenMP_CXX Threads::Threads)

# tern_folder(NAME [APART] [SUBFOLDERS folder...] [DEPENDS folder...] [LIBRARIES target...] [SOURCES extra.cpp...]
#             [TESTS extra_test.cpp...])
# APART: its sources use the same names each for itself, so each is compiled alone.
function(tern_folder name)
  cmake_parse_arguments(A "APART" "" "SUBFOLDERS;DEPENDS;LIBRARIES;SOURCES;TESTS" ${ARGN})
  list(TRANSFORM A_SUBFOLDERS APPEND /)
  set(all_sources *.cpp)
  set(all_tests *_test.cpp)
  foreach(subfolder ${A_SUBFOLDERS})
    list(APPEND all_sources ${subfolder}*.cpp)
    list(APPEND all_tests ${subfolder}*_test.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${all_sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
  list(APPEND sources ${A_SOURCES})
  list(TRANSFORM A_DEPENDS PREPEND tern_)
  if(sources)
    add_library(tern_${name} STATIC ${sources})
    target_link_libraries(tern_${name} PUBLIC tern_flags ${A_DEPENDS} PRIVATE ${A_LIBRARIES})
    if(A_APART)
      set_target_properties(tern_${name} PROPERTIES UNITY_BUILD OFF)
    endif()
  else()
    add_library(tern_${name} INTERFACE)
    target_link_libraries(tern_${name} INTERFACE tern_flags ${A_DEPENDS})
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${all_tests})
  list(APPEND tests ${A_TESTS})
  if(TERN_TESTS AND tests)
    tern_test(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE tern_${name})
  endif()
endfunction()

# Where the project lies, for tests (base/source_dir_testing.h), and a main for GoogleTest.
add_library(tern_source_dir STATIC ${PROJECT_SOURCE_DIR}/tests/source_dir.cpp)
target_link_libraries(tern_source_dir PRIVATE tern_flags)
target_compile_definitions(tern_source_dir PRIVATE TERN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
if(TERN_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_library(tern_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/test_main.cpp)
  target_link_libraries(tern_test_main PRIVATE tern_flags PUBLIC tern_source_dir GTest::gtest)
endif()

# tern_test(TARGET sources...): one GoogleTest program, registered with CTest test by test. Suites whose name ends in "Slow"
# are the slow ones: ./test --fast and the sanitizer runs leave them out by that name.
function(tern_test target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE tern_flags tern_test_main)
  target_compile_options(${target} PRIVATE -O1)  # long tables of cases: seconds instead of minutes to compile
  gtest_discover_tests(${target} TEST_PREFIX "${target}." NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 900)
endfunction()
