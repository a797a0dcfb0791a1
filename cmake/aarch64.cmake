# A toolchain file: AArch64 on x86-64, with Debian's cross compiler. `./dev arm` gives SK_SYSROOT, a
# folder with the libraries of packages.txt for that processor, and runs what was built by qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SK_SYSROOT)

# Headers and libraries of the C and C++ libraries are the compiler's own; the rest lies here.
set(CMAKE_FIND_ROOT_PATH "${SK_SYSROOT}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
# Debian keeps what differs by processor in a folder that its own compiler looks into.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-isystem ${SK_SYSROOT}/usr/include/aarch64-linux-gnu")
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} "${SK_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${SK_SYSROOT}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${SK_SYSROOT}")
# Libraries that a library needs, which the linker looks for in both places that Debian has.
foreach(place lib usr/lib)
  add_link_options("LINKER:-rpath-link,${SK_SYSROOT}/${place}/aarch64-linux-gnu")
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L "${SK_SYSROOT}")
