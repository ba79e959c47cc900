#pragma once
// A grammar over bytes, as the automaton reads it: rules are graphs of nodes, characters are the bytes of their UTF-8.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

enum class NodeKind : uint8_t {
  bytes,  // one byte in [low, high], then `next`
  fork,   // `next` or `other`
  call,   // the graph that begins at `other`, then `next`
  leave,  // the end of a rule
};
/// A node; `next` and `other` are indices of nodes.
struct GrammarNode {
  NodeKind kind = NodeKind::leave;
  uint8_t low = 0, high = 0;
  bool useful = false;  // whether the end of its rule can be reached from it
  int32_t next = -1, other = -1;
};
/// A grammar. A text that has been read through useful nodes can always be completed, and no rule calls itself before it has read a byte.
struct Grammar {
  std::vector<GrammarNode> nodes;
  int32_t root = -1;
};

/// Reads llama.cpp's GBNF: `name ::= …` with "texts", [classes], [^classes], ., (groups), |, *, +, ?, {m}, {m,}, {m,n}, and # comments. `root` is
/// the rule to start with. A rule ends where the next begins, so alternatives may stand on lines of their own. `place` opens every message.
/// Errors  usage, with place, line and fact: wrong syntax; a rule that is missing, calls itself first (left recursion), or never ends; more
///         than 2^18 nodes.
/// Source  llama.cpp's grammars/README.md (recalled).
Grammar parse_gbnf(std::string_view text, const std::string& place);

}  // namespace tern
