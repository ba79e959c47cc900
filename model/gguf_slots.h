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

/// Rows of a parameter that one tensor of the file holds: the whole tensor, or one expert's part of it.
struct GgufSlot {
  const ParameterInfo* info;
  GgufPlace place;
  int64_t row_begin, rows, width;  // rows of the parameter; a vector's rows have width 1
  int64_t head_dim = 0;            // of interleaved heads, else 0
  int64_t experts = 0;             // whose rows are in the tensor; 0: it holds these rows alone

  /// The shape that the file's tensor must have; there, a matrix of one row is a vector.
  std::vector<int64_t> shape() const;
};
/// A parameter's slots, in the order of its rows. Valid while `info` is. Errors: usage: those of gguf_place and gguf_place_of_expert.
std::vector<GgufSlot> gguf_slots(const ModelSpec&, const ParameterInfo& info);
/// What is wrong with the tensor of a slot; "" if nothing is.
std::string judge(const GgufSlot&, const GgufTensor*);
/// The bytes of the slot's rows in a tensor in which `judge` found nothing wrong.
std::span<const std::byte> bytes_of(const GgufSlot&, const GgufTensor&);
/// The row in our order that is row r in GGUF's order: row 2j + s of a head, s = 0 or 1, is the head's row s·(d/2) + j in our order.
int64_t our_row(int64_t r, int64_t head_dim);

}  // namespace tern
