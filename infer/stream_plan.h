#pragma once
// A model larger than memory: which of its weights stay in memory, which are read for every pass, and the bytes that this takes.

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/file_bands.h"

namespace tern {

/// The alignment of reads that is assumed before a file is open; most disks have it.
inline constexpr int64_t kStreamAlignment = 4096;

/// Experts, which are read when a token chooses them.
struct ExpertPlan {
  int64_t slots = 0;         // how many experts have a place in memory
  int64_t count = 0;         // how many there are
  int64_t memory_bytes = 0;  // of the places
  int64_t bytes = 0;         // of all experts, as the files hold them
  int64_t chosen_bytes = 0;  // of the experts that a token chooses in all layers
  /// The share of chosen experts that are in memory, if all are chosen equally often.
  double even_share() const { return count > 0 ? static_cast<double>(slots) / static_cast<double>(count) : 0; }
};

/// What stays and what is read. A band is a stretch of rows of a matrix (model/file_bands.h).
struct StreamPlan {
  FileBands bands;
  DType dtype = DType::f32;  // of the computation
  std::vector<bool> stays;   // for each band, in the order of a pass: whether it stays in memory
  RingSettings ring;
  std::optional<StreamWindow> window;  // that the ring has, as it was asked for
  CacheSettings cache;                 // of experts
  ExpertPlan experts;
  InferenceFit fit;
  int64_t pass_bytes = 0;  // of all bands, as the files hold them
  // The part of pass_bytes that is read for each pass; what else its disk blocks hold does not count.
  int64_t streamed_bytes = 0;
  int64_t kept_bytes = 0;  // memory of the bands that stay
};

/// Keeps in memory as many bands as fit within `budget` beside everything else that inference holds, then as many experts:
/// every token uses a band, only some use an expert. At least two experts have a place, so that one can be read while the other
/// is used. The part of the budget that stays unused is smaller than a band or an expert. With a window in the needs no band stays, the ring
/// has its blocks, and the budget is only checked.
/// Errors  does_not_fit, with the least memory that would do: what cannot stream is larger than the budget. Those of ring_window.
StreamPlan plan_stream(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&, const RingSettings& = {},
                       const BandSizes& = {});

}  // namespace tern
