#pragma once
// What bitsandbytes writes beside a matrix in NF4: a JSON text as a tensor of bytes.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tern {

/// How a matrix in NF4 is stored.
struct Nf4State {
  int64_t block = 0;             // numbers that share a scale
  int64_t nested_block = 0;      // scales that share one of their own; 0: not said
  std::optional<double> offset;  // of scales that are coded themselves
  std::vector<int64_t> shape;    // empty: not said
};
/// Errors  bad_file naming `place`: no such text, a blocksize that is no number above 0.
Nf4State parse_nf4_state(std::string_view text, std::string_view place);

}  // namespace tern
