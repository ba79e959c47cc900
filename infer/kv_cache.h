#pragma once
// The paged cache of keys and values: pages of fixed size, which are counted by reference and copied on write. Source of the idea: Kwon et al.
// 2023, arXiv:2309.06180 (recalled).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/kv_type.h"
#include "model/unit.h"

namespace tern {

class KvOnDisk;

/// The keys of one layer.
struct KvLayer {
  int64_t kv_heads = 0, head_dim = 0;  // 0: this layer keeps no keys
};
/// The shape of a cache.
struct KvShape {
  std::vector<KvLayer> layers;
  int64_t page_tokens = 16;
  KvType type = KvType::f32;
  int64_t bytes_per_token() const;  // Σ over layers of 2·kv_heads·kv_row_bytes (base/kv_type.h)
  int64_t bytes_per_page() const { return bytes_per_token() * page_tokens; }
};
/// The shape for a model. Each layer has the heads of its own attention. A layer with a window keeps all its keys.
KvShape kv_shape(const ModelSpec&, int64_t page_tokens, KvType);
/// The shape if keys and values are kept in the type that they are computed in.
inline KvShape kv_shape(const ModelSpec& spec, int64_t page_tokens, DType computed) {
  return kv_shape(spec, page_tokens, kv_type_of(computed));
}

/// The pages of one sequence, and the number of its tokens that have keys there. The pool owns the memory.
struct KvPages {
  std::vector<int32_t> pages;
  int64_t length = 0;
};

/// All pages. One thread at a time uses it.
class KvPool {
 public:
  /// Allocates the pages. Layers that `on_disk` holds have no memory here: a KvStep lends it (infer/kv_on_disk.h); `on_disk` is made for the same
  /// shape and pages. Errors: does_not_fit, from the arena.
  KvPool(const KvShape&, int64_t num_pages, Arena&, std::shared_ptr<KvOnDisk> on_disk = nullptr);

  const KvShape& shape() const { return shape_; }
  int64_t num_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  /// The number of sequences that hold a page; a prefix cache counts as one.
  int32_t references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  /// The number of free pages that `reserve(sequence, num_tokens)` would take.
  int64_t pages_needed(const KvPages&, int64_t num_tokens) const;
  /// Makes positions [length, length + num_tokens) writable for this sequence alone: takes free pages, and copies a page that is shared. False:
  /// there are too few free pages, and nothing was changed.
  bool reserve(KvPages&, int64_t num_tokens);
  /// Another KvPages with the first `length` tokens. It shares their pages.
  KvPages fork(const KvPages&, int64_t length);
  /// Gives all pages of a sequence back.
  void release(KvPages&);
  /// Gives back what lies behind the first `length` tokens.
  void truncate(KvPages&, int64_t length);
  int64_t num_copied_pages() const { return num_copied_; }  // by copy-on-write, so far

  KvOnDisk* on_disk() const { return on_disk_.get(); }  // null: all layers are in memory

  /// What a forward over these sequences reads and writes; `reserve` must have made room for its tokens. The view looks into the pool. Layers on the
  /// disk have empty tensors in it.
  KvView view(std::span<const KvPages* const> sequences) const;

 private:
  KvShape shape_;
  std::vector<Tensor> keys_, values_;  // per layer, as a KvView has them; may be empty
  std::shared_ptr<KvOnDisk> on_disk_;
  std::vector<int32_t> references_;  // per page
  std::vector<int32_t> free_;        // a stack, lowest page on top at first
  int64_t num_copied_ = 0;
};

}  // namespace tern
