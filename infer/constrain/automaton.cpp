#include "infer/constrain/automaton.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace tern {
namespace {

constexpr int32_t kUnknown = -2;
constexpr size_t kMostWays = 4096;

}  // namespace

Automaton::Automaton(Grammar grammar) : grammar_(std::move(grammar)) { forget(); }

void Automaton::forget() {
  states_.clear(), numbers_.clear(), call_numbers_.clear();
  calls_.assign(1, {-1, 0});
  num_bytes_ = 0;
}

int32_t Automaton::forget_others(int32_t state) {
  const State kept = states_[static_cast<size_t>(state)];
  const std::vector<Call> calls = calls_;
  forget();
  Closure c;
  c.accepts = kept.accepts;
  for (const auto& [node, outer] : kept.ways) {
    std::vector<int32_t> nodes;
    for (uint32_t at = outer; at != 0; at = calls[at].outer) nodes.push_back(calls[at].node);
    uint32_t list = 0;
    for (size_t i = nodes.size(); i-- > 0;) list = push(nodes[i], list);
    c.ways.emplace_back(node, list);
  }
  return number(c);
}

// A call that is the last thing of its rule returns to where that rule would: lists grow with nesting, not with length.
uint32_t Automaton::push(int32_t node, uint32_t outer) {
  if (grammar_.nodes[static_cast<size_t>(node)].kind == NodeKind::leave) return outer;
  const uint64_t key = static_cast<uint64_t>(node) << 32 | outer;
  const auto [found, is_new] = call_numbers_.emplace(key, static_cast<uint32_t>(calls_.size()));
  if (is_new) calls_.push_back({node, outer}), num_bytes_ += 64;
  return found->second;
}

void Automaton::follow(Closure& c) {
  std::unordered_set<uint64_t> seen;
  while (!c.open.empty()) {
    const auto [node, outer] = c.open.back();
    c.open.pop_back();
    const GrammarNode& n = grammar_.nodes[static_cast<size_t>(node)];
    if (!n.useful || !seen.insert(static_cast<uint64_t>(node) << 32 | outer).second) continue;
    if (seen.size() > kMostWays)
      throw Error(ErrorKind::usage,
                  "the grammar can be read in more than {} ways at once; make it say one thing in one way", kMostWays);
    switch (n.kind) {
      case NodeKind::bytes:
        c.ways.emplace_back(node, outer);
        break;
      case NodeKind::fork:
        c.open.emplace_back(n.next, outer);
        c.open.emplace_back(n.other, outer);
        break;
      case NodeKind::call:
        c.open.emplace_back(n.other, push(n.next, outer));
        break;
      case NodeKind::leave:
        if (outer == 0)
          c.accepts = true;
        else
          c.open.emplace_back(calls_[outer].node, calls_[outer].outer);
        break;
    }
  }
}

int32_t Automaton::number(Closure& c) {
  if (c.ways.empty() && !c.accepts) return kDead;
  std::sort(c.ways.begin(), c.ways.end());
  const auto [found, is_new] =
      numbers_.emplace(std::pair(std::move(c.ways), c.accepts), static_cast<int32_t>(states_.size()));
  if (is_new) {
    State state{.ways = found->first.first, .accepts = c.accepts, .behind = {}};
    state.behind.fill(kUnknown);
    num_bytes_ += static_cast<int64_t>(sizeof(State) + 2 * state.ways.size() * sizeof(Way) + 128);
    states_.push_back(std::move(state));
  }
  return found->second;
}

int32_t Automaton::start() {
  Closure c;
  c.open.emplace_back(grammar_.root, 0);
  follow(c);
  return number(c);
}

int32_t Automaton::next(int32_t state, uint8_t byte) {
  const int32_t known = states_[static_cast<size_t>(state)].behind[byte];
  if (known != kUnknown) return known;
  Closure c;
  for (const auto& [node, outer] : states_[static_cast<size_t>(state)].ways) {
    const GrammarNode& n = grammar_.nodes[static_cast<size_t>(node)];
    if (n.low <= byte && byte <= n.high) c.open.emplace_back(n.next, outer);
  }
  follow(c);
  const int32_t behind = number(c);
  states_[static_cast<size_t>(state)].behind[byte] = behind;
  return behind;
}

}  // namespace tern
