#pragma once
// Fronts of rows of integers where smaller is better. The search asks millions of times whether a row that it
// keeps is in no number larger than a new row. Here eight rows lie side by side, number by number, so that one step
// compares all eight.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

/// A front of rows.
class RowFront {
 public:
  /// `numbers`: how many numbers a row has, at least 1.
  explicit RowFront(int numbers) : numbers_(numbers) {}

  /// Whether a kept row is in no number larger than this one. The block that covered the last row is compared first.
  bool covers(const int64_t* row) const;
  /// Whether this row is in no number larger than some kept row.
  bool has_worse(const int64_t* row) const;
  void push(const int64_t* row);
  void clear() { size_ = 0, blocks_.clear(), first_ = 0; }
  int size() const { return size_; }
  /// Rows that covers() has compared so far. Order: the same for the same calls, whatever the machine.
  int64_t compared() const { return compared_; }

  static constexpr int kSide = 8;  // rows in a block

 private:
  int numbers_, size_ = 0;
  std::vector<int64_t> blocks_;  // (blocks)(numbers)(kSide); places without a row hold the largest number
  mutable size_t first_ = 0;     // block
  mutable int64_t compared_ = 0;
};

}  // namespace tern
