#include "transport/bootstrap/identity.h"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <span>
#include <sstream>
#include <vector>

#include "lib/base/process_name.h"
#include "lib/base/world.h"

namespace sk {
namespace {

std::string text_of(const EnvLookup& env, const char* name) { return env(name).value_or(""); }

// What every row appends: by it a user tells two starts apart that are one for the launcher.
std::string with_own_id(const EnvLookup& env, const std::string& job) {
  const std::string own = text_of(env, "SK_JOB_ID");
  if (job.empty() || own.empty()) return job.empty() ? own : job;
  return job + "/" + own;
}

// A job that torchrun starts without --rdzv-id is called "none", so its port is part of the name.
std::string env_job(const EnvLookup& env) {
  const std::string run = text_of(env, "TORCHELASTIC_RUN_ID");
  if (run.empty() && text_of(env, "SK_JOB_ID").empty()) return "";
  const std::string restarts = text_of(env, "TORCHELASTIC_RESTART_COUNT");
  const std::string port = text_of(env, "MASTER_PORT");
  const std::optional<std::string> own = env("SK_MASTER_PORT");
  // Inherited by both of two such starts it tells nothing. Elsewhere it alone counts: PyTorch's
  // port may change while the job stays the same.
  if (own && run == "none") return fmt::format("{}.{}@{},{}", run, restarts, *own, port);
  return fmt::format("{}.{}@{}", run, restarts, own.value_or(port));
}

std::string openmpi_job(const EnvLookup& env) {
  const std::string name = text_of(env, "PMIX_NAMESPACE");
  return !name.empty() ? name : text_of(env, "OMPI_MCA_ess_base_jobid");
}

// A step's number is never used again within its job; a requeued job counts its restarts.
std::string slurm_job(const EnvLookup& env) {
  const std::string job = text_of(env, "SLURM_JOB_ID"), step = text_of(env, "SLURM_STEP_ID");
  if (job.empty() || step.empty()) return "";
  return fmt::format("{}.{}.{}", job, step, text_of(env, "SLURM_RESTART_COUNT"));
}

// The job's number is counted by an instance of Flux, of which each host may have several.
std::string flux_job(const EnvLookup& env) {
  const std::string job = text_of(env, "FLUX_JOB_ID"), instance = text_of(env, "FLUX_URI");
  return job.empty() || instance.empty() ? job : job + "@" + instance;
}

// A number is given to another process once its own has ended, a pair of number and start is not.
std::string start_of_process(pid_t pid) {
  const uint64_t start_time = process_start_time(pid).value_or(0);
  return start_time == 0 ? "" : std::to_string(start_time);
}

// Hydra gives no name of its job. But PMI_FD is one end of a pair of sockets made by its proxy, and
// there is one proxy for each start on each host.
std::string hydra_job(const EnvLookup& env) {
  const std::string port = text_of(env, "PMI_PORT");
  if (!port.empty()) return "port " + port;
  const std::string text = text_of(env, "PMI_FD");
  int fd = -1;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (code != std::errc() || stop != text.data() + text.size() || fd < 0) return "";
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid <= 0) return "";
  return fmt::format("proxy {}.{}", peer.pid, start_of_process(peer.pid));
}

struct Row {
  const char* key;  // As SK_BOOTSTRAP names it.
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;  // Ranks on this host; null: `host_count` is given instead.
  const char* host_count;
  const char* job_variable;  // What a job without a name should have had.
  std::string (*job)(const EnvLookup& env);
  const char* start;     // Which variables of it are the same on all hosts.
  const char* how = "";  // The end of a sentence that says what to set on every rank.
};

// The first whose variables are there counts; all that are there must agree.
constexpr Row kRows[] = {
    {"env", "torchrun or sk run", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr,
     "TORCHELASTIC_RUN_ID", env_job, "TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT"},
    {"openmpi", "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, "PMIX_NAMESPACE",
     openmpi_job, "PMIX_NAMESPACE OMPI_MCA_ess_base_jobid",
     " (mpirun hands on what -x NAME names)"},
    // SLURM_NTASKS and SLURM_PROCID are in a batch script, too; SLURM_STEP_NUM_TASKS is srun's.
    {"slurm", "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
     "SLURM_STEP_NUM_NODES", "SLURM_JOB_ID and SLURM_STEP_ID", slurm_job,
     "SLURM_JOB_ID SLURM_STEP_ID SLURM_RESTART_COUNT"},
    {"flux", "Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", nullptr,
     "FLUX_JOB_NNODES", "FLUX_JOB_ID", flux_job, "FLUX_JOB_ID"},
    {"hydra", "Hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr,
     "an open PMI_FD", hydra_job, ""},
};

// Launchers whose job cannot be met from their variables: to be told, not taken for none.
struct Unserved {
  const char* rank;
  const char* world_size;  // Null: they do not say.
};
constexpr Unserved kUnserved[] = {
    {"PMIX_RANK", nullptr},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"PALS_RANKID", nullptr},
    {"ALPS_APP_PE", nullptr},
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
};

bool is_env(const Row& row) { return row.key == kRows[0].key; }

// srun --mpi=pmi2 gives its ranks PMI's variables, too, without Hydra's own.
bool is_of_srun(const Row& row, const EnvLookup& env) {
  if (row.job != hydra_job || env(row.local_rank)) return false;
  const std::string step = text_of(env, "SLURM_JOB_ID") + '.' + text_of(env, "SLURM_STEP_ID");
  return text_of(env, "PMI_JOBID") == step;
}

// Of RANK and WORLD_SIZE one alone is a mistake to be told. Of the others both belong to a
// launcher.
bool is_there(const Row& row, const EnvLookup& env) {
  const bool rank = env(row.rank).has_value(), world_size = env(row.world_size).has_value();
  if (is_of_srun(row, env)) return false;
  return is_env(row) ? rank || world_size : rank && world_size;
}

Result<Identity> read_row(const Row& row, const EnvLookup& env) {
  Identity out;
  out.launcher = row.launcher;
  out.rank_variable = row.rank;
  out.world_size_variable = row.world_size;
  SK_ASSIGN_OR_RETURN(out.world_size, read_number(env, row.world_size, 1, kWorldSizeMax));
  SK_ASSIGN_OR_RETURN(out.rank, read_number(env, row.rank, 0, kWorldSizeMax - 1));
  if (out.rank >= out.world_size) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the environment variable {} is {} where {} is {}: it must be from 0 to {}",
                 row.rank, out.rank, row.world_size, out.world_size, out.world_size - 1);
  }
  if (env(row.local_rank)) {
    SK_ASSIGN_OR_RETURN(out.local_rank, read_number(env, row.local_rank, 0, kWorldSizeMax - 1));
  }
  const char* const count = row.local_size != nullptr ? row.local_size : row.host_count;
  out.hosts = fmt::format("{} is not set", count);
  if (env(count)) {
    SK_ASSIGN_OR_RETURN(const int number, read_number(env, count, 1, kWorldSizeMax));
    out.hosts = fmt::format("{} is {}", count, number);
    out.one_host = number == (row.local_size != nullptr ? out.world_size : 1);
    out.several_hosts = !out.one_host;
    out.local_size = out.one_host ? out.world_size : row.local_size != nullptr ? number : 0;
    if (row.local_size != nullptr && number > out.world_size) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "the environment variable {} is {} where {} is {}: it must be from 1 to {}",
                   count, number, row.world_size, out.world_size, out.world_size);
    }
  }
  out.job = with_own_id(env, row.job(env));
  out.job_hint = row.job_variable;
  out.how = row.how;
  out.start_hint = "SK_JOB_ID";
  std::istringstream variables(row.start);
  for (std::string variable; variables >> variable;) {
    out.start += text_of(env, variable.c_str()) + '\n';
    out.start_hint += ", " + variable;
  }
  return out;
}

// Other launchers start their daemons by srun, one on each node, and the ranks inherit from them.
bool carries_daemons(const EnvLookup& env) {
  const auto tasks = env("SLURM_STEP_NUM_TASKS");
  return tasks && tasks == env("SLURM_STEP_NUM_NODES");
}

Result<std::vector<const Row*>> rows_that_count(const EnvLookup& env) {
  std::vector<const Row*> there;
  for (const Row& row : kRows) {
    if (is_there(row, env)) there.push_back(&row);
  }
  if (there.size() > 1 && carries_daemons(env)) {
    std::erase_if(there, [](const Row* row) { return row->rank == kRows[2].rank; });
  }
  return there;
}

Status two_launchers(const Row& a, const Identity& one, const Row& b, const Identity& other) {
  return error(SK_ERR_INVALID_ARGUMENT,
               "the environment variables {} and {} say rank {} of {}, {} and {} say rank {} of "
               "{}: two launchers started this process, or it inherited the variables of one; set "
               "SK_BOOTSTRAP to \"{}\" or \"{}\", whichever counts, or to \"single\" for a world "
               "of one",
               a.rank, a.world_size, one.rank, one.world_size, b.rank, b.world_size, other.rank,
               other.world_size, a.key, b.key);
}

Status check_unserved(const EnvLookup& env) {
  for (const Unserved& it : kUnserved) {
    if (!env(it.rank)) continue;
    if (it.world_size != nullptr && text_of(env, it.world_size) == "1") continue;
    return error(SK_ERR_UNSUPPORTED,
                 "the environment variable {} is \"{}\": a launcher that libsk cannot ask for the "
                 "other ranks started this process; set RANK, WORLD_SIZE, LOCAL_WORLD_SIZE and one "
                 "SK_JOB_ID for all ranks of this start, or SK_BOOTSTRAP=single for a world of one",
                 it.rank, text_of(env, it.rank).substr(0, 64));
  }
  return {};
}

Result<std::optional<Identity>> read_chosen(const EnvLookup& env, const std::string& key) {
  if (key == "single") return std::optional<Identity>();
  for (const Row& row : kRows) {
    if (key != row.key) continue;
    SK_ASSIGN_OR_RETURN(Identity identity, read_row(row, env));
    return std::optional<Identity>(std::move(identity));
  }
  return error(SK_ERR_INVALID_ARGUMENT,
               "the environment variable SK_BOOTSTRAP is \"{}\": it must be \"single\", \"env\", "
               "\"openmpi\", \"slurm\", \"flux\" or \"hydra\"",
               key.substr(0, 64));
}

}  // namespace

void forget_launchers() {
  unsetenv("SK_BOOTSTRAP");
  for (const Row& row : kRows) {
    if (!is_env(row)) unsetenv(row.rank);
  }
  for (const Unserved& it : kUnserved) unsetenv(it.rank);
}

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

Result<std::optional<Identity>> read_identity(const EnvLookup& env) {
  if (const auto key = env("SK_BOOTSTRAP")) return read_chosen(env, *key);
  SK_ASSIGN_OR_RETURN(const std::vector<const Row*> rows, rows_that_count(env));
  std::optional<Identity> found;
  for (const Row* row : rows) {
    SK_ASSIGN_OR_RETURN(Identity identity, read_row(*row, env));
    if (!found) {
      found = std::move(identity);
    } else if (identity.rank != found->rank || identity.world_size != found->world_size) {
      return two_launchers(*rows[0], *found, *row, identity);
    } else if (identity.can_meet_here() && !found->can_meet_here()) {
      found = std::move(identity);  // A wrapper gave RANK and WORLD_SIZE from the launcher's own.
    }
  }
  if (!found) SK_RETURN_IF_ERROR(check_unserved(env));
  return found;
}

}  // namespace sk
