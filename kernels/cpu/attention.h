#pragma once
// Grouped-query attention, causal by default, by online softmax over a ragged batch; keys in pages or plain rows. No
// T×T matrix in memory. T is float or bf16; scores, softmax and sums in f32. Twin: kernels/ref/attention_ref.h
// (doubles). Source: Dao et al. 2022, arXiv:2205.14135; backward: Dao 2023, arXiv:2307.08691.

#include <cstdint>
#include <span>
#include <type_traits>

#include "base/kv_type.h"

namespace tern {

struct AttentionShape {
  int64_t heads, kv_heads, head_dim;  // heads a multiple of kv_heads; query head h reads kv head h / (heads/kv_heads)
  float scale;                        // usually 1/sqrt(head_dim)
  int64_t window;                     // 0: none; else a query at position p sees keys p-window+1 … p
  int64_t q_stride, kv_stride;        // elements from one token's row to the next, in q and in keys/values
  int64_t out_stride;
  bool causal = true;             // false: every query sees every key, and there is no window
  float softcap = 0;              // scores become softcap·tanh(score/softcap) before any bias; 0: none
  const float* slopes = nullptr;  // (heads), or null: query p's score for key j is raised by slope_factor·slope·(j - p)
  bool slopes_in_bf16 =
      false;  // true: slope_factor·(bf16(slope·j) - bf16(slope·p)) is added instead; the slopes are rounded to bf16
              // already
  float slope_factor = 1;
};

/// Keys, or values, in numbered pages of one storage: page p begins p·page_stride elements behind page 0. A cache keeps a
/// head's keys of a page together, so that a thread reads contiguous memory.
struct PageLayout {
  int64_t page_tokens, page_stride;
  int64_t key_stride,
      head_stride;  // elements inside a page: from a key to the next key of the same head; from a head to the next head
};
/// Rows of a cache as bytes of `type`. Null pointers: the cache keeps rows of T (AttentionSequence's keys and values).
struct KvRowsAt {
  KvType type = KvType::f32;
  const uint8_t *keys = nullptr, *values = nullptr;
};
/// The type of sums over values of T; double is the twin's (kernels/ref/attention_ref.h).
template <class T>
using AttentionSum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// One sequence. Its queries are rows [query_begin, query_begin + query_count) of q and out; if `ahead` is 0, the
/// queries stand at the last query_count of the num_keys positions.
template <class T>
struct AttentionSequence {
  int64_t query_begin, query_count, num_keys;
  const T *keys, *values;  // without pages: the row of position 0; the next position's row is kv_stride further
  /// Key j is row j % page_tokens of page pages[j / page_tokens]. Page 0 of the storage begins at `keys`.
  const int32_t* pages = nullptr;
  PageLayout layout = {};
  /// If pages keep rows in another type than T (kernels/cpu/kv_rows.h), `kept` replaces `keys` and `values`, and the strides of `layout` are
  /// in bytes. Each block of rows is decoded when it is read. The result has the bits of attention over decoded rows.
  KvRowsAt kept = {};
  /// If `keys` and `values` hold only one block of the sequence's keys and values (kernels/cpu/attention_onto.h), `onto` is set: the
  /// block's result is folded into `onto` and lse, and out is not written.
  int64_t ahead = 0;                // the position of the last query minus the position of the block's last key
  AttentionSum<T>* onto = nullptr;  // rows as those of out
};

/// out row = Σ_j softmax_j(scale·q·k_j) v_j; lse (rows, heads) = log Σ_j exp(scale·q·k_j), may be empty.
/// Order   keys in fixed blocks counted from position 0 of the
///         sequence: a row's bits depend neither on chunking, nor on
///         pages, nor on other rows, nor on threads.
/// A page with no key in any query's window is not read; its entry in `pages` may be any number. scale > 0.
template <class T>
void attention_forward(const AttentionShape&, std::span<const AttentionSequence<T>>, const T* q, T* out,
                       std::span<float> lse);

/// Plain rows only (training): sequence s is rows [starts[s], starts[s+1]) of q, k, v, out, dout; strides as in the
/// shape (k, v, dk, dv share kv_stride; q, dq share q_stride; out, dout share out_stride). dq, dk, dv are overwritten.
///   P_ij = exp(scale·q_i·k_j - lse_i),  D_i = Σ dout_i·out_i,  dV_j = Σ_i P_ij dout_i,
///   dS_ij = P_ij (dout_i·v_j - D_i),  dq_i = scale Σ_j dS_ij k_j,  dk_j = scale Σ_i dS_ij q_i.
/// Order   fixed: dq_i sums key blocks ascending, dk_j and
///         dv_j sum tiles of queries ascending, each on one
///         thread; nothing depends on the number of threads.
template <class T>
void attention_backward(const AttentionShape&, std::span<const int64_t> starts, const T* q, const T* k, const T* v,
                        const T* out, const T* dout, std::span<const float> lse, T* dq, T* dk, T* dv);

/// An upper bound of the scratch bytes that a thread allocates at the first call and keeps. Backward: for sequences of up
/// to `longest` tokens; a larger `longest` never gives fewer bytes.
int64_t attention_scratch_bytes(const AttentionShape&);
int64_t attention_backward_scratch_bytes(const AttentionShape&, int64_t longest);

}  // namespace tern
