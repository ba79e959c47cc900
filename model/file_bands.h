#pragma once
// Which matrices of a model can be read band by band, and where each band lies in the model's files. Reads only headers.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "model/weights.h"
#include "store/block_files.h"
#include "store/extent_cache.h"
#include "store/residency.h"

namespace tern {

/// Rows of a matrix that are contiguous in a file.
struct FileBand {
  int64_t rows = 0;
  Extent extent;
  WeightType type{};
  int64_t head_dim = 0;  // kernels/cpu/coded_rows.h
  CodeTables tables = {};
  bool in_integers = false;  // multiplied as CodedWeight::in_integers says; so are all bands of its matrix
};
/// A matrix and the bands that hold its rows, from the first to the last.
struct FileMatrix {
  std::string name;  // the parameter's
  int64_t out = 0, in = 0;
  std::vector<FileBand> bands;
  bool head = false;  // the model's last product
};
/// The experts of a unit. Each has two matrices; each band of these is a whole tensor of the file.
struct FileExperts {
  int unit = 0;
  int64_t top_k = 0;                 // experts that a token chooses
  std::vector<FileMatrix> up, down;  // of each expert
  int64_t expert_bytes() const;      // bytes of one expert in the file
};
struct FileBands {
  std::vector<std::string> paths;
  std::vector<FileMatrix> matrices;  // in the order of a pass, without experts
  std::vector<FileExperts> experts;  // in the order of a pass
  FileBand table;      // the table of tokens; 0 rows unless the file holds it as one band of at least BandSizes::least
                       // bytes, its rows not interleaved (head_dim 0)
  std::string unused;  // a matrix that no pass reads, so it is not loaded: the head of a model that makes vectors
  // With in_integers: bytes of each matrix that stays as WeightsIn::coded_int8 holds it, unless bands or experts have it.
  CodedBytes coded;
};

struct BandSizes {
  int64_t most =
      int64_t{2} << 20;      // the most bytes of a band, unless 64 rows (or the rows of one attention head) take more
  int64_t least = 64 << 10;  // a matrix of fewer bytes is not streamed
};
/// Finds the matrices that a pass reads once and whole, and whose rows are contiguous in the files. It leaves out
/// small matrices, and those that the file holds transposed or interleaved with other rows (GPT-2, GPT-NeoX). Experts
/// are listed apart, as a pass reads only some of them. Faults that only loading would find are not looked for.
/// in_integers: matrices are multiplied in integers where WeightsIn::coded_int8 does that.
/// Errors  bad_file: those of the files' headers.
FileBands file_bands(const ModelSpec&, const std::string& model_dir, DType, const BandSizes& = {},
                     bool in_integers = false);

/// For passes that end before the head: removes the head's matrix, if it is listed.
void leave_head_out(FileBands&);

/// Whether a band that stays is packed for the exact kernels: where that takes no more bytes than its coded form in the
/// file, and it is not multiplied in integers.
bool stays_packed(const FileBand&, int64_t in, DType);
/// Bytes of memory for a band that stays, packed or coded.
int64_t kept_bytes(const FileBand&, int64_t in, DType);
/// All bands of a pass, in order.
std::vector<PassExtent> pass_extents(const FileBands&, DType);
/// The experts as items of a cache, in the order of units, then of experts; each expert's matrix `up` is in group 0, its `down` in group 1.
std::vector<CacheItem> expert_items(const FileBands&);
int64_t num_experts(const FileBands&);
/// Bytes of memory for each parameter, by name. They are 0 for the table of tokens
/// if it stays in its file, for `unused`, and for experts, which are in a cache.
CodedBytes bytes_in_memory(const FileBands&, const std::vector<bool>& stays, DType);

}  // namespace tern
