#pragma once
// The weights of a model that keeps some bands of its matrices in memory and reads the others at each use.

#include <memory>
#include <string>
#include <vector>

#include "model/file_bands.h"
#include "model/weights.h"
#include "store/block_files.h"
#include "store/extent_cache.h"
#include "store/extent_ring.h"

namespace tern {

/// A model that reads a part of its weights at each use.
struct StreamedModel {
  std::unique_ptr<BlockFiles> files;
  Tensor slots;
  std::unique_ptr<CyclicRing> ring;  // null: all bands stay in memory
  Tensor cache_slots;
  std::unique_ptr<ExtentCache> cache;  // of experts; null: the model has none
  ModelWeights weights;
  int64_t filled_bytes = 0;  // bytes that loading read for the bands that stay
  double fill_s = 0;         // seconds that this took
  double fill_waited_s = 0;  // of these, the seconds spent only in waiting for the disk
};
/// `bands`: of the same model and type. `stays`: for each band, whether it stays in memory. `cache`: the slots of the
/// cache's groups, if the model has experts. Memory: what stays counts as MemoryClass::weights, the slots of ring and
/// cache as staging. Bits: those of load_weights_to_infer. Errors: those of load_weights_to_infer and read_extent.
StreamedModel load_streamed(const ModelSpec&, const std::string& model_dir, DType, const FileBands& bands,
                            const std::vector<bool>& stays, std::unique_ptr<BlockFiles>, const RingSettings&, Arena&,
                            const CacheSettings& cache = {});

}  // namespace tern
