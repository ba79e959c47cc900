#pragma once
// A grammar as it is written, and its lowering to nodes. Stays in infer/constrain/.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "infer/constrain/grammar.h"

namespace tern {

enum class ExpressionKind : uint8_t { text, chars, rule, sequence, choice, repeat };
struct Expression {
  ExpressionKind kind = ExpressionKind::sequence;
  std::string text = {};                                  // of a text
  std::vector<std::pair<uint32_t, uint32_t>> chars = {};  // code points, both ends in it; in order and apart
  int32_t rule = -1;
  std::vector<Expression> parts = {};
  int64_t least = 0, most = -1;  // of a repeat; -1: any number
};
struct Rule {
  std::string name;
  Expression body;
  bool defined = false;
};

/// Errors: those of parse_gbnf other than syntax.
Grammar lower_rules(const std::vector<Rule>&, const std::string& place);

}  // namespace tern
