#pragma once
// What an untrusted tokenizer or regular expression may do with one text: the bytes it makes of the text, the steps of
// a pattern that goes back to try anew, and the work of all steps together, in proportion to the text. Without this limit
// such a tokenizer, small as its files are, could take all memory and time.

#include <cstddef>
#include <cstdint>

namespace tern {

/// One text's budget (of decoding: that of all pieces so far), shared by every step that works on it.
class TextBudget {
 public:
  /// No known tokenizer makes more than 24 bytes of one byte (NFKC of U+FDFA, then byte-level), or takes more than 20 steps
  /// for it. Each text has kAlwaysBytes, and kBytesPerByte more for each of its bytes; so too with steps and work.
  static constexpr int64_t kBytesPerByte = 64, kAlwaysBytes = 1 << 20;
  static constexpr int64_t kStepsPerByte = 64, kAlwaysSteps = 4'000'000;
  /// Work is counted in bytes that a step reads or writes, some 25 ns each at most. What takes longer counts as more
  /// bytes: each search of a pattern kSearchWork, on top of what its steps read; the first search of a text or word kFindWork
  /// on top of that; a word in a step of a pre-tokenizer kWordWork. Known tokenizers need some 400 for a byte: five patterns, each on
  /// words of one letter.
  static constexpr int64_t kWorkPerByte = 2048, kAlwaysWork = int64_t{1} << 26, kSearchWork = 16, kFindWork = 32;
  static constexpr size_t kWordWork = 8;

  explicit TextBudget(size_t text_bytes) { add(text_bytes); }
  /// The text has become longer.
  void add(size_t text_bytes) {
    bytes_ += kBytesPerByte * static_cast<int64_t>(text_bytes);
    steps_ += kStepsPerByte * static_cast<int64_t>(text_bytes);
    work_ += kWorkPerByte * static_cast<int64_t>(text_bytes);
  }
  /// Bytes that may still be made.
  size_t bytes_left() const { return static_cast<size_t>(bytes_); }
  int64_t steps_left() const { return steps_; }
  /// Errors: bad_file "WHO makes more than …": the budget is used up.
  void check_bytes(size_t bytes, const char* who) const;
  void spend_bytes(size_t bytes, const char* who);
  /// Takes steps off the budget; false: it is used up.
  bool spend_steps(int64_t steps) { return (steps_ -= steps) >= 0; }
  /// The same of work.
  bool spend_work(int64_t work) { return (work_ -= work) >= 0; }
  /// Errors: bad_file "WHO takes more than …": the budget is used up.
  void spend_work(size_t work, const char* who);

 private:
  int64_t bytes_ = kAlwaysBytes, steps_ = kAlwaysSteps, work_ = kAlwaysWork;
};

}  // namespace tern
