# cmake -D NVCC= -D HOST= -D ROOT= -D SOURCE= -D GPU=sm_90a -D OUTPUT=
#   [-D WATCH=1] -P SkCompileKernels.cmake
#
# Compiles a .cu for one target and refuses what nvcc only mentions: registers spilled to memory,
# frames on a stack, and what ptxas calls a potential performance loss (wgmma instructions that are
# serialised, setmaxnreg that is ignored). Its report stays beside the output as OUTPUT.txt, the
# files that were read as OUTPUT.d.
#
# WATCH: kernels whose waits are watched (cuda/watch). What that takes may spill a few registers.
if("${GPU}" MATCHES "^sm_([0-9]+[af]?)$")
  set(what --cubin --gpu-architecture=${GPU} -Xptxas -v,-warn-spills,-warn-lmem-usage)
else()
  set(what --ptx --gpu-architecture=${GPU})
endif()
set(fault "Potential Performance Loss")
if(WATCH)
  string(REPLACE ",-warn-spills,-warn-lmem-usage" "" what "${what}")
  list(APPEND what -DSK_WATCH=1)
else()
  string(APPEND fault "|[1-9][0-9]* bytes (stack frame|spill)")
endif()
execute_process(
  COMMAND ${NVCC} -std=c++20 --expt-relaxed-constexpr -Werror all-warnings -ccbin ${HOST}
    -I${ROOT} -I${ROOT}/include ${what} -MD -MT ${OUTPUT} -MF ${OUTPUT}.d -o ${OUTPUT} ${SOURCE}
  RESULT_VARIABLE status OUTPUT_VARIABLE report ERROR_VARIABLE report)
file(WRITE ${OUTPUT}.txt "${report}")

set(faults "")
string(REGEX MATCHALL "[^\n]*(${fault})[^\n]*" lines "${report}")
foreach(line IN LISTS lines)
  string(APPEND faults "\n  ${line}")
endforeach()
if(NOT status EQUAL 0 OR faults)
  file(REMOVE ${OUTPUT})
  if(faults)
    message(FATAL_ERROR "${SOURCE} for ${GPU}: not as kernels of ours must be:${faults}\n${report}")
  endif()
  message(FATAL_ERROR "${SOURCE} for ${GPU}: ${NVCC} failed (${status})\n${report}")
endif()
