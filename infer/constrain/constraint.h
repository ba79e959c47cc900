#pragma once
// Which tokens may follow, so that a text stays one of a grammar.

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

/// What each token writes, as bytes; in the order of the bytes. Made once for a model, shared by all constraints.
struct TokenTexts {
  struct Text {
    std::string bytes;
    int32_t id = 0;
    uint32_t common = 0;  // first bytes that it has in common with the one before
  };
  std::vector<Text> sorted;    // no special tokens and none that write nothing
  std::vector<int32_t> of_id;  // place in `sorted`, or -1
  int64_t vocab = 0;           // of the model
};
/// Special tokens write nothing, except those of `spoken`, which write the text given with them.
TokenTexts token_texts(const Tokenizer&, int64_t vocab,
                       const std::vector<std::pair<int32_t, std::string>>& spoken = {});
/// The same of given texts: text i is that of id i; empty: none.
TokenTexts token_texts(const std::vector<std::string>& texts);

/// One grammar over one vocabulary, for all samples of a request. Masks are kept by state, up to 8 MiB with the states;
/// beyond that they are made again. Used by one thread at a time.
class Constraint {
 public:
  Constraint(std::shared_ptr<const TokenTexts>, Grammar);
  /// Bytes that it takes before a text is begun; states and masks come beside them.
  int64_t grammar_bytes() const { return automaton_.grammar_bytes(); }
  /// Masks made so far; any thread may ask.
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
  /// The mask of the next token is kept; else prepare() makes it, so that mask() need not. It does not depend on scores, so
  /// both can be had while these are computed. Errors: none; mask() meets the same and tells it.
  bool is_prepared() const;
  void prepare();
  /// Scores of tokens that may not follow become -inf. The tokens `ends` may follow where the text may end. NaN scores
  /// stay. Errors  usage: no token of the vocabulary goes on; too many states.
  void mask(std::span<float> scores, std::span<const int32_t> ends);
  /// The token was drawn. Errors: bug, if it may not follow.
  void push(int32_t token);
  bool may_end();
  /// The text is complete and nothing may follow.
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
