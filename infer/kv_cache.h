#pragma once
// Paged KV cache: fixed pages, reference counts, fork with copy-on-write. Bytes per token = 2·kv_heads·kv_row_bytes
// (base/kv_type.h), summed over layers, each with its own heads. Source of the idea: Kwon et al. 2023, arXiv:2309.06180
// (recalled).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/kv_type.h"
#include "model/unit.h"

namespace tern {

class KvOnDisk;

struct KvLayer {
  int64_t kv_heads = 0, head_dim = 0;  // 0: this layer keeps no keys
};
struct KvShape {
  std::vector<KvLayer> layers;
  int64_t page_tokens = 16;
  KvType type = KvType::f32;
  int64_t bytes_per_token() const;
  int64_t bytes_per_page() const { return bytes_per_token() * page_tokens; }
};
/// Each layer has the heads of its own attention. A layer with a window keeps all its keys.
KvShape kv_shape(const ModelSpec&, int64_t page_tokens, KvType);
/// Keys and values kept in the type they are computed in.
inline KvShape kv_shape(const ModelSpec& spec, int64_t page_tokens, DType computed) {
  return kv_shape(spec, page_tokens, kv_type_of(computed));
}

/// The pages of one sequence, and how many of its tokens have keys there. A plain value: the pool owns the memory.
struct KvPages {
  std::vector<int32_t> pages;
  int64_t length = 0;
};

/// The pool. Not thread-safe: one scheduler owns it.
class KvPool {
 public:
  /// Layers that `on_disk` holds have no memory here: a KvStep lends them (infer/kv_on_disk.h), made for the same shape and pages.
  /// Errors: does_not_fit from the arena.
  KvPool(const KvShape&, int64_t num_pages, Arena&, std::shared_ptr<KvOnDisk> on_disk = nullptr);

  const KvShape& shape() const { return shape_; }
  int64_t num_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  /// How many sequences (and a prefix cache) hold a page.
  int32_t references(int32_t page) const { return references_[static_cast<size_t>(page)]; }
  /// Pages that `reserve(sequence, num_tokens)` would take from the free list.
  int64_t pages_needed(const KvPages&, int64_t num_tokens) const;
  /// Makes positions [length, length + num_tokens) writable by this sequence alone: takes free pages, and copies a page
  /// that is shared (copy-on-write). False, and nothing changed, if there are too few free pages.
  bool reserve(KvPages&, int64_t num_tokens);
  /// A second KvPages for the first `length` tokens, which shares their pages.
  KvPages fork(const KvPages&, int64_t length);
  void release(KvPages&);
  /// Keeps the first `length` tokens, and the pages that hold them.
  void truncate(KvPages&, int64_t length);
  int64_t num_copied_pages() const { return num_copied_; }  // by copy-on-write, so far

  KvOnDisk* on_disk() const { return on_disk_.get(); }  // null: all layers are in memory

  /// What a forward over these sequences sees; each must have been reserved. The view borrows the pool. Layers on the disk have empty tensors.
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
