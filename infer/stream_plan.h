#pragma once
// A model larger than memory: which of its weights stay and which are read for every pass, the bytes that this takes, the
// predicted time of a token, and a lower bound of it.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "infer/load.h"
#include "model/file_bands.h"
#include "store/read_probe.h"

namespace tern {

struct StreamPlan {
  FileBands bands;
  std::vector<bool> stays;  // each band of a pass
  RingSettings ring;
  InferenceFit fit;
  int64_t pass_bytes = 0;      // of all matrices as the files hold them: what a pass uses
  int64_t streamed_bytes = 0;  // of those, read for each pass, without the other bytes of the disk's blocks
  int64_t kept_bytes = 0;      // memory of the matrices that stay
};

/// Keeps as many bands as fit within `budget` beside everything else that inference holds. Exact up to a band.
/// Errors  does_not_fit, naming the least memory that would do: even with nothing kept, what cannot stream is too large.
StreamPlan plan_stream(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&, const RingSettings& = {},
                       const BandSizes& = {});

/// Bytes per second, measured now.
struct StreamRates {
  double disk = 0;
  double kept = 0, coded = 0;  // products of one row with weights that stay, and with rows as a ring brings them
};
/// Of this machine's kernels, with 64 MiB of weights, or as much as half of what the plan will hold, for some milliseconds.
void measure_products(const StreamPlan&, DType, StreamRates&);

/// Of a decoded token.
struct StreamTimes {
  double disk_s = 0, products_s = 0;  // alone
  double pass_s = 0;                  // on the ring's virtual clock
  double bound_s() const { return disk_s > products_s ? disk_s : products_s; }
  std::string_view binds() const { return disk_s > products_s ? "the disk" : "products"; }
};
StreamTimes stream_times(const StreamPlan&, const StreamRates&);

}  // namespace tern
