#include "infer/prefix_cache.h"

#include <algorithm>

#include <utility>

namespace tern {

PrefixCache::PrefixCache(KvPool& pool) : pool_(pool), page_tokens_(static_cast<size_t>(pool.shape().page_tokens)) {}

PrefixCache::~PrefixCache() {
  for (Node* node : by_use_) pool_.release(node->page);
}

// FNV-1a over the ids.
size_t PrefixCache::HashTokens::operator()(const std::vector<int32_t>& tokens) const {
  uint64_t hash = 1469598103934665603ull;
  for (const int32_t id : tokens) hash = (hash ^ static_cast<uint32_t>(id)) * 1099511628211ull;
  return hash;
}

PrefixCache::Node* PrefixCache::child(Node& node, std::span<const int32_t> tokens) const {
  const auto found = node.children.find({tokens.begin(), tokens.end()});
  return found == node.children.end() ? nullptr : found->second.get();
}

void PrefixCache::used(Node* node) {
  for (; node->parent; node = node->parent) by_use_.splice(by_use_.begin(), by_use_, node->use);
}

KvPages PrefixCache::match(std::span<const int32_t> tokens, int adapter) {
  asked_ += static_cast<int64_t>(tokens.size());
  Node* at = &roots_[adapter];
  KvPages path;
  for (size_t end = page_tokens_; end < tokens.size(); end += page_tokens_) {
    Node* next = child(*at, tokens.subspan(end - page_tokens_, page_tokens_));
    if (!next) break;
    path.pages.push_back(next->page.pages.front());
    path.length += static_cast<int64_t>(page_tokens_);
    at = next;
  }
  used(at);
  found_ += path.length;
  return pool_.fork(path, path.length);
}

void PrefixCache::keep(std::span<const int32_t> tokens, const KvPages& kv, int adapter) {
  Node* at = &roots_[adapter];
  for (size_t end = page_tokens_; end <= static_cast<size_t>(kv.length); end += page_tokens_) {
    const auto here = tokens.subspan(end - page_tokens_, page_tokens_);
    Node* next = child(*at, here);
    if (!next) {
      auto node = std::make_unique<Node>();
      next = node.get();
      next->page = pool_.fork({.pages = {kv.pages[end / page_tokens_ - 1]}, .length = pool_.shape().page_tokens},
                              pool_.shape().page_tokens);
      next->parent = at;
      next->use = by_use_.insert(by_use_.begin(), next);
      next->tokens = &at->children.emplace(std::vector(here.begin(), here.end()), std::move(node)).first->first;
    }
    at = next;
  }
  used(at);
}

void PrefixCache::drop(Node& node) {
  pool_.release(node.page);
  by_use_.erase(node.use);
  node.parent->children.erase(node.parent->children.find(*node.tokens));
}

bool PrefixCache::reclaim() {
  const int64_t before = pool_.num_free();
  while (!by_use_.empty() && pool_.num_free() == before) drop(*by_use_.back());
  return pool_.num_free() > before;
}

int64_t PrefixCache::num_idle_pages() const {
  return std::count_if(by_use_.begin(), by_use_.end(),
                       [&](const Node* n) { return pool_.references(n->page.pages[0]) == 1; });
}

}  // namespace tern
