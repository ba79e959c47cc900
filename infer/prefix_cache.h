#pragma once
// A cache of pages of keys that sequences have computed, for later sequences that begin with the same tokens. It is a tree of whole pages; a page
// is found under its parent by its tokens. Source of the idea: Kwon et al. 2023, arXiv:2309.06180 (recalled).

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "infer/kv_cache.h"
#include "spec/adapter_spec.h"

namespace tern {

/// It holds a reference of its own to each page, so that the page outlives the sequence that wrote it. Keys depend on nothing but the adapter
/// and the tokens up to them (kernels are row-invariant), so a page that is found has the bits of a page that is computed.
class PrefixCache {
 public:
  /// The pool must outlive it.
  explicit PrefixCache(KvPool&);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest run of kept pages with which `tokens` begin, without a page of the last token, as a sequence computes that token for its
  /// logits. The pages are shared, not copied. The caller releases them.
  KvPages match(std::span<const int32_t> tokens, int adapter = kNoAdapter);
  /// Keeps those whole pages of a sequence that are not kept yet.
  void keep(std::span<const int32_t> tokens, const KvPages&, int adapter = kNoAdapter);
  /// Gives up pages, those used longest ago first and a page only after its children, until the pool has one free page more
  /// than before. (Giving up a page that a sequence still uses frees none.) False: nothing is left to give up.
  bool reclaim();

  int64_t num_pages() const { return static_cast<int64_t>(by_use_.size()); }
  /// The number of kept pages that no sequence holds. Takes time that grows with num_pages.
  int64_t num_idle_pages() const;
  int64_t asked_tokens() const { return asked_; }  // over all calls of match
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
  // The page used most recently stands in front. A path is touched from its end to the root, so a parent always stands before
  // its children, and the last page has none.
  std::list<Node*> by_use_;
  int64_t asked_ = 0, found_ = 0;
};

}  // namespace tern
