#pragma once
// The neurons of a model's MLPs as records of a file (store/record_cache.h). Neuron i is row i of `up` and column i of `down`,
// 2·D numbers, of which the file has one piece, or a piece in each of two arrays. Norms and biases stay in memory.
// Source  bundles: LLM in a flash (Alizadeh et al. 2023, arXiv:2312.11514, section 3.2, recalled).

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "model/weight_source.h"
#include "spec/model_spec.h"
#include "store/record_cache.h"
#include "store/scratch_file.h"

namespace tern {

enum class NeuronLayout : uint8_t { bundled, apart };

struct NeuronTables {
  std::vector<int> units;           // the MLPs, in the order of a pass
  std::vector<RecordTable> tables;  // of each of them; of file 0
  int64_t bytes = 0;                // of the file
};
/// Where the neurons lie if each array begins at a multiple of `alignment`. Reads no weights.
/// Errors  usage: an MLP has a gate, another activation than relu, a norm over its result or adapters: its neurons are
///         not exactly zero, or it is not computed by neurons; naming the layer.
NeuronTables neuron_tables(const ModelSpec&, DType, NeuronLayout, int64_t alignment);

/// Writes the neurons of all MLPs, of which it leases one at a time. The weights are dense, in `dtype`, f32 or bf16.
/// Errors: those of write_blocks.
void write_neurons(const ModelSpec&, WeightSource, DType, const NeuronTables&, ScratchFile&);

}  // namespace tern
