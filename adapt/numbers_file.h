#pragma once
// Named matrices of f64 that one task leaves for the next, in one safetensors file.

#include <map>
#include <string>
#include <vector>

namespace tern {

class Io;

struct NamedMatrix {
  int64_t width = 0;
  std::vector<double> numbers;  // (rows, width)
  int64_t num_rows() const { return width > 0 ? static_cast<int64_t>(numbers.size()) / width : 0; }
};
using NamedMatrices = std::map<std::string, NamedMatrix>;

/// Errors: those of write_safetensors.
void write_matrices(const NamedMatrices&, const std::string& path, Io&);
/// Errors: bad_file: a tensor that is no matrix of F64.
NamedMatrices read_matrices(const std::string& path);

}  // namespace tern
