#include "comm/launched_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"

namespace tern {
namespace {

using Variables = std::map<std::string, std::string>;
constexpr int kMorePorts = 15, kMostRanks = 1 << 20;

const std::string* find(const Variables& v, const std::string& name) {
  const auto at = v.find(name);
  return at == v.end() || at->second.empty() ? nullptr : &at->second;
}

std::optional<int> number(const Variables& v, const std::string& name, int least, int most) {
  const std::string* text = find(v, name);
  if (!text) return {};
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most)
    throw Error(ErrorKind::usage, "{}={}: expected a whole number from {} to {}", name, *text, least, most);
  return value;
}

// What one launcher says, and the names it uses.
struct Said {
  const char* launcher;
  std::string rank_name, size_name;
  int rank = 0, size = 1;
  std::optional<int> local_rank = {}, local_size = {};
};

int required(const Variables& v, const std::string& name, const std::string& other, int least, int most) {
  const std::optional<int> value = number(v, name, least, most);
  if (!value) throw Error(ErrorKind::usage, "{} is set and {} is not; set both, or neither", other, name);
  return *value;
}

std::optional<Said> said(const Variables& v, const char* launcher, const std::string& rank_name,
                         const std::string& size_name, const std::string& local_rank, const std::string& local_size) {
  if (!find(v, rank_name) && !find(v, size_name)) return {};
  Said s{launcher, rank_name, size_name};
  s.size = required(v, size_name, rank_name, 1, kMostRanks);
  s.rank = required(v, rank_name, size_name, 0, kMostRanks);
  if (s.rank >= s.size)
    throw Error(ErrorKind::usage, "{}={} and {}={}: ranks count from 0", rank_name, s.rank, size_name, s.size);
  s.local_size = number(v, local_size, 1, s.size);
  s.local_rank = number(v, local_rank, 0, s.size - 1);
  if (s.local_rank && s.local_size && *s.local_rank >= *s.local_size)
    throw Error(ErrorKind::usage, "{}={} and {}={}: ranks count from 0", local_rank, *s.local_rank, local_size,
                *s.local_size);
  return s;
}

// "2(x3),1": the tasks on each node, in order. How many are on the node with so many before it.
int tasks_of_node(const std::string& list, int node) {
  int at = 0;
  for (size_t i = 0; i < list.size();) {
    int tasks = 0, times = 1;
    auto [end, error] = std::from_chars(list.data() + i, list.data() + list.size(), tasks);
    i = static_cast<size_t>(end - list.data());
    if (error != std::errc()) break;
    if (list.compare(i, 2, "(x") == 0) {
      end = std::from_chars(list.data() + i + 2, list.data() + list.size(), times).ptr;
      i = static_cast<size_t>(end - list.data()) + 1;
    }
    if (node < at + times) return tasks;
    at += times, ++i;
  }
  return 0;
}

// srun's tasks alone: a batch script has SLURM_PROCID too, and is no task of a step.
std::optional<Said> said_by_slurm(const Variables& v) {
  if (!find(v, "SLURM_STEP_ID") && !find(v, "SLURM_STEPID")) return {};
  if (!find(v, "SLURM_PROCID")) return {};
  const char* size = find(v, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  std::optional<Said> s = said(v, "srun", "SLURM_PROCID", size, "SLURM_LOCALID", "");
  const std::string* tasks = find(v, "SLURM_STEP_TASKS_PER_NODE");
  if (const int here = tasks ? tasks_of_node(*tasks, number(v, "SLURM_NODEID", 0, kMostRanks).value_or(0)) : 0;
      here > 0)
    s->local_size = here;
  return s;
}

void require_same(const Said& a, const Said& b) {
  const auto differ = [](const std::string& name, int x, const std::string& other, int y) {
    if (x != y)
      throw Error(ErrorKind::usage,
                  "{}={} and {}={} contradict each other; unset those of the launcher that is not used", name, x, other,
                  y);
  };
  differ(a.size_name, a.size, b.size_name, b.size);
  differ(a.rank_name, a.rank, b.rank_name, b.rank);
}

std::string text_or(const Variables& v, const char* name, const char* otherwise) {
  const std::string* text = find(v, name);
  return text ? *text : otherwise;
}

// Rank 0's machine, as others reach it.
std::string address_of_first(const Variables& v, const LaunchedRank& w) {
  if (const std::string* master = find(v, "MASTER_ADDR")) return *master;
  if (w.local_size == w.size) return "127.0.0.1";
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const std::string* hosts = find(v, list); hosts && w.launcher == "srun") return first_host(*hosts);
  throw Error(ErrorKind::usage,
              "{} of {} ranks are on this machine: where rank 0 is, nobody says; set MASTER_ADDR to its host's name",
              w.local_size, w.size);
}

void place_store(const Variables& v, LaunchedRank& w) {
  if (const std::string* store = find(v, "TERN_STORE")) {
    w.store = parse_host_port(*store);
    w.token = text_or(v, "TERN_RUN", "");
    return;
  }
  w.serves_store = w.rank == 0;
  w.more_ports = kMorePorts;
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID",
                           "PMIX_NAMESPACE", "MASTER_ADDR", "MASTER_PORT"})
    w.token += fmt::format("{}={} ", name, text_or(v, name, ""));
  const std::optional<int> master = number(v, "MASTER_PORT", 1, 65535);
  // Two jobs of one machine should not look for each other's store; below the ports that a system gives out by itself.
  const int port = master ? *master + 1 : 20000 + static_cast<int>(crc32c(w.token) % 12000);
  w.store = {address_of_first(v, w), std::min(port, 65535 - kMorePorts)};
}

}  // namespace

std::optional<LaunchedRank> launched_rank_of(const Variables& v) {
  const std::optional<Said> torch = said(v, find(v, "TERN_STORE") ? "tern launch" : "torchrun", "RANK", "WORLD_SIZE",
                                         "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  const std::optional<Said> mpi = said(v, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  const std::optional<Said> slurm = said_by_slurm(v);
  if (find(v, "TERN_STORE") && !torch)
    throw Error(ErrorKind::usage, "TERN_STORE is set, and RANK and WORLD_SIZE are not; `tern launch` sets all of them");
  const bool torch_alone = torch && (find(v, "TERN_STORE") || find(v, "TORCHELASTIC_RUN_ID"));
  std::optional<Said> first;
  for (const std::optional<Said>& s : {torch, mpi, slurm}) {
    if (!s || (torch_alone && first)) continue;
    if (first) require_same(*first, *s);
    if (!first) first = s;
  }
  if (!first) return {};
  LaunchedRank w{.rank = first->rank, .size = first->size, .launcher = first->launcher};
  w.local_rank = first->local_rank.value_or(first->rank);
  w.local_size = first->local_size.value_or(first->size);
  place_store(v, w);
  return w;
}

std::string first_host(const std::string& list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    for (++i; i < list.size() && list[i] != '-' && list[i] != ',' && list[i] != ']'; ++i) host += list[i];
    i = std::min(list.find(']', i), list.size() - 1);
  }
  return host;
}

}  // namespace tern
