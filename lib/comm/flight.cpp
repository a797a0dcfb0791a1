#include "lib/comm/flight.h"

#include <unistd.h>

#include "transport/bootstrap/identity.h"

namespace sk {
namespace {

// nullopt: a world of one, or nobody can say yet who this is, and the bootstrap will say why.
std::optional<record::Meeting> meeting_of(const BootstrapConfig& config, const EnvLookup& env) {
  record::Meeting meeting;
  meeting.name = config.name;
  meeting.rank = uint32_t(config.rank);
  meeting.world_size = uint32_t(config.world_size);
  if (config.kind == SK_BOOTSTRAP_THREADS) {
    meeting.launcher = "threads of a process";
    meeting.job = fmt::format("process {}", getpid());
  } else if (config.kind == SK_BOOTSTRAP_CALLBACK) {
    meeting.launcher = "the caller's all-gather";
  } else {
    const Result<std::optional<Identity>> identity = read_identity(env);
    if (!identity.ok() || !identity.value()) return std::nullopt;
    const Identity& known = *identity.value();
    meeting.launcher = known.launcher;
    meeting.job = known.job;
    meeting.rank = uint32_t(known.rank);
    meeting.world_size = uint32_t(known.world_size);
  }
  if (meeting.world_size <= 1 || meeting.rank >= meeting.world_size) return std::nullopt;
  return meeting;
}

uint64_t operand_bytes(const Plan& plan, uint32_t rank) {
  uint64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.owner == rank && buffer.kind != BufferKind::kWorkspace) bytes += buffer.bytes;
  }
  return bytes;
}

}  // namespace

Result<record::CommRecord> begin_record(const Communicator::Config& config) {
  const EnvLookup env = config.bootstrap.env ? config.bootstrap.env : record::process_env;
  SK_ASSIGN_OR_RETURN(const record::Settings settings, record::read_settings(env));
  std::optional<record::Meeting> meeting = meeting_of(config.bootstrap, env);
  if (!settings.on || !meeting) return record::CommRecord();
  meeting->timeout_ns = config.timeout_ns;
  Result<record::CommRecord> record = record::CommRecord::make(settings, env, *meeting);
  if (record.ok()) return record;
  config.log.write(SK_LOG_INFO, "record", "calls are not recorded: {}", record.status().message());
  return record::CommRecord();
}

Program::Recorded find_line(record::CommRecord& record, const OpDesc& op, const Plan& plan,
                            uint32_t rank) {
  Program::Recorded found{.line = record::kLines - 1};
  (void)caught([&]() -> Status {
    found = {record.line(op_kind_name(op.kind()), describe(op)), operand_bytes(plan, rank)};
    return {};
  });
  return found;
}

}  // namespace sk
