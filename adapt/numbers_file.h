#pragma once
// Reads and writes the matrices that one task of a stream leaves for the next.

#include <map>
#include <string>
#include <vector>

namespace tern {

class Io;

/// A matrix in f64, row-major.
/// Shapes  numbers: (num_rows, width).
struct NamedMatrix {
  int64_t width = 0;
  std::vector<double> numbers;  // (rows, width)
  int64_t num_rows() const { return width > 0 ? static_cast<int64_t>(numbers.size()) / width : 0; }
};
using NamedMatrices = std::map<std::string, NamedMatrix>;
/// Writes the matrices as one safetensors file. Errors: those of write_safetensors.
void write_matrices(const NamedMatrices&, const std::string& path, Io&);
/// Reads such a file. Errors: bad_file: a tensor is not a matrix of F64.
NamedMatrices read_matrices(const std::string& path);

}  // namespace tern
