#pragma once
// A grammar over bytes, ready to be run: rules as graphs of nodes, characters as the bytes of their UTF-8.

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
struct GrammarNode {
  NodeKind kind = NodeKind::leave;
  uint8_t low = 0, high = 0;
  bool useful = false;  // the end of its rule can be reached
  int32_t next = -1, other = -1;
};
/// Every useful prefix can be completed, and no rule calls itself before it has read a byte.
struct Grammar {
  std::vector<GrammarNode> nodes;
  int32_t root = -1;
};

/// llama.cpp's GBNF: `name ::= …` with "texts", [classes], [^classes], ., (groups), |, *, +, ?, {m}, {m,}, {m,n},
/// # comments; `root` is the start. A rule ends where the next begins, so alternatives may stand on lines of their own.
/// `place` opens every message. Errors  usage: PLACE, line and fact: syntax, a rule that is missing, calls itself first
/// (left recursion), or never ends; more than 2^18 nodes.
/// Source  llama.cpp's grammars/README.md (recalled).
Grammar parse_gbnf(std::string_view text, const std::string& place);

}  // namespace tern
