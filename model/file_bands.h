#pragma once
// Which matrices of a model can be read band by band, where each band lies in its files, and the weights of a model that
// keeps some bands and streams the others. Reads headers alone, until load_streamed.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/model_files.h"
#include "model/weights.h"
#include "store/block_files.h"
#include "store/extent_cache.h"
#include "store/extent_ring.h"
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
  FileBand table;      // the table of tokens, one band; 0 rows where the file does not hold it in the form in
                       // which it is read
  std::string unused;  // a matrix that no pass reads and that is not loaded: the head, where the model makes vectors
};

struct BandSizes {
  int64_t most =
      int64_t{2} << 20;      // bytes of a band at most, unless 64 rows (or the rows of one attention head) are more
  int64_t least = 64 << 10;  // bytes that a matrix must have to be streamed
};
/// The matrices that a pass reads once and whole and whose rows lie in the files one behind the other. Left out: those that
/// the file holds transposed or with other rows between (GPT-2, GPT-NeoX), and small ones. Experts, of which a pass reads some,
/// stand apart. Errors in the files that only loading finds are not looked for here.
/// Errors  bad_file: those of the files' headers.
FileBands file_bands(const ModelSpec&, const std::string& model_dir, DType, const BandSizes& = {});

/// For passes that end before the head: takes the head's matrix out, if it is there.
void leave_head_out(FileBands&);

/// What a band takes where it stays: packed for the exact kernels, or as the file codes it where that is less.
int64_t kept_bytes(const FileBand&, int64_t in, DType);
/// All bands of a pass, in order.
std::vector<PassExtent> pass_extents(const FileBands&, DType);
/// Experts as items of a cache: of each unit, expert by expert, the matrix up in group 0 and the matrix down in group 1.
std::vector<CacheItem> expert_items(const FileBands&);
int64_t num_experts(const FileBands&);
/// Of matrices that are multiplied in several products: the most rows that one of these takes. Its columns of y are first made
/// in workspace.
int64_t widest_part(const FileBands&, const std::vector<bool>& stays);
/// Bytes that `stays` leaves in memory, by the parameter's name; 0 for the table of tokens, which stays in its file, for `unused`,
/// and for experts, which a cache holds.
CodedBytes bytes_in_memory(const FileBands&, const std::vector<bool>& stays, DType);

/// Weights that are given, so that load_weights_to_infer does not load them.
struct GivenWeights {
  std::unordered_map<std::string, Weight> matrices;  // by the parameter's name
  FileTable tokens;
  bool has_tokens() const { return tokens.rows.files != nullptr; }
};
ModelWeights load_weights_to_infer(const ModelSpec&, const std::string& model_dir, DType, Arena&, GivenWeights);
/// The last step of load_weights_to_infer: weights with two names share one storage, and given weights take their place.
void put_given(const ModelSpec&, GivenWeights, ModelWeights&);
/// Whether `given` has the parameter whose tensor in `weights` is `t`, so that it need not be loaded. If that is the table of
/// tokens, `t` becomes a tensor of no rows, whose dtype still says which type to compute in.
bool is_given(const GivenWeights& given, const ModelWeights& weights, const ParameterInfo&, Tensor& t, DType, Arena&);

/// A model that reads a part of its weights at each use.
struct StreamedModel {
  std::unique_ptr<BlockFiles> files;
  Tensor slots;
  std::unique_ptr<CyclicRing> ring;  // null: everything stays
  Tensor cache_slots;
  std::unique_ptr<ExtentCache> cache;  // of experts; null: there are none
  ModelWeights weights;
  int64_t filled_bytes = 0;  // bytes read at loading, for what stays
  double fill_s = 0;         // seconds that this took
};
/// `stays` of each band of `bands`, which are those of the same model and type; `cache`: slots of its groups, where there are
/// experts. Memory: MemoryClass::weights what stays, staging the slots of ring and cache. Bits: those of load_weights_to_infer.
/// Errors: those of load_weights_to_infer and read_extent.
StreamedModel load_streamed(const ModelSpec&, const std::string& model_dir, DType, const FileBands& bands,
                            const std::vector<bool>& stays, std::unique_ptr<BlockFiles>, const RingSettings&, Arena&,
                            const CacheSettings& cache = {});

}  // namespace tern
