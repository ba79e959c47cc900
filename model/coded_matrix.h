#pragma once
// A layer's matrix as codes. The quantizers (quantize/) make it, and the functions that save models write it to files.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/weight_type.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// The coded rows of a parameter, in its order, and the tables of its parts one after the other (empty for types without tables).
struct CodedMatrix {
  std::vector<std::byte> rows;
  std::vector<int8_t> tables;
};
/// Rows of a parameter that share tables: those of one tensor of the file, or all rows if the rows of its tensors are interleaved.
struct TablePart {
  int64_t row_begin, row_end;
};
std::vector<TablePart> table_parts(const ParameterInfo&);

/// Whether a parameter may be coded: the matrices of layers may, except routers and the gates of shared experts.
bool has_codes(const ModelSpec&, const ParameterInfo&);
/// Whether a parameter is the table of tokens, or the head's own table.
bool is_token_table(const ModelSpec&, const ParameterInfo&);
/// Returns the codes of a parameter in a type; its rows are whole blocks of that type. The result is valid until the next call.
using CodeMatrix = std::function<const CodedMatrix&(const ParameterInfo&, WeightType)>;

}  // namespace tern
