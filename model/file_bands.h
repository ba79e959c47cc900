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

/// Rows of a matrix that lie one behind the other in a file.
struct FileBand {
  int64_t rows = 0;
  Extent extent;
  WeightType type{};
  int64_t head_dim = 0;  // kernels/cpu/coded_rows.h
  CodeTables tables = {};
};
/// A matrix, all of its rows in bands from the first to the last.
struct FileMatrix {
  std::string name;  // the parameter's
  int64_t out = 0, in = 0;
  std::vector<FileBand> bands;
  bool head = false;  // the model's last product
};
/// The experts of a unit, each of two matrices whose bands are the tensors of the file, uncut.
struct FileExperts {
  int unit = 0;
  int64_t top_k = 0;                 // that a token chooses
  std::vector<FileMatrix> up, down;  // of each expert
  int64_t expert_bytes() const;      // of one, as the file has it
};
struct FileBands {
  std::vector<std::string> paths;
  std::vector<FileMatrix> matrices;  // in the order of a pass, without experts
  std::vector<FileExperts> experts;  // in the order of a pass
  FileBand table;      // the table of tokens; 0 rows unless the file holds it as one band of at least BandSizes::least
                       // bytes, its rows not interleaved (head_dim 0)
  std::string unused;  // a matrix that no pass reads and that is not loaded: the head, where the model makes vectors
};

struct BandSizes {
  int64_t most =
      int64_t{2} << 20;      // bytes of a band at most, unless 64 rows (or the rows of one attention head) are more
  int64_t least = 64 << 10;  // bytes that a matrix must have to be streamed
};
/// The matrices that a pass reads once and whole, and whose rows lie one behind the other in the files. Left out: small
/// ones, and those that the file holds transposed or with other rows between (GPT-2, GPT-NeoX). Experts are apart, as a
/// pass reads only some. Does not look for errors in the files that only loading finds.
/// Errors  bad_file: those of the files' headers.
FileBands file_bands(const ModelSpec&, const std::string& model_dir, DType, const BandSizes& = {});

/// For passes that end before the head: removes the head's matrix, if it is listed.
void leave_head_out(FileBands&);

/// Bytes in memory of a band that stays: packed for the exact kernels, or coded as in the file where that takes less.
int64_t kept_bytes(const FileBand&, int64_t in, DType);
/// All bands of a pass, in order.
std::vector<PassExtent> pass_extents(const FileBands&, DType);
/// Experts as items of a cache: of each unit, expert by expert, the matrix up in group 0 and the matrix down in group 1.
std::vector<CacheItem> expert_items(const FileBands&);
int64_t num_experts(const FileBands&);
/// The most rows of a product that multiplies only a part of a matrix; 0: there is none. A product takes one band, or
/// neighbouring bands of a matrix that all stay. A partial product first writes its columns of y to workspace.
int64_t widest_part(const FileBands&, const std::vector<bool>& stays);
/// Bytes in memory of each parameter, by name. 0 for the table of tokens, which stays in its file, for `unused`, and
/// for experts, which are in a cache.
CodedBytes bytes_in_memory(const FileBands&, const std::vector<bool>& stays, DType);

}  // namespace tern
