#pragma once
// The lengths of sequences that are not all equally long: a distribution, read from a file.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// `count` sequences of `length` tokens each.
struct LengthCount {
  int64_t length = 0, count = 0;
  friend bool operator==(const LengthCount&, const LengthCount&) = default;
};

/// A distribution of lengths.
struct SequenceLengths {
  std::vector<LengthCount> rows;      // ascending lengths, each once; counts of at least 1
  int64_t sequences = 0, tokens = 0;  // Σ count, Σ count · length
  double mean() const { return static_cast<double>(tokens) / static_cast<double>(sequences); }
  int64_t longest() const { return rows.back().length; }
  /// The least length that `share` of the sequences do not exceed.
  int64_t quantile(double share) const;
  /// A checksum of the distribution: it does not depend on the order of a file's lines, nor on how they split the count
  /// of a length.
  uint32_t crc() const;
};

/// Sorts the rows and joins those of equal length. Errors: TERN_CHECK: no row, a length outside 1 … 2^31 − 1, a count
/// below 1, more than 2^62 tokens.
SequenceLengths sequence_lengths(std::vector<LengthCount>);

/// Reads a text in which each line is one sequence's length in tokens, or `length,count`. Allowed too: blank lines, a first
/// line with names of columns (letters, no digits), counts of 0 and Windows line ends.
/// Errors  bad_file "PLACE:LINE: …": not a whole number, a length outside 1 … 2^31 − 1, a count outside 0 … 2^53,
///         more than 2^20 different lengths, more than 2^62 tokens; "PLACE: …": no length at all, more than 64 MiB.
SequenceLengths parse_sequence_lengths(std::string_view text, std::string_view place);
SequenceLengths read_sequence_lengths(const std::string& path);

}  // namespace tern
