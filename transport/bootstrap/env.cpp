#include "transport/bootstrap/env.h"

#include <openssl/sha.h>

#include <algorithm>

namespace sk {
namespace {

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
  if (address->front() == '[') {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable MASTER_ADDR is \"{}\": it must be an address without "
                 "brackets, the port is a variable of its own",
                 *address);
  }
  job.address = *address;
  job.port_variable = env("SK_MASTER_PORT") ? "SK_MASTER_PORT" : "MASTER_PORT";
  SK_ASSIGN_OR_RETURN(job.port, read_number(env, job.port_variable.c_str(), 1, 65535));
  SK_ASSIGN_OR_RETURN(job.any_address, listens_anywhere(env));
  // Else rank 0 alone would hear of it, and the others wait for it until their time is up.
  if (job.port_variable == "MASTER_PORT" && env("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable SK_MASTER_PORT is not set: it must be a free port of "
                 "rank 0's host, the same on every rank, other than MASTER_PORT {}, at which "
                 "torchrun's agent listens (TORCHELASTIC_USE_AGENT_STORE is True)",
                 job.port);
  }
  return {};
}

// Without an address all ranks must be here, and know themselves apart from every other start.
Status check_place(const EnvLookup& env, const Identity& identity) {
  if (identity.can_meet_here() || env("MASTER_ADDR")) return {};
  if (!identity.one_host) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} started {} ranks and {}, so they may be on several hosts: the environment "
                 "variable MASTER_ADDR is not set, it must be an address at which rank 0 can be "
                 "reached; set it, MASTER_PORT and SK_JOB_SECRET_FILE on every rank{}",
                 identity.launcher, identity.world_size, identity.hosts, identity.how);
  }
  return error(SK_ERR_INVALID_ARGUMENT,
               "nothing tells this start of {} ranks by {} from another: {} is missing; set "
               "SK_JOB_ID to one value on all of its ranks that no other start has, or MASTER_ADDR "
               "and MASTER_PORT",
               identity.world_size, identity.launcher, identity.job_hint);
}

}  // namespace

Result<bool> listens_anywhere(const EnvLookup& env) {
  const std::optional<std::string> listen = env("SK_LISTEN");
  if (!listen || *listen == "any" || *listen == "master") return listen == "any";
  return error(SK_ERR_INVALID_ARGUMENT,
               "the environment variable SK_LISTEN is \"{}\": it must be \"master\" (listen at "
               "MASTER_ADDR) or \"any\" (at every address)",
               listen->substr(0, 64));
}

std::string JobEnv::awaited_at() const {
  return one_host ? fmt::format("where ranks wait is {}, since {}", place(), hosts)
                  : fmt::format("where rank 0 waits is {}", place());
}

std::string JobEnv::place() const {
  if (one_host)
    return fmt::format("their meeting place on this host (job {} of {})", start, launcher);
  return fmt::format("MASTER_ADDR \"{}\", {} {}", address, port_variable, port);
}

Result<JobEnv> read_job_env(const EnvLookup& env, const Identity& identity,
                            const std::string& name) {
  JobEnv job;
  job.rank = identity.rank;
  job.world_size = identity.world_size;
  job.one_host = identity.can_meet_here();
  job.several_hosts = identity.several_hosts;
  job.hosts = identity.hosts;
  job.launcher = identity.launcher;
  job.start = identity.job;
  job.how = identity.how;
  job.start_hint = identity.start_hint;
  job.rank_variable = identity.rank_variable;
  job.world_size_variable = identity.world_size_variable;
  if (job.world_size == 1) return job;
  SK_RETURN_IF_ERROR(check_place(env, identity));
  if (!job.one_host) SK_RETURN_IF_ERROR(read_place(env, job));
  SK_ASSIGN_OR_RETURN(job.secret, read_job_secret(env, job.one_host));
  // A rank left over from an earlier start of the same job must not be taken for one of this.
  job.job = job.one_host ? short_hash(job.launcher + '\n' + job.start)
                         : short_hash(env("SK_JOB_ID").value_or("") + '\n' + identity.start);
  job.name = short_hash(name);
  return job;
}

}  // namespace sk
