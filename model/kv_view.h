#pragma once
// A forward pass's view of a paged KV cache: page tables that are laid out once per step, for all layers.

#include <cstdint>
#include <span>
#include <vector>

#include "base/kv_type.h"
#include "tensor/tensor.h"

namespace tern {

/// Sequence i of the Rows is sequence i here. Its new keys and values are
/// first written to their pages; then its queries attend to all keys.
struct KvView {
  int64_t page_tokens = 0;
  std::vector<int64_t> past;    // (S) keys already stored
  std::vector<int64_t> begins;  // (S + 1) sequence i has pages[begins[i]] to pages[begins[i + 1] - 1]
  std::vector<int32_t> pages;   // page numbers, of each sequence in order
  /// One tensor per layer (num_pages, kv_heads, page_tokens, head_dim), with the layer's
  /// own number of heads; if rows are coded, the last dim is kv_row_bytes. Borrowed.
  std::span<const Tensor> keys, values;
  KvType code = KvType::q8;  // how rows are coded if keys and values are u8
};

}  // namespace tern
