#pragma once
// What an untrusted tokenizer or regular expression may do with one text: the bytes it makes of the text and the steps
// it takes, in proportion to the text. Without this limit such a tokenizer, small as its files are, could take all
// memory and time.

#include <cstddef>
#include <cstdint>

namespace tern {

/// One text's budget (of decoding: that of all pieces so far), shared by every step that works on it.
class TextBudget {
 public:
  /// No known tokenizer makes more than 24 bytes of one (NFKC of U+FDFA, then byte-level), or takes more than 20 steps
  /// for it. A text below 16 KiB may take what one of 16 KiB may.
  static constexpr int64_t kBytesPerByte = 64, kAlwaysBytes = 1 << 20;
  static constexpr int64_t kStepsPerByte = 64, kAlwaysSteps = 4'000'000;

  explicit TextBudget(size_t text_bytes) { add(text_bytes); }
  /// The text has become longer.
  void add(size_t text_bytes) {
    bytes_ += kBytesPerByte * static_cast<int64_t>(text_bytes);
    steps_ += kStepsPerByte * static_cast<int64_t>(text_bytes);
  }
  /// Bytes that may still be made.
  size_t bytes_left() const { return static_cast<size_t>(bytes_); }
  int64_t steps_left() const { return steps_; }
  /// Errors: bad_file "WHO makes more than …": the budget is used up.
  void check_bytes(size_t bytes, const char* who) const;
  void spend_bytes(size_t bytes, const char* who);
  /// Takes steps off the budget; false: it is used up.
  bool spend_steps(int64_t steps) { return (steps_ -= steps) >= 0; }

 private:
  int64_t bytes_ = kAlwaysBytes, steps_ = kAlwaysSteps;
};

}  // namespace tern
