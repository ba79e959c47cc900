#pragma once
// A grammar as people write it, and its lowering to nodes (grammar.h). For infer/constrain/ alone.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "infer/constrain/grammar.h"

namespace tern {

enum class ExpressionKind : uint8_t { text, chars, rule, sequence, choice, repeat };
/// A node of the grammar's syntax tree.
struct Expression {
  ExpressionKind kind = ExpressionKind::sequence;
  std::string text = {};  // of a text
  // Ranges of code points, ends included; ascending and disjoint.
  std::vector<std::pair<uint32_t, uint32_t>> chars = {};
  int32_t rule = -1;  // index of a rule
  std::vector<Expression> parts = {};
  int64_t least = 0, most = -1;  // of a repeat; -1: any number
};
struct Rule {
  std::string name;
  Expression body;
  bool defined = false;
};

/// The rules as a graph of nodes. `place` opens every message. Errors: those of parse_gbnf but for syntax.
Grammar lower_rules(const std::vector<Rule>&, const std::string& place);

}  // namespace tern
