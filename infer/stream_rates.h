#pragma once
// What this machine gives a model larger than memory: rates of the disk, of products, and of both while they work at once.

#include <span>

#include "infer/stream_plan.h"
#include "store/block_files.h"
#include "store/read_probe.h"

namespace tern {

/// Rates of this machine, in bytes per second.
struct StreamRates {
  int64_t rows = 1;    // of a product: as many as sequences decode together
  double disk = 0;     // of reading
  double kept = 0;     // of products with packed weights, as those stay that take no more bytes so
  double coded = 0;    // of products with weights as the files code them: the ring's, and others that stay
  double experts = 0;  // of products with an expert's weights, of the rows that choose it on average; 0: as `coded`
  // While all cores multiply: of reading (0: not measured, as `disk`), and the share of the products' rate that reading takes.
  // It takes time of the same cores, also behind the system's back where they are virtual, and of the memory.
  double disk_beside = 0, slowed = 0;
  double disk_experts = 0;  // of reading the experts that a layer misses, from its router's answer on; 0: as `disk`
};

/// The share of the full times of probes: 1 from 64 MiB of matrices on, in proportion below, at least 0.1.
double probe_share(const StreamPlan&);
inline constexpr double kProductSeconds = 0.15, kBesideSeconds = 0.2, kExpertsSeconds = 0.15;
/// Measures `kept` and `coded`, and of a mixture `experts` where several sequences decode together, each for kProductSeconds of products of
/// `rows` rows with 64 MiB of weights (from 17 rows on fewer: rows × bytes are at most 1 GiB), or with half of what the plan will hold beside
/// its ring if that is less, in parts as a pass has them. The rates are means. The plan of a small model is measured for a shorter time (probe_share).
void measure_products(const StreamPlan&, StreamRates&);
/// Measures `disk_beside` and `slowed`: reads the extents with so many threads for kBesideSeconds, again and again if they are few,
/// as probe_rate does, while all cores multiply by the form of weights that takes most of a token, experts left aside. `disk`, `kept`
/// and `coded` are known. Returns what was read. Nothing is measured without matrices to multiply or extents to read. Errors: those of probe_rate.
ProbedRate measure_beside(const StreamPlan&, BlockFiles&, std::span<const Extent>, int threads, StreamRates&);

/// Measures `disk_experts` for kExpertsSeconds: as many experts as a layer misses if all are chosen equally often are read together, then the
/// disk rests for what a layer's other products take. The other rates are known. Returns what was read; nothing of models without experts.
/// Errors: those of probe_lists.
ProbedRate measure_experts(const StreamPlan&, BlockFiles&, int threads, StreamRates&);

}  // namespace tern
