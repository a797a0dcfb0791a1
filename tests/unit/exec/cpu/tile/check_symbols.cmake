# Fails when an object compiled for a newer instruction set defines a weak function: the linker might
# choose it for callers that run on any processor (see lib/exec/cpu/tile/isa_types.h).
set(checked 0)
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "_(avx2|avx512|avx512_bf16|amx)\\.cpp\\.o$")
    continue()
  endif()
  math(EXPR checked "${checked} + 1")
  execute_process(COMMAND ${NM} --defined-only ${object} OUTPUT_VARIABLE symbols
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [TWVu] [^\n]+" global "${symbols}")
  if(global)
    message(FATAL_ERROR "${object} defines functions for the linker to choose: ${global}")
  endif()
endforeach()
if(checked EQUAL 0 AND CMAKE_HOST_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(FATAL_ERROR "no object of a newer instruction set was among: ${OBJECTS}")
endif()
