// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Environment, beside the launchers' own variables:
//   DTILE_JOB_ADDRESS     where rank 0 of a job of several hosts listens; else MASTER_ADDR, else
//                         the first host of SLURM's list
//   DTILE_JOB_PORT        the port; else the one after MASTER_PORT, which is torch's own, else one
//                         that follows from the job's number
//   DTILE_JOB_INTERFACE   the network interface to use, by name
//   DTILE_JOB_KEY         a secret that all processes of the job have
#include "backend/runtime/job/place.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace dtile::runtime {

namespace {

constexpr int32_t kMostRanks = 1 << 20;
// Ports that follow from a job's number: above those of services, below those that systems give to
// clients.
constexpr uint32_t kFirstPort = 20000, kPorts = 12000;

/// What a launcher calls things. Names that it lacks are null.
struct Launcher {
  const char *name;
  const char *rank, *ranks, *localRank, *localRanks;
  /// Variables that together tell its jobs apart.
  const char *identity[5];
  /// One of these has to be set; null: any identity will do.
  const char *needs[2];
};

// The first one whose rank and number of ranks are set. Launchers inside an allocation of SLURM see
// SLURM's variables, too.
constexpr Launcher kLaunchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", nullptr},
     {"MASTER_PORT", "TORCHELASTIC_RUN_ID"}},
    {"Open MPI's mpirun and oshrun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", nullptr, nullptr},
     {nullptr, nullptr}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_JOB_ID", "SLURM_STEP_ID", nullptr, nullptr, nullptr},
     {"SLURM_JOB_ID", nullptr}},
    {"Hydra's mpiexec",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"PMI_JOBID", "HYDRA_JOBID", "MASTER_PORT", nullptr, nullptr},
     {nullptr, nullptr}},
    {"a PMIx launcher",
     "PMIX_RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"PMIX_NAMESPACE", "MASTER_PORT", nullptr, nullptr, nullptr},
     {"PMIX_NAMESPACE", nullptr}},
};

const char *text(const char *name) {
  const char *value = name ? std::getenv(name) : nullptr;
  return value && *value ? value : nullptr;
}

/// A whole number, of a variable that may be missing.
Status readNumber(const char *name, int64_t least, int64_t most, int32_t *out) {
  const char *value = text(name);
  if (!value)
    return {};
  int64_t number = 0;
  const char *end = value + std::strlen(value);
  const auto [stopped, error] = std::from_chars(value, end, number);
  if (error != std::errc() || stopped != end || number < least || number > most)
    return {DTILE_INVALID, format("%s is `%s`, which is no number from %lld to %lld", name, value,
                                  static_cast<long long>(least), static_cast<long long>(most))};
  *out = int32_t(number);
  return {};
}

/// Tasks of this node, in SLURM's form: `4(x2),3`. By the number of the node.
int32_t slurmTasksHere() {
  const char *list = text("SLURM_STEP_TASKS_PER_NODE");
  list = list ? list : text("SLURM_TASKS_PER_NODE");
  const char *number = text("SLURM_NODEID");
  if (!list || !number)
    return 0;
  for (long node = std::strtol(number, nullptr, 10); *list;) {
    char *end = nullptr;
    const long tasks = std::strtol(list, &end, 10);
    const long times = std::strncmp(end, "(x", 2) == 0 ? std::strtol(end + 2, &end, 10) : 1;
    if (end == list)
      return 0;
    if (node < times)
      return int32_t(tasks);
    node -= times;
    list = end + std::strspn(end, "),");
  }
  return 0;
}

/// The first host of SLURM's list: `gpu[07-09,12],login` begins with gpu07.
std::string slurmFirstHost() {
  const char *variable = text("SLURM_STEP_NODELIST");
  variable = variable ? variable : text("SLURM_JOB_NODELIST");
  const std::string list = variable ? variable : "";
  const size_t end = list.find_first_of(",[");
  std::string host = list.substr(0, end);
  if (end != std::string::npos && list[end] == '[')
    host += list.substr(end + 1, list.find_first_of("-,]", end) - end - 1);
  return host;
}

uint32_t hashOf(const std::string &name) {
  uint32_t hash = 0x811c9dc5u;
  for (const char byte : name)
    hash = (hash ^ uint8_t(byte)) * 0x01000193u;
  return hash;
}

/// Where the processes of several hosts meet.
Status readMeetingPlace(const Launcher &launcher, JobPlace *out) {
  for (const char *name : {"DTILE_JOB_ADDRESS", "MASTER_ADDR"})
    if (const char *value = text(name); value && out->address.empty())
      out->address = value;
  if (out->address.empty() && std::strcmp(launcher.name, "srun") == 0)
    out->address = slurmFirstHost();
  if (const char *value = text("DTILE_JOB_INTERFACE"))
    out->interface = value;
  if (const char *value = text("DTILE_JOB_KEY"))
    out->key = value;
  int32_t master = 0;
  if (Status status = readNumber("DTILE_JOB_PORT", 1, 65535, &out->port); !status.ok())
    return status;
  if (Status status = readNumber("MASTER_PORT", 1, 65535, &master); !status.ok())
    return status;
  if (out->port == 0 && master != 0)
    out->port = master < 65535 ? master + 1 : master - 1;
  if (out->port == 0)
    out->port = int32_t(kFirstPort + hashOf(out->name) % kPorts);
  if (out->hasSeveralHosts() && out->address.empty())
    return {DTILE_UNAVAILABLE,
            format("the job has %d ranks, %d of them on this host, but its processes do not know "
                   "where rank 0 is: set MASTER_ADDR or DTILE_JOB_ADDRESS to its host in all of "
                   "them (mpirun and oshrun: -x MASTER_ADDR=HOST)",
                   out->ranks, out->localRanks)};
  return {};
}

Status readLauncher(const Launcher &launcher, JobPlace *out) {
  Status status = readNumber(launcher.ranks, 1, kMostRanks, &out->ranks);
  if (status.ok())
    status = readNumber(launcher.rank, 0, out->ranks - 1, &out->rank);
  out->localRank = out->rank;
  if (status.ok())
    status = readNumber(launcher.localRank, 0, out->ranks - 1, &out->localRank);
  out->localRanks = launcher.localRanks ? 0 : slurmTasksHere();
  if (status.ok())
    status = readNumber(launcher.localRanks, 1, out->ranks, &out->localRanks);
  if (!status.ok())
    return status;
  if (launcher.needs[0] && !text(launcher.needs[0]) && !text(launcher.needs[1]))
    return {DTILE_UNAVAILABLE,
            format("%s and %s are set, but %s%s%s is not, by which the processes of a job find "
                   "each other; start them with %s, or set it",
                   launcher.rank, launcher.ranks, launcher.needs[1] ? "either of " : "",
                   launcher.needs[0],
                   launcher.needs[1] ? (std::string(" and ") + launcher.needs[1]).c_str() : "",
                   launcher.name)};
  for (const char *part : launcher.identity)
    if (const char *value = text(part))
      out->name += std::string(value) + "-";
  return readMeetingPlace(launcher, out);
}

} // namespace

Status placeFromEnvironment(JobPlace *out) {
  for (const Launcher &launcher : kLaunchers)
    if (text(launcher.rank) && text(launcher.ranks))
      return readLauncher(launcher, out);
  return {DTILE_UNAVAILABLE,
          "this process belongs to no job: neither RANK and WORLD_SIZE (torchrun) nor "
          "OMPI_COMM_WORLD_RANK (mpirun), SLURM_PROCID (srun) or PMI_RANK are set; start it with "
          "one of these, or use dtile_team_create_devices"};
}

Status placeFromName(const std::string &name, JobPlace *out) {
  constexpr std::string_view kScheme = "tcp://";
  out->name = name;
  if (!name.starts_with(kScheme))
    return {};
  const size_t slash = name.find('/', kScheme.size());
  std::string place = name.substr(kScheme.size(), slash - kScheme.size());
  out->name = slash == std::string::npos ? "" : name.substr(slash + 1);
  const size_t colon = place.rfind(':');
  char *end = nullptr;
  const long port =
      colon == std::string::npos ? 0 : std::strtol(place.c_str() + colon + 1, &end, 10);
  if (port < 1 || port > 65535 || *end || colon == 0 || out->name.empty())
    return {DTILE_INVALID, format("the job `%s` is not of the form tcp://ADDRESS:PORT/NAME, where "
                                  "an IPv6 address stands in brackets",
                                  name.c_str())};
  place.resize(colon);
  if (place.front() == '[' && place.back() == ']')
    place = place.substr(1, place.size() - 2);
  out->address = place;
  out->port = int32_t(port);
  // How many are of this host is found out when they meet.
  out->localRanks = out->ranks > 1 ? 1 : 0;
  if (const char *value = text("DTILE_JOB_INTERFACE"))
    out->interface = value;
  if (const char *value = text("DTILE_JOB_KEY"))
    out->key = value;
  return {};
}

} // namespace dtile::runtime
