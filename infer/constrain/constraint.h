#pragma once
// Decides which tokens may follow, so that a text stays one of a grammar.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "infer/constrain/automaton.h"

namespace tern {

class Tokenizer;  // formats/tokenizer/tokenizer.h

/// The bytes that each token writes, sorted by these bytes. Made once for a model; all constraints share it.
struct TokenTexts {
  struct Text {
    std::string bytes;
    int32_t id = 0;
    uint32_t common = 0;  // the number of first bytes that it has in common with the text before it
  };
  std::vector<Text> sorted;    // without special tokens and tokens that write nothing
  std::vector<int32_t> of_id;  // by id: the index in `sorted`, or −1
  int64_t vocab = 0;           // of the model
};
/// The texts of a tokenizer's tokens. Special tokens write nothing, except those of `spoken`, which write the text given with them.
TokenTexts token_texts(const Tokenizer&, int64_t vocab,
                       const std::vector<std::pair<int32_t, std::string>>& spoken = {});
/// The same for given texts: text i is that of id i; an empty text writes nothing.
TokenTexts token_texts(const std::vector<std::string>& texts);

/// One grammar over one vocabulary, for all samples of a request. It keeps a mask for each state. When states and masks take more than 8 MiB,
/// they are forgotten and made again. Used by one thread at a time.
class Constraint {
 public:
  Constraint(std::shared_ptr<const TokenTexts>, Grammar);
  /// The bytes of the grammar, without states and masks.
  int64_t grammar_bytes() const { return automaton_.grammar_bytes(); }
  /// The number of masks made so far. Any thread may call it.
  int64_t num_made() const { return num_made_.load(); }

 private:
  friend class ConstrainedText;
  const std::vector<uint64_t>& mask(int32_t state);
  int32_t make_room(int32_t state);  // its number from now on

  std::shared_ptr<const TokenTexts> texts_;
  Automaton automaton_;
  std::unordered_map<int32_t, std::vector<uint64_t>> masks_;
  uint64_t generation_ = 0;  // how often the states were forgotten
  std::atomic<int64_t> num_made_ = 0;
};

/// One text while it is written.
class ConstrainedText {
 public:
  explicit ConstrainedText(std::shared_ptr<Constraint>);
  /// Whether the mask of the next token is there.
  bool is_prepared() const;
  /// Makes the mask of the next token. It does not depend on scores, so this can be called while scores are computed. Errors: none; a fault that
  /// it meets is thrown by mask().
  void prepare();
  /// Sets the scores of tokens that may not follow to −inf. The tokens `ends` may follow if the text may end here. NaN scores stay.
  /// Errors  usage: no token of the vocabulary may follow; too many states.
  void mask(std::span<float> scores, std::span<const int32_t> ends);
  /// Appends a drawn token. Errors: TERN_CHECK: it may not follow.
  void push(int32_t token);
  /// Whether the text may end here.
  bool may_end();
  /// Whether the text is complete and nothing may follow.
  bool is_done();

 private:
  int32_t state();
  const std::vector<uint64_t>& bits();  // of the next token's mask

  std::shared_ptr<Constraint> constraint_;
  std::string text_;  // to find the state again after states were forgotten
  int32_t state_ = 0;
  uint64_t generation_ = ~uint64_t{0};
};

}  // namespace tern
