#include "transport/bootstrap/env.h"

#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

namespace sk {
namespace {

constexpr int kWorldSizeMax = 65536;

Result<int> read_number(const EnvLookup& env, const char* name, int least, int most) {
  const std::optional<std::string> text = env(name);
  if (!text) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable {} is not set: it must be a number from {} to {}", name,
                 least, most);
  }
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, value);
  if (code != std::errc() || stop != end || value < least || value > most) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable {} is \"{}\": it must be a number from {} to {}", name,
                 text->substr(0, 64), least, most);
  }
  return value;
}

std::array<std::byte, 16> short_hash(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::array<std::byte, 16> out;
  std::transform(digest, digest + out.size(), out.begin(), [](auto c) { return std::byte(c); });
  return out;
}

// torchrun's agent keeps MASTER_PORT for its own store, so SK_MASTER_PORT comes first.
Status read_place(const EnvLookup& env, JobEnv& job) {
  const std::optional<std::string> address = env("MASTER_ADDR");
  if (!address || address->empty() || address->size() > 255) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable MASTER_ADDR is {}: it must be a name or an address at "
                 "which rank 0 can be reached",
                 !address           ? "not set"
                 : address->empty() ? "empty"
                                    : "longer than 255 bytes");
  }
  job.address = *address;
  job.port_variable = env("SK_MASTER_PORT") ? "SK_MASTER_PORT" : "MASTER_PORT";
  SK_ASSIGN_OR_RETURN(job.port, read_number(env, job.port_variable.c_str(), 1, 65535));
  const std::optional<std::string> listen = env("SK_LISTEN");
  if (listen && *listen != "any" && *listen != "master") {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable SK_LISTEN is \"{}\": it must be \"master\" (listen at "
                 "MASTER_ADDR) or \"any\" (at every address)",
                 listen->substr(0, 64));
  }
  job.any_address = listen == "any";
  return {};
}

}  // namespace

Result<JobEnv> read_job_env(const EnvLookup& env, const std::string& name) {
  JobEnv job;
  SK_ASSIGN_OR_RETURN(job.world_size, read_number(env, "WORLD_SIZE", 1, kWorldSizeMax));
  SK_ASSIGN_OR_RETURN(job.rank, read_number(env, "RANK", 0, kWorldSizeMax - 1));
  if (job.rank >= job.world_size) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable RANK is {} where WORLD_SIZE is {}: it must be from 0 to "
                 "{}",
                 job.rank, job.world_size, job.world_size - 1);
  }
  if (job.world_size == 1) return job;
  SK_RETURN_IF_ERROR(read_place(env, job));
  SK_ASSIGN_OR_RETURN(job.secret, read_job_secret(env));
  // A rank left over from an earlier start of the same job must not be taken for one of this.
  job.job =
      short_hash(env("SK_JOB_ID").value_or("") + '\n' + env("TORCHELASTIC_RUN_ID").value_or("") +
                 '\n' + env("TORCHELASTIC_RESTART_COUNT").value_or(""));
  job.name = short_hash(name);
  return job;
}

}  // namespace sk
