#pragma once
// Tests only: whether an automaton, or a grammar, takes a text.

#include <cstdint>
#include <string>
#include <string_view>

#include "infer/constrain/automaton.h"

namespace tern {

inline bool takes(Automaton& a, std::string_view text) {
  int32_t state = a.start();
  for (const char c : text)
    if ((state = a.next(state, static_cast<uint8_t>(c))) == Automaton::kDead) return false;
  return a.accepts(state);
}
inline bool takes(const std::string& gbnf, std::string_view text) {
  Automaton a(parse_gbnf(gbnf, "test.gbnf"));
  return takes(a, text);
}

}  // namespace tern
