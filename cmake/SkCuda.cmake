# The compiler of device code, and sk_cuda_image(): one fatbin of every target.
#
# SK_CUDA says whether the kernels (libsk_cuda.so) are built. All that runs on the host is built
# either way: it needs nothing of a toolkit.
set(SK_CUDA AUTO CACHE STRING "Build libsk_cuda.so: ON, OFF, or AUTO, that is, where there is an nvcc")
set(SK_NVCC "" CACHE FILEPATH "nvcc of CUDA 12.9 or later; empty: CUDACXX, PATH or /usr/local/cuda")
set(SK_NVCC_OLDEST 12.9)  # The first that knows sm_100f.

set(SK_CUDA_TARGETS sm_80 sm_90a sm_100f compute_80)  # compute_80 is PTX, for what comes later.

# The path of an nvcc that is new enough and its version; else "" and the reason.
function(sk_find_nvcc out_nvcc out_version out_reason)
  set(${out_nvcc} "" PARENT_SCOPE)
  set(nvcc "${SK_NVCC}")
  if(NOT nvcc)
    set(nvcc "$ENV{CUDACXX}")
  endif()
  if(NOT nvcc)
    find_program(found_nvcc nvcc PATHS /usr/local/cuda/bin NO_CACHE)
    set(nvcc "${found_nvcc}")
  endif()
  if(NOT EXISTS "${nvcc}")
    set(${out_reason} "no nvcc" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(NOT text MATCHES "release [0-9.]+, V([0-9]+\\.[0-9]+)\\.")
    set(${out_reason} "${nvcc} does not say its version" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS SK_NVCC_OLDEST)
    set(${out_reason} "${nvcc} is of CUDA ${CMAKE_MATCH_1}, before ${SK_NVCC_OLDEST}" PARENT_SCOPE)
  else()
    set(${out_nvcc} ${nvcc} PARENT_SCOPE)
    set(${out_version} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

# sk_cuda_image(OUTPUT SOURCE [WATCH]): compiles SOURCE for each of SK_CUDA_TARGETS into the folder
# kernels/ (what ./dev cuda looks at), and all of them into the fatbin OUTPUT. WATCH: with watched
# waits.
function(sk_cuda_image output source)
  cmake_parse_arguments(IMAGE "WATCH" "" "" ${ARGN})
  get_filename_component(name ${source} NAME_WE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  if(IMAGE_WATCH)
    set(what ", with watched waits")
  endif()
  file(MAKE_DIRECTORY ${folder})
  foreach(target IN LISTS SK_CUDA_TARGETS)
    string(REGEX MATCH "[0-9]+[af]?$" number ${target})
    if(target MATCHES "^sm_")
      set(kind elf)
      set(made ${folder}/${name}.${target}.cubin)
    else()
      set(kind ptx)
      set(made ${folder}/${name}.${target}.ptx)
    endif()
    add_custom_command(OUTPUT ${made}
      COMMAND ${CMAKE_COMMAND} -D NVCC=${SK_NVCC_FOUND} -D HOST=${CMAKE_CXX_COMPILER}
        -D ROOT=${PROJECT_SOURCE_DIR} -D SOURCE=${source}
        -D GPU=${target} -D WATCH=${IMAGE_WATCH} -D OUTPUT=${made} -P ${PROJECT_SOURCE_DIR}/cmake/SkCompileKernels.cmake
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/SkCompileKernels.cmake ${SK_NVCC_FOUND}
      DEPFILE ${made}.d
      COMMENT "Compiling ${name} for ${target}${what}"
      VERBATIM)
    list(APPEND all ${made})
    list(APPEND images --image3=kind=${kind},sm=${number},file=${made})
  endforeach()
  get_filename_component(tools ${SK_NVCC_FOUND} DIRECTORY)
  add_custom_command(OUTPUT ${output}
    COMMAND ${tools}/fatbinary --create=${output} -64 --compress-all ${images}
    DEPENDS ${all}
    COMMENT "Joining ${name} of all targets"
    VERBATIM)
endfunction()

# sk_cuda_library(NAME [WATCH] KERNELS file BUNDLE file): a library of that image.
function(sk_cuda_library name)
  cmake_parse_arguments(CUDA "WATCH" "KERNELS;BUNDLE" "" ${ARGN})
  set(watch)
  if(CUDA_WATCH)
    set(watch WATCH)
  endif()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin)
  get_filename_component(kernels ${CUDA_KERNELS} ABSOLUTE)
  get_filename_component(source ${CUDA_BUNDLE} ABSOLUTE)
  sk_cuda_image(${image} ${kernels} ${watch})
  add_library(${name} SHARED ${source})
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${image})
  string(REPLACE "." ";" version ${SK_NVCC_VERSION})
  list(GET version 0 major)
  list(GET version 1 minor)
  math(EXPR toolkit "${major} * 1000 + ${minor} * 10")  # As cuDriverGetVersion() counts.
  target_compile_definitions(${name} PRIVATE SK_KERNELS_FILE="${image}"
    SK_KERNELS_TOOLKIT=${toolkit} SK_KERNELS_WATCHED=$<IF:$<BOOL:${watch}>,true,false>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE sk_flags)
  target_link_options(${name} PRIVATE -Wl,--no-undefined)
  set_target_properties(${name} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()
