// A libnvidia-ml for tests: clocks that differ from call to call, and two reasons.
#define SK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
unsigned g_calls = 0;
}

SK_EXPORT int nvmlInit_v2() { return 0; }
SK_EXPORT int nvmlShutdown() { return 0; }
SK_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &g_calls;
  return index == 0 ? 0 : 2;
}
SK_EXPORT int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1900 + 10 * (g_calls++ % 3) : 2619;
  return 0;
}
SK_EXPORT int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 695'000;
  return 0;
}
SK_EXPORT int nvmlDeviceGetTemperature(void*, int, unsigned*) { return 3; }  // Not supported.
SK_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  *bits = g_calls == 1 ? 0x4 : 0x20;
  return 0;
}
