#pragma once
// Where rows of a parameter stand in Hugging Face's files.

#include <cstdint>
#include <string>

namespace tern {

/// The place of some rows of one of our tensors in a Hugging Face file. `transposed`: the file holds (in,
/// out) (GPT-2's Conv1D). Several fragments may name one tensor of the file, each for other rows of it.
struct Fragment {
  std::string name;
  int64_t row_begin, row_end;
  bool transposed;
  int64_t file_row, file_rows;  // the place of the first row in the file's tensor, and the number of that tensor's rows
  int64_t file_step = 1;        // from one of these rows to the next, in rows of the file's tensor
  // slabs > 0: the tensor joins all experts: it has a leading dim of `slabs` matrices of file_rows rows, and the rows are in matrix `slab`.
  int64_t slab = 0, slabs = 0;

  /// The fragment's first row and the tensor's number of rows, counted as if the tensor's matrices stood one below the other.
  int64_t first_row() const { return slab * file_rows + file_row; }
  int64_t all_rows() const { return slabs > 0 ? slabs * file_rows : file_rows; }
};

}  // namespace tern
