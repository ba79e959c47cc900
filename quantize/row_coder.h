#pragma once
// How gptq (quantize/gptq.h) codes numbers of a row: group by group of neighbours, each group's scales chosen when its first
// number comes, those of a part of a group of 256 once more when the part's first number comes.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/weight_type.h"
#include "quantize/learned_tables.h"

namespace tern {

class RowCoder {
 public:
  virtual ~RowCoder() = default;
  /// Appends what precedes a row's blocks to `out`. importance: what an error of each number costs, of the whole row.
  virtual void begin_row(std::span<const float> row, std::span<const float> importance, std::string& out) = 0;
  /// Chooses the scales of the next group for its numbers as they are now. Both views hold until end_group; what is fed back
  /// changes numbers of x that are not coded yet.
  virtual void fit(std::span<const float> x, std::span<const float> importance) = 0;
  /// Codes number j of the group by the code nearest to x, and returns the number that the type's decoder makes of it.
  virtual float code(size_t j, float x) = 0;
  /// Appends the group's block to `out`.
  virtual void end_group(std::string& out) = 0;
};

/// The coder of a type with scales: those of levels_of, U4, U3, U2 (quantize/block_fit.h), NF4, NF4_1, Q4_K, Q5_K and Q6_K.
std::unique_ptr<RowCoder> block_coder(WeightType);
/// The coder of NF4 or NF4_1 (quantize/nf4_coder.cpp). NF4's gives the codes and scales that bitsandbytes gives: a scale is the
/// largest magnitude of the numbers that fit() sees, whatever their importance. NF4_1's does the same with the numbers less
/// their offset_of_most_information (quantize/nf4_offset.h).
std::unique_ptr<RowCoder> nf4_coder(WeightType);
/// Whether k_coder knows the type.
bool is_k_type(WeightType);
/// The coder of Q4_K, Q5_K or Q6_K (quantize/k_coder.cpp). Scales are chosen for the least Σ importance·(x − number)².
std::unique_ptr<RowCoder> k_coder(WeightType);
/// The coder of LC4, LC3 or LC2 with the matrix's tables, each ascending (quantize/learned_coder.cpp). With another GroupByte than the
/// format's its numbers are right, and its bytes are as many, but no decoder reads them.
std::unique_ptr<RowCoder> learned_coder(WeightType, std::span<const int8_t> tables, const GroupByte& = {});

}  // namespace tern
