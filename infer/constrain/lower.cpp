// Rules to nodes, each part before what follows it is known: built from the end to the beginning.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "infer/constrain/expression.h"

namespace tern {
namespace {

constexpr size_t kMostNodes = size_t{1} << 18;

struct Lowering {
  Grammar grammar = {};
  const std::string& place;
  std::vector<std::pair<int32_t, int32_t>> calls = {};  // node, rule

  int32_t add(const GrammarNode& node) {
    if (grammar.nodes.size() >= kMostNodes)
      throw Error(ErrorKind::usage,
                  "{}: needs more than {} states; make its repetitions ({{m,n}}, maxLength, maxItems) smaller", place,
                  kMostNodes);
    grammar.nodes.push_back(node);
    return static_cast<int32_t>(grammar.nodes.size()) - 1;
  }
  int32_t bytes(uint8_t low, uint8_t high, int32_t next) {
    return add({.kind = NodeKind::bytes, .low = low, .high = high, .next = next});
  }
  int32_t fork(int32_t a, int32_t b) {
    return a < 0 ? b : b < 0 ? a : add({.kind = NodeKind::fork, .next = a, .other = b});
  }
  int32_t chars(uint32_t low, uint32_t high, int32_t next);
  int32_t lower(const Expression&, int32_t next);
  int32_t lower_repeat(const Expression&, int32_t next);
};

// Code points [low, high] as byte ranges: cut where the number of bytes changes, then where the last bytes of a range
// are not all there. Source: R. Cox, "Regular Expression Matching in the Wild", 2010 (recalled).
int32_t Lowering::chars(uint32_t low, uint32_t high, int32_t next) {
  for (const uint32_t last : {0x7fu, 0x7ffu, 0xd7ffu, 0xffffu})
    if (low <= last && last < high) return fork(chars(low, last, next), chars(last + 1, high, next));
  if (low >= 0xd800 && high <= 0xdfff) return -1;  // surrogates are no characters
  if (low >= 0xd800 && low <= 0xdfff) low = 0xe000;
  if (high < 0x80) return bytes(static_cast<uint8_t>(low), static_cast<uint8_t>(high), next);
  for (int i = 1; i < 4; ++i) {
    const uint32_t mask = (1u << (6 * i)) - 1;
    if ((low & ~mask) == (high & ~mask)) break;
    if ((low & mask) != 0) return fork(chars(low, low | mask, next), chars((low | mask) + 1, high, next));
    if ((high & mask) != mask) return fork(chars(low, (high & ~mask) - 1, next), chars(high & ~mask, high, next));
  }
  std::string first, last;
  append_utf8(first, low), append_utf8(last, high);
  for (size_t i = first.size(); i-- > 0;)
    next = bytes(static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i]), next);
  return next;
}

int32_t Lowering::lower_repeat(const Expression& e, int32_t next) {
  const Expression& body = e.parts[0];
  int32_t at = next;
  if (e.most < 0) {
    at = add({.kind = NodeKind::fork, .next = -1, .other = next});
    const int32_t inner = lower(body, at);
    grammar.nodes[static_cast<size_t>(at)].next = inner;
  } else {
    for (int64_t i = e.least; i < e.most; ++i) at = fork(lower(body, at), next);
  }
  for (int64_t i = 0; i < e.least; ++i) {
    const size_t before = grammar.nodes.size();
    at = lower(body, at);
    if (grammar.nodes.size() == before) break;  // nothing, however often
  }
  return at;
}

int32_t Lowering::lower(const Expression& e, int32_t next) {
  switch (e.kind) {
    case ExpressionKind::text:
      for (size_t i = e.text.size(); i-- > 0;)
        next = bytes(static_cast<uint8_t>(e.text[i]), static_cast<uint8_t>(e.text[i]), next);
      return next;
    case ExpressionKind::chars: {
      int32_t at = -1;
      for (const auto& [low, high] : e.chars)
        if (const int32_t one = chars(low, high, next); one >= 0) at = fork(at, one);
      // No character at all: a byte range that holds none.
      return at >= 0 ? at : bytes(1, 0, next);
    }
    case ExpressionKind::rule: {
      const int32_t at = add({.kind = NodeKind::call, .next = next});
      calls.emplace_back(at, e.rule);
      return at;
    }
    case ExpressionKind::sequence:
      for (size_t i = e.parts.size(); i-- > 0;) next = lower(e.parts[i], next);
      return next;
    case ExpressionKind::choice: {
      int32_t at = -1;
      for (size_t i = e.parts.size(); i-- > 0;) {
        const int32_t one = lower(e.parts[i], next);
        at = at < 0 ? one : fork(one, at);
      }
      return at;
    }
    case ExpressionKind::repeat:
      return lower_repeat(e, next);
  }
  return next;
}

// What can reach the end of its rule; without `with_bytes`, what can do so before a byte is read. A node waits for one of
// those it leads to, a call for both; each that is found tells those that wait for it, so time is linear in the nodes.
// Source: Dowling & Gallier 1984, Horn clauses (recalled).
std::vector<bool> reaches_end(const std::vector<GrammarNode>& nodes, bool with_bytes) {
  const auto for_each_awaited = [&](size_t i, const auto& visit) {
    const GrammarNode& n = nodes[i];
    if (n.kind == NodeKind::leave || (n.kind == NodeKind::bytes && !(with_bytes && n.low <= n.high))) return;
    visit(static_cast<size_t>(n.next));
    if (n.kind != NodeKind::bytes) visit(static_cast<size_t>(n.other));
  };
  std::vector<uint32_t> first(nodes.size() + 1);  // of node i in `waiting`, which has lists one behind the other
  for (size_t i = 0; i < nodes.size(); ++i) for_each_awaited(i, [&](size_t to) { ++first[to + 1]; });
  for (size_t i = 0; i < nodes.size(); ++i) first[i + 1] += first[i];
  std::vector<uint32_t> waiting(first.back()), filled(first.begin(), first.end() - 1);
  for (size_t i = 0; i < nodes.size(); ++i)
    for_each_awaited(i, [&](size_t to) { waiting[filled[to]++] = static_cast<uint32_t>(i); });
  std::vector<bool> is(nodes.size());
  std::vector<uint8_t> missing(nodes.size(), 1);
  std::vector<size_t> open;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == NodeKind::call) missing[i] = 2;
    if (nodes[i].kind == NodeKind::leave) is[i] = true, open.push_back(i);
  }
  while (!open.empty()) {
    const size_t found = open.back();
    open.pop_back();
    for (uint32_t k = first[found]; k < first[found + 1]; ++k) {
      const size_t i = waiting[k];
      if (is[i] || --missing[i] > 0) continue;
      is[i] = true;
      open.push_back(i);
    }
  }
  return is;
}

// A rule that calls itself before a byte was read would be called for ever.
void refuse_left_recursion(const Grammar& g, const std::vector<Rule>& rules, const std::vector<int32_t>& entries,
                           const std::vector<std::pair<int32_t, int32_t>>& calls, const std::string& place) {
  const std::vector<bool> empty = reaches_end(g.nodes, false);
  std::vector<int32_t> rule_of(g.nodes.size(), -1);
  for (const auto& [node, rule] : calls) rule_of[static_cast<size_t>(node)] = rule;
  std::vector<std::vector<int32_t>> first_calls(rules.size());
  std::vector<size_t> seen(g.nodes.size());  // by the rule r as r + 1
  for (size_t r = 0; r < rules.size(); ++r) {
    std::vector<int32_t> open = {entries[r]};
    while (!open.empty()) {
      const auto at = static_cast<size_t>(open.back());
      open.pop_back();
      if (seen[at] == r + 1) continue;
      seen[at] = r + 1;
      const GrammarNode& n = g.nodes[at];
      if (n.kind == NodeKind::fork) open.push_back(n.next), open.push_back(n.other);
      if (n.kind != NodeKind::call) continue;
      first_calls[r].push_back(rule_of[at]);
      if (empty[static_cast<size_t>(n.other)]) open.push_back(n.next);
    }
  }
  std::vector<int> state(rules.size());  // 0 new, 1 on the way, 2 done
  for (size_t start = 0; start < rules.size(); ++start) {
    std::vector<std::pair<size_t, size_t>> way = {{start, 0}};  // rule, next of its calls
    if (state[start] != 0) continue;
    state[start] = 1;
    while (!way.empty()) {
      auto& [r, i] = way.back();
      if (i == first_calls[r].size()) {
        state[r] = 2;
        way.pop_back();
        continue;
      }
      const auto called = static_cast<size_t>(first_calls[r][i++]);
      if (state[called] == 1)
        throw Error(ErrorKind::usage,
                    "{}: rule '{}' calls itself before it has read a character (left recursion); write the repetition "
                    "as (…)*",
                    place, rules[called].name);
      if (state[called] == 0) state[called] = 1, way.emplace_back(called, 0);
    }
  }
}

}  // namespace

Grammar lower_rules(const std::vector<Rule>& rules, const std::string& place) {
  Lowering lowering{.place = place};
  std::vector<int32_t> entries;
  int32_t root = -1;
  const int32_t leave = lowering.add({});
  for (const Rule& rule : rules) {
    if (!rule.defined) throw Error(ErrorKind::usage, "{}: rule '{}' is used and not there", place, rule.name);
    entries.push_back(lowering.lower(rule.body, leave));
    if (rule.name == "root") root = entries.back();
  }
  if (root < 0) throw Error(ErrorKind::usage, "{}: there is no rule 'root', where a text would begin", place);
  for (const auto& [node, rule] : lowering.calls)
    lowering.grammar.nodes[static_cast<size_t>(node)].other = entries[static_cast<size_t>(rule)];
  Grammar grammar = std::move(lowering.grammar);
  grammar.root = root;
  refuse_left_recursion(grammar, rules, entries, lowering.calls, place);
  const std::vector<bool> useful = reaches_end(grammar.nodes, true);
  for (size_t i = 0; i < useful.size(); ++i) grammar.nodes[i].useful = useful[i];
  if (!useful[static_cast<size_t>(root)])
    throw Error(ErrorKind::usage, "{}: no text can ever satisfy it: 'root' does not come to an end", place);
  return grammar;
}

}  // namespace tern
