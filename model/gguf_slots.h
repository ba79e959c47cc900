#pragma once
// Where the rows of parameters stand in GGUF files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/gguf/gguf.h"
#include "formats/gguf/model.h"
#include "formats/gguf/places.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// Rows of a parameter that stand in one tensor of the file, all of it or one expert's part.
struct GgufSlot {
  const ParameterInfo* info;
  GgufPlace place;
  int64_t row_begin, rows, width;  // of the parameter; a vector is rows of width 1
  int64_t head_dim = 0;            // of interleaved heads, else 0
  int64_t experts = 0;             // in the tensor; 0: it holds these rows alone

  /// The shape of the file's tensor, in which a matrix of one row is a vector.
  std::vector<int64_t> shape() const;
};
/// A parameter's parts, in the order of its rows. Valid while `info` is. Errors  usage: those of gguf_place(_of_expert).
std::vector<GgufSlot> gguf_slots(const ModelSpec&, const ParameterInfo& info);
/// What is wrong with the tensor of a slot; "" if nothing is.
std::string judge(const GgufSlot&, const GgufTensor*);
/// The bytes of the slot's rows in a tensor that was judged.
std::span<const std::byte> bytes_of(const GgufSlot&, const GgufTensor&);
/// Where row r of GGUF's order stands in ours: 2j + s of a head is s·(d/2) + j.
int64_t our_row(int64_t r, int64_t head_dim);

}  // namespace tern
