#pragma once
// Reads bytes by a grammar: a pushdown automaton that numbers the states that it has met. Reading a byte in a known state a second time costs
// one look-up. A state is the set of all ways in which the grammar can read the text so far.

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "infer/constrain/grammar.h"

namespace tern {

class Automaton {
 public:
  static constexpr int32_t kDead = -1;
  explicit Automaton(Grammar);

  int32_t start();  // the state before the first byte
  /// The state after `byte`; kDead: no text of the grammar continues with it. Errors  usage: the grammar can be read in too many ways at once.
  int32_t next(int32_t state, uint8_t byte);
  /// Whether the text may end here.
  bool accepts(int32_t state) const { return states_[static_cast<size_t>(state)].accepts; }
  /// Whether no byte may follow.
  bool is_last(int32_t state) const { return states_[static_cast<size_t>(state)].ways.empty(); }
  /// Bytes of memory that the numbered states take.
  int64_t num_bytes() const { return num_bytes_; }
  int64_t grammar_bytes() const { return static_cast<int64_t>(grammar_.nodes.size() * sizeof(GrammarNode)); }
  /// Forgets all states; no earlier number is valid afterwards.
  void forget();
  /// Forgets all states but one, and returns the new number of that one.
  int32_t forget_others(int32_t state);

 private:
  // A node that reads bytes, and the rules that it returns to: a list in calls_, 0 is the empty one.
  using Way = std::pair<int32_t, uint32_t>;
  struct State {
    std::vector<Way> ways;  // sorted
    bool accepts = false;
    std::array<int32_t, 256> behind;
  };
  // A call of a rule: the node to continue with after it, and the list of the calls around it.
  struct Call {
    int32_t node;
    uint32_t outer;
  };
  struct Closure {
    std::vector<Way> open, ways;  // those still to be followed; those that read a byte
    bool accepts = false;
  };
  void follow(Closure&);
  uint32_t push(int32_t node, uint32_t outer);
  int32_t number(Closure&);

  Grammar grammar_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<Way>, bool>, int32_t> numbers_;
  std::vector<Call> calls_;
  std::unordered_map<uint64_t, uint32_t> call_numbers_;
  int64_t num_bytes_ = 0;
};

}  // namespace tern
