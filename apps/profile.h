#pragma once
// `tern profile`: this machine as a cluster file. Every figure is timed round after round among all others, as `tern
// bench` does, by the code that trains and decodes here.

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
  bool quick = false;        // a coarser grid of shapes, each timed more briefly
  std::string disk;          // directory to measure
  int64_t memory_bytes = 0;  // what the buffers may take, of all ranks together
  int ranks = 1;             // that work at the same time, threads of this process
  int threads = 1;           // of each
  TeamLinks links = TeamLinks::memory;
};

/// What a task's rate stands for in the file.
enum class FigureKind : uint8_t {
  product,  // m × n × k of a use
  attention_forward,
  attention_backward,
  prefill,
  decode,
  elementwise,
  calls,        // kernels per second that do next to nothing
  sampling,     // a token from its logits
  update,       // an optimizer's step, bytes as the planner counts them
  weight_read,  // of a decoded token's products, again and again from m bytes of weights
  mapped_read,  // the same from a file that is mapped
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
struct ProfileFigure {
  FigureKind kind = FigureKind::product;
  DType dtype = DType::f32;
  ProductUse use = ProductUse::any;
  int64_t m = 0, n = 0, k = 0;  // of a product; of attention m keys, heads of n
};
/// Attention is timed at two lengths; at others its time is taken to be a cost per (query, key) pair plus a cost per
/// query.
inline constexpr int64_t kShortSequence = 128, kLongSequence = 1024;
/// Optimizer states in f32 beside a gradient and a weight, as plan/'s update counts them; in bf16 a master weight too.
constexpr int64_t update_bytes(DType dtype) { return dtype == DType::bf16 ? 2 * 12 + 4 + 2 : 2 * 8 + 4 + 4; }
struct ProfileTasks {
  std::vector<BenchTask> tasks;
  std::vector<ProfileFigure> figures;  // of each task
  std::vector<std::string> notes;      // caveats of the figures, for people
  void add(ProfileFigure, BenchTask);
};

ProfileTasks profile_tasks(const ProfileSettings&);
void add_product_tasks(const ProfileSettings&, ProfileTasks&);
void add_kernel_tasks(const ProfileSettings&, ProfileTasks&);

/// The same with all ranks of the settings at work in every task, each with buffers of its own, and collectives between them in the
/// place of the loopback. A rate is a rank's, the mean over ranks; the disk's is that of one rank alone.
ProfileTasks profile_tasks_of_ranks(const ProfileSettings&);
bool is_collective(FigureKind);

}  // namespace tern
