// libsk_cuda.so: all of it.
#include "cuda/exec/bundle.h"

// The assembler reads the file; 64: what the driver's own loader asks of an image, and more.
asm(".pushsection .rodata, \"a\", @progbits\n"
    ".balign 64\n"
    ".globl sk_kernels_begin\n"
    ".hidden sk_kernels_begin\n"
    "sk_kernels_begin:\n"
    ".incbin \"" SK_KERNELS_FILE
    "\"\n"
    ".globl sk_kernels_end\n"
    ".hidden sk_kernels_end\n"
    "sk_kernels_end:\n"
    ".popsection\n");

extern "C" {
extern const char sk_kernels_begin[], sk_kernels_end[];

[[gnu::visibility("default")]] const sk::cuda::KernelBundle* sk_cuda_kernels() {
  static const sk::cuda::KernelBundle bundle{
      sk::cuda::kKernelInterface, SK_KERNELS_TOOLKIT, sk_kernels_begin,
      uint64_t(sk_kernels_end - sk_kernels_begin), SK_KERNELS_WATCHED};
  return &bundle;
}
}
