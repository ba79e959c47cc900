#pragma once
// Where rows of a parameter stand in Hugging Face's files.

#include <cstdint>
#include <string>

namespace tern {

/// Where some rows of one of our tensors stand in a Hugging Face file. `transposed`: the file holds (in, out) (GPT-2's
/// Conv1D). Several fragments may name one tensor of the file, each its own rows of it.
struct Fragment {
  std::string name;
  int64_t row_begin, row_end;
  bool transposed;
  int64_t file_row, file_rows;  // the place of the first row in the file's tensor, and the number of that tensor's rows
  int64_t file_step = 1;        // from one row to the next there
  // A tensor of all experts holds `slabs` matrices of file_rows rows, and has a dim for them in front; 0: it is one matrix.
  int64_t slab = 0, slabs = 0;

  /// The fragment's first row and the tensor's number of rows, counted as if the tensor's matrices stood one below the other.
  int64_t first_row() const { return slab * file_rows + file_row; }
  int64_t all_rows() const { return slabs > 0 ? slabs * file_rows : file_rows; }
};

}  // namespace tern
