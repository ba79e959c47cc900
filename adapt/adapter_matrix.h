#pragma once
// An adapter as matrices in f64.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tern {

/// The adapter of one matrix: it adds scale·b·a to the weight (out, in).
struct AdapterMatrix {
  int64_t rank = 0, out = 0, in = 0;
  double scale = 1;
  std::vector<double> a, b;  // (rank, in); (out, rank)
};
/// A whole adapter. The key is the path of the module, "model.layers.0.self_attn.q_proj".
using AdapterMatrices = std::map<std::string, AdapterMatrix>;

}  // namespace tern
