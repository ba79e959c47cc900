#pragma once
// The source of a template as tokens: text outside of tags, and what stands inside them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::jinja {

/// Kinds of tokens.
enum class Token : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,
  integer,
  real,
  op,
  end
};

/// A token and its line.
struct TokenAt {
  Token token;
  int line;
  std::string text;  // data, names, operators, texts without quotes and escapes; numbers without '_'
  int base = 10;     // of an integer
  bool is(Token t, std::string_view s) const { return token == t && text == s; }
};

/// Tokens of the source with trim_blocks and lstrip_blocks, comments gone, the last one `end`.
/// Errors  Failure syntax, unsupported, with the line.
std::vector<TokenAt> lex(std::string_view source);

}  // namespace tern::jinja
