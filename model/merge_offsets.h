#pragma once
// Merges adapters into a coded base without changing a code. The numbers of a group are x = s·q
// + o. An adapter whose inputs are averaged over the group changes all of them by the same
// amount, so that only o changes. Source: QA-LoRA, Xu et al. 2023, arXiv:2309.14717 (recalled).

#include <string>

#include "base/weight_type.h"
#include "model/merge_adapters.h"
#include "model/weights.h"

namespace tern {

class Io;

/// Whether the type's numbers are s·q + o, or s·T[q] + o with a table T, and each block
/// has an offset o of its own: U4, U3, U2, NF4_1 (o in f32), Q4_1, Q5_1 (o in f16).
bool has_offsets(WeightType);

struct OffsetMerge {
  MergeError error;  // over all merged groups; `lost`: what rounding the offsets changes
  int64_t offsets = 0;
  // The largest change of an offset by rounding; each weight of its group changes by the same amount. In f32
  // it is at most 2⁻²⁴ of the offset's size; in f16 at most 2⁻¹¹ of it, or 2⁻²⁵ if the size is below 2⁻¹⁴.
  double largest = 0;
};

/// Copies the weight files of `model_dir` to `out` (a file for a GGUF file, else an existing directory). Where
/// `adapters` has a branch beside a group, o becomes o + scale·B·A, summed in f64 and rounded once to the offset's type;
/// no other byte differs. Of `adapters` only the branches are read; they are f32. Memory: a MiB beside the branches.
/// Errors  usage, before anything is written, naming the matrix: blocks without offsets, rows that lie apart, a branch whose A
///         differs within a group, a sum that the offset's type cannot hold. Those of the files.
OffsetMerge merge_into_offsets(const ModelSpec&, ModelWeights& adapters, const std::string& model_dir,
                               const std::string& out, Io&);

}  // namespace tern
