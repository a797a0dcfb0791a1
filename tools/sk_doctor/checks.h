// What one machine allows: each check looks at one thing now, and says what it found.
#ifndef SK_TOOLS_SK_DOCTOR_CHECKS_H_
#define SK_TOOLS_SK_DOCTOR_CHECKS_H_

#include "tools/sk_doctor/finding.h"

namespace sk {
struct Identity;  // transport/bootstrap/identity.h
}

namespace sk::doctor {

struct Probe;  // library.h

// The library that ranks of this installation load, against this program and against what the
// loader and SK_LIBRARY name.
Probe check_library(Findings* findings);
// The instruction set that is used, and the best one that could be.
void check_isa(const Probe& library, Findings* findings);
void check_gpu(const Probe& library, Findings* findings);

// CPUs and how many ranks fit them; memory; limits of descriptors, files, address space, processes.
void check_cpus(Findings* findings);
void check_memory(Findings* findings);
// `identity`: of a rank; null: of a machine, whose CPUs say how many ranks it may have.
void check_descriptors(const Identity* identity, Findings* findings);
void check_processes(Findings* findings);

// What ranks of one host ask of the kernel, tried.
void check_shared_memory(Findings* findings);
void check_pidfd(Findings* findings);

// Addresses at which other hosts' ranks reach this one, ports to listen at, and TLS.
void check_network(Findings* findings);
bool loopback_is_up();
// Whether rank 0 is said to be where ranks of other hosts cannot find it.
void check_master(Findings* findings);
// `identity`: as above.
void check_ports(const Identity* identity, Findings* findings);
void check_tls(Findings* findings);
const char* openssl_version();

// What the doctor looks at.
enum class Run : uint8_t { kMachine, kRanksHere, kRanksOfHosts };

// Variables of libsk that are set, names that are none, and values without sense: a fault where
// they are read, else a limit.
void check_environment(Findings* findings, Run run);

// Notebook kernels that `sk install` wrote.
void check_notebooks(Findings* findings);

// CPUs that this process may use: its affinity, and at most the quota of its control group.
int usable_cpus();

// SK_... and what it is, or "(set)": no value leaves this process of a secret, nor of a variable
// that libsk does not know.
Json environment();

// How many ranks of one host a limit of descriptors is enough for, by what is counted while they
// connect.
int ranks_for_descriptors(uint64_t descriptors);
uint64_t descriptors_for_ranks(int ranks);
// The same of the rank at which `world_size` meet, `local_size` of them on its host.
uint64_t descriptors_of_hub(int world_size, int local_size);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_CHECKS_H_
