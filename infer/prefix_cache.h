#pragma once
// Pages that ended or running sequences leave for whoever begins with the same tokens: a tree of whole pages, a page found
// by its tokens under its parent. Source of the idea: Kwon et al. 2023, arXiv:2309.06180 (recalled).

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "infer/kv_cache.h"
#include "spec/adapter_spec.h"

namespace tern {

/// It holds a reference of its own to each page it keeps, so that a page lives on without the sequence that wrote it. Keys
/// depend on the adapter and the tokens before them alone (kernels are row-invariant), so a page found has the bits of one
/// computed.
class PrefixCache {
 public:
  /// The pool must outlive it.
  explicit PrefixCache(KvPool&);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest run of kept pages that `tokens` begins with, without the last token, which its owner computes for its
  /// logits; shared, not copied. The caller releases them.
  KvPages match(std::span<const int32_t> tokens, int adapter = kNoAdapter);
  /// Keeps the whole pages of a sequence; those that are kept already stay as they are.
  void keep(std::span<const int32_t> tokens, const KvPages&, int adapter = kNoAdapter);
  /// Gives pages up, those used longest ago first and a page only after its children, until a page of the pool is free: a
  /// page that a sequence still uses frees nothing. False if nothing is left to give.
  bool reclaim();

  int64_t num_pages() const { return static_cast<int64_t>(by_use_.size()); }
  /// Of these, pages that no sequence holds. Takes time that grows with num_pages.
  int64_t num_idle_pages() const;
  int64_t asked_tokens() const { return asked_; }  // of all match calls
  int64_t found_tokens() const { return found_; }

 private:
  struct HashTokens {
    size_t operator()(const std::vector<int32_t>&) const;
  };
  struct Node {
    KvPages page;  // one
    Node* parent = nullptr;
    std::unordered_map<std::vector<int32_t>, std::unique_ptr<Node>, HashTokens> children;
    const std::vector<int32_t>* tokens = nullptr;  // its key in the parent
    std::list<Node*>::iterator use;
  };
  Node* child(Node&, std::span<const int32_t> tokens) const;
  void used(Node*);
  void drop(Node&);

  KvPool& pool_;
  size_t page_tokens_;
  std::unordered_map<int, Node> roots_;  // by adapter; a root has no parent and no page
  // Used last in front. A path is touched from its end to the root, so a parent always stands before its children, and the
  // last one has none.
  std::list<Node*> by_use_;
  int64_t asked_ = 0, found_ = 0;
};

}  // namespace tern
