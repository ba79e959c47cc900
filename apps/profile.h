#pragma once
// The tasks of `tern profile`, which measures this machine for a cluster file. They run the same code as training and
// decoding. They are timed round after round, as in `tern bench`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench.h"
#include "apps/rank_team.h"
#include "base/dtype.h"
#include "hardware/cluster.h"

namespace tern {

struct ProfileSettings {
  bool quick = false;        // true: fewer shapes, each timed for a shorter time
  std::string disk;          // the directory whose disk is measured
  int64_t memory_bytes = 0;  // that the buffers of all ranks together may take
  int ranks = 1;             // ranks that work at the same time, as threads of this process
  int threads = 1;           // of each rank
  int cpus = 0;              // that this process may use; 0: not known
  TeamLinks links = TeamLinks::memory;
};

/// What would let each rank's memory read pass `beyond` bytes, in words: the --memory of all ranks and of the program, which takes `program` bytes.
/// memory_bytes is here what one rank may take; `left` of it are for reads and copies. The rest is held by other buffers, which
/// grow by an eighth of memory_bytes and two thirds of what is added to it at most.
std::string memory_past_caches(const ProfileSettings&, int64_t left, int64_t beyond, int64_t program);

/// What the rate of a task means in the file.
enum class FigureKind : uint8_t {
  product,  // of size m × n × k, for ProfileFigure::use
  attention_forward,
  attention_backward,
  prefill,
  decode,
  elementwise,
  calls,        // calls per second of kernels that do next to nothing
  sampling,     // a token from its logits
  update,       // an optimizer's step, bytes as the planner counts them
  weight_read,  // by a decoded token's products, which read the same m bytes of weights again and again
  mapped_read,  // the same, from a mapped file
  memory_read,
  memory_copy,
  disk_read,
  disk_write,
  loopback,
  loopback_calls,
  all_reduce,  // of m bytes, over all ranks
  all_gather,
  reduce_scatter,
  all_to_all,  // m bytes of each rank, in equal parts to all
};
/// The figure that a task measures.
struct ProfileFigure {
  FigureKind kind = FigureKind::product;
  DType dtype = DType::f32;
  ProductUse use = ProductUse::any;
  int64_t m = 0, n = 0, k = 0;  // the sizes of a product; for attention m keys and heads of n elements
};
/// The two lengths at which attention is timed. At other lengths its time is taken to be a cost per (query, key) pair plus a cost per query.
inline constexpr int64_t kShortSequence = 128, kLongSequence = 1024;
/// The bytes per parameter that an update reads and writes, as plan/ counts them: optimizer states in f32, a gradient and a
/// weight; in bf16 also a master weight.
constexpr int64_t update_bytes(DType dtype) { return dtype == DType::bf16 ? 2 * 12 + 4 + 2 : 2 * 8 + 4 + 4; }
struct ProfileTasks {
  std::vector<BenchTask> tasks;
  std::vector<ProfileFigure> figures;  // by task
  std::vector<std::string> notes;      // caveats for people
  void add(ProfileFigure, BenchTask);
};

ProfileTasks profile_tasks(const ProfileSettings&);
void add_product_tasks(const ProfileSettings&, ProfileTasks&);
void add_kernel_tasks(const ProfileSettings&, ProfileTasks&);

/// How many ranks of so many threads can compute at the same time without slowing each other down: as many as have CPUs, at least 1 (one
/// rank alone may take all CPUs), at most all of them. cpus 0, not known: all.
double ranks_at_once(int ranks, int threads, int cpus);
/// One task of the tasks of a team's ranks: the first ranks run theirs at the same time, ⌊at_once⌋ of them, while the others wait. Its rate is what
/// is left of theirs to each rank when all compute: their mean times at_once, or ⌊at_once⌋ where the memory binds the task, over all ranks.
BenchTask beside_each_other(const std::shared_ptr<RankTeam>&, std::vector<BenchTask> of_ranks, double at_once,
                            FigureKind);
/// The tasks if several ranks work at the same time, each with its own buffers. Collectives between ranks take the place of
/// the loopback. A rate is the mean over ranks, but one rank alone measures the disk. Where ranks share CPUs, as many ranks as have
/// CPUs compute at the same time while the others wait, and a rate is what is left of theirs to each rank when all compute: a rank that
/// the system takes off its CPU in the middle of a measurement would tell of that and not of its kernels. Collectives take all ranks.
ProfileTasks profile_tasks_of_ranks(const ProfileSettings&);
bool is_collective(FigureKind);

}  // namespace tern
