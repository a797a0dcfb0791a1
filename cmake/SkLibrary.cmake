# The product: libsk.so made of every room that lib/api needs, and what an installation holds.
#
# The rooms are static and hidden; lib/api/libsk.map names every symbol that leaves the library.
# A rank's program or another language loads libsk.so.MAJOR; the ABI changes only with MAJOR.
include(CMakePackageConfigHelpers)

# The shells' objects whole, for nothing inside the library calls them; of the rooms, what they use.
add_library(sk SHARED $<TARGET_OBJECTS:sk_api> $<TARGET_OBJECTS:sk_api_exec>
  $<TARGET_OBJECTS:sk_api_status> $<TARGET_OBJECTS:sk_api_topo>)
add_library(sk::sk ALIAS sk)
set_target_properties(sk PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/lib/api/libsk.map)
target_link_libraries(sk PRIVATE sk_api sk_flags)
target_link_options(sk PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/lib/api/libsk.map
  -Wl,-z,relro,-z,now
  # A sanitizer's runtime is in the program, so its symbols stay undefined here.
  $<$<STREQUAL:${SK_SANITIZE},>:-Wl,--no-undefined>)
target_include_directories(sk PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS sk EXPORT sk-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
  NAMELINK_COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/include/sk.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES
  ${PROJECT_SOURCE_DIR}/include/sk/base.h
  ${PROJECT_SOURCE_DIR}/include/sk/call.h
  ${PROJECT_SOURCE_DIR}/include/sk/comm.h
  ${PROJECT_SOURCE_DIR}/include/sk/exec.h
  ${PROJECT_SOURCE_DIR}/include/sk/output.h
  ${PROJECT_SOURCE_DIR}/include/sk/op.h
  ${PROJECT_SOURCE_DIR}/include/sk/ops.h
  ${PROJECT_SOURCE_DIR}/include/sk/session.h
  ${PROJECT_SOURCE_DIR}/include/sk/tile.h
  ${PROJECT_SOURCE_DIR}/include/sk/topo.h
  ${PROJECT_SOURCE_DIR}/include/sk/talk.h
  ${PROJECT_SOURCE_DIR}/include/sk/trace.h
  ${PROJECT_SOURCE_DIR}/include/sk/worker.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sk COMPONENT development)

# find_package(sk), target sk::sk.
set(SK_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sk)
install(EXPORT sk-targets NAMESPACE sk:: DESTINATION ${SK_PACKAGE_DIR} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sk-config.cmake.in
  ${PROJECT_BINARY_DIR}/sk-config.cmake INSTALL_DESTINATION ${SK_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sk-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sk-config.cmake ${PROJECT_BINARY_DIR}/sk-config-version.cmake
  DESTINATION ${SK_PACKAGE_DIR} COMPONENT development)

# pkg-config sk. The prefix is found from the file's own place, so an installation may be moved.
file(RELATIVE_PATH SK_PC_PREFIX /root/${CMAKE_INSTALL_LIBDIR}/pkgconfig /root)
configure_file(${PROJECT_SOURCE_DIR}/cmake/sk.pc.in ${PROJECT_BINARY_DIR}/sk.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sk.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# LibSK.jl, which finds libsk.so.MAJOR beside itself; PREFIX/share/julia goes into JULIA_LOAD_PATH.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/julia/src
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/julia/LibSK COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/julia/Project.toml
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/julia/LibSK COMPONENT development)
