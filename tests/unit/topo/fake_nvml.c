/* A management library of three GPUs: one answers everything, one not its memory, one nothing. */
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { kOk = 0, kError = 999 };

static int devices[3];
struct memory {
  unsigned long long total, free, used;
};

EXPORT int nvmlInit_v2(void) { return kOk; }
EXPORT int nvmlShutdown(void) { return kOk; }
EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  strncpy(text, "550.54.15", bytes);
  return kOk;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return kOk;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return kOk;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return kError;
  *device = &devices[index];
  return kOk;
}
EXPORT int nvmlDeviceGetName(void* device, char* name, unsigned bytes) {
  strncpy(name, device == &devices[0] ? "Fake A" : "Fake B", bytes);
  return kOk;
}
EXPORT int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  if (device != &devices[0]) return kError;
  memory->total = 1000;
  return kOk;
}
