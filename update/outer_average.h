#pragma once
// How the ranks of --outer average a vector. They send it whole, in codes, or as factors of its matrices; all ranks average together, or in pairs.

#include <span>
#include <vector>

#include "spec/layout.h"
#include "update/low_rank.h"
#include "update/outer.h"

namespace tern {

/// A vector in codes: one row of bytes, cut into one part for each rank.
struct CodedParts {
  OuterCodec codec;
  int64_t elements;
  int ranks;
  Interval part(int rank) const { return part_of(elements, rank, ranks); }
  int64_t bytes(int rank) const { return codec_bytes(codec, part(rank).size()); }
  int64_t begin(int rank) const {
    int64_t at = 0;
    for (int r = 0; r < rank; ++r) at += bytes(r);
    return at;
  }
  int64_t all_bytes() const { return begin(ranks); }
  int64_t longest() const { return (elements + ranks - 1) / ranks; }
};

/// Some tensors of a fragment: one for each of its parameters.
struct OuterVector {
  int fragment;
  std::vector<size_t> parameters;
  std::vector<Tensor> tensors;
};
/// The number of the fragment's averagings before `step`; the averaging that follows `step` is not counted.
int64_t turn_of(const OuterConfig&, int fragment, int64_t step);

/// The tensors become their mean over ranks. A rank that is cut off adds nothing, but gets the mean. T: the tensors' type.
template <class T>
void average_all(OuterStep&, int64_t step, const OuterVector&, Comm& world);
/// The tensors become the mean of this rank's tensors and its partner's.
template <class T>
void average_pair(OuterStep&, int partner, const OuterVector&, Comm& world);

}  // namespace tern
