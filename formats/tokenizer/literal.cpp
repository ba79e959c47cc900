#include "formats/tokenizer/literal.h"

namespace tern {

std::vector<size_t> borders_of(std::string_view literal) {
  std::vector<size_t> borders(literal.size());
  for (size_t i = 1, n = 0; i < literal.size(); ++i) {
    while (n > 0 && literal[i] != literal[n]) n = borders[n - 1];
    n += literal[i] == literal[n];
    borders[i] = n;
  }
  return borders;
}

void find_literal(std::string_view text, std::string_view literal, std::vector<TextSpan>& matches) {
  constexpr size_t kShort = 32;  // so little is compared again and again in no time
  if (literal.size() <= kShort) {
    for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size()))
      matches.push_back({at, at + literal.size()});
    return;
  }
  if (text.size() < literal.size()) return;
  const std::vector<size_t> borders = borders_of(literal);
  for (size_t i = 0, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && literal[matched] != text[i]) matched = borders[matched - 1];
    matched += literal[matched] == text[i];
    if (matched < literal.size()) continue;
    matches.push_back({i + 1 - matched, i + 1});
    matched = 0;
  }
}

}  // namespace tern
