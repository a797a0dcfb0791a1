#include "lib/comm/make_communicator.h"

#include <string>

#include "lib/comm/cpu_communicator.h"
#include "lib/comm/gpu_communicator.h"

namespace sk {

Result<std::unique_ptr<Communicator>> make_communicator(Communicator::Config config,
                                                        const Backend& backend) {
  if (config.log.has(SK_LOG_WARN)) {
    config.bootstrap.still_waiting = [log = config.log](const std::string& sentence) {
      log.write(SK_LOG_WARN, "comm", "{}", sentence);
    };
  }
  auto made = config.device.type == SK_DEVICE_CUDA ? GpuCommunicator::create(config, backend)
                                                   : CpuCommunicator::create(config, backend);
  if (!made.ok()) {
    config.log.write(SK_LOG_WARN, "comm", "no communicator came about, {}: {}",
                     status_name(made.status().code()), made.status().message());
  }
  return made;
}

}  // namespace sk
