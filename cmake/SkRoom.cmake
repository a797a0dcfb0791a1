# sk_room(NAME [HOT] SOURCES a.cpp ... LINKS sk_base ...): one folder of the house as one static
# target; HOT where small calls spend their time.
# Rooms are linked only downwards (tools/check_layers.py says the same of includes).
add_library(sk_flags INTERFACE)
target_compile_options(sk_flags INTERFACE -Wall -Wextra -Werror
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<CONFIG:Debug>:-D_GLIBCXX_ASSERTIONS>)
# GCC 12 at -O3 sees overlaps in std::string's own copies where there are none (GCC PR 105651), and
# members of moved variants used before they are set (GCC PR 80635).
target_compile_options(sk_flags INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-maybe-uninitialized>)
if(SK_SANITIZE)
  # The first level of optimisation, and lines without variables: half the time to compile. Kernels
  # have their own level, which stands behind this one.
  target_compile_options(sk_flags INTERFACE -fsanitize=${SK_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  target_link_options(sk_flags INTERFACE -fsanitize=${SK_SANITIZE})
  if(SK_SANITIZE MATCHES "address")
    # memcpy(p, nullptr, 0) is what empty spans come to; C2y declares it sound, so it is no finding.
    target_compile_options(sk_flags INTERFACE -fsanitize=undefined -fno-sanitize-recover=undefined
      -fno-sanitize=nonnull-attribute)
    target_link_options(sk_flags INTERFACE -fsanitize=undefined)
  endif()
endif()

function(sk_room name)
  cmake_parse_arguments(ROOM "HOT" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PUBLIC ${ROOM_LINKS} PRIVATE sk_flags)
  if(ROOM_HOT)
    target_compile_options(${name} PRIVATE
      $<$<AND:$<CONFIG:Release>,$<STREQUAL:${SK_SANITIZE},>>:-O3>)
  endif()
endfunction()

# What nearly every test includes, compiled once. Programs alone: libraries are compiled in other
# builds too, and a precompiled header makes a compiler cache forget what it has of those.
if(SK_TESTS AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_headers.cc CONTENT "int main() {}\n")
  add_executable(sk_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/test_headers.cc)
  target_link_libraries(sk_test_headers PRIVATE GTest::gtest GTest::gmock sk_flags)
  target_compile_options(sk_test_headers PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  target_precompile_headers(sk_test_headers PRIVATE
    <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional>
    <map> <memory> <mutex> <optional> <random> <set> <span> <string> <string_view> <thread> <vector>)
endif()

# sk_test(NAME SOURCES a.cc ... LINKS sk_plan ... [SUITE name]): one GoogleTest program, each case a
# ctest. ./dev test --suite NAME picks by its one label: SUITE, else the folder under tests/.
function(sk_test name)
  cmake_parse_arguments(TEST "" "SUITE" "SOURCES;LINKS" ${ARGN})
  file(RELATIVE_PATH place ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX MATCH "^[^/]+" suite "${place}")
  if(place MATCHES "^(devhost|unit/cuda)")
    set(suite cuda)  # All that can be shown of GPUs without one.
  elseif(place STREQUAL "unit/exec/cpu")
    set(suite workers)  # A rank's threads: half of what these show takes ThreadSanitizer.
  elseif(place STREQUAL "../bench/gpu")
    set(suite gpu)
  endif()
  if(TEST_SUITE)
    set(suite ${TEST_SUITE})
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ${TEST_LINKS} GTest::gtest GTest::gmock GTest::gtest_main sk_flags)
  # The product is compiled as it is shipped; its tests for a third less of the compiler's time. But
  # device code on the CPU is compiled within its tests, and is what they wait for.
  if(NOT place MATCHES "^devhost")
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
    if(TARGET sk_test_headers)
      target_precompile_headers(${name} REUSE_FROM sk_test_headers)
      # The first is for ccache. GCC 12 tells no more that what it inlines is a system header's.
      target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
        $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds>
        $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-stringop-overflow>)
    endif()
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS ${suite})
  if(NOT TARGET suite_${suite})  # The programs of one suite.
    add_custom_target(suite_${suite})
  endif()
  add_dependencies(suite_${suite} ${name})
endfunction()
