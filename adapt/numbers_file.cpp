#include "adapt/numbers_file.h"

#include <cstring>

#include "base/error.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"

namespace tern {

void write_matrices(const NamedMatrices& matrices, const std::string& path, Io& io) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, m] : matrices)
    tensors.push_back({.name = name,
                       .dtype = DType::f64,
                       .shape = {m.num_rows(), m.width},
                       .bytes = std::as_bytes(std::span(m.numbers)),
                       .produce = {}});
  write_safetensors(io, path, tensors);
}

NamedMatrices read_matrices(const std::string& path) {
  const Safetensors file(path);
  NamedMatrices matrices;
  for (size_t i = 0; i < file.size(); ++i) {
    const TensorView t = file[i];
    if (t.dtype != DType::f64 || t.shape.size() != 2)
      throw Error(ErrorKind::bad_file, "{}: tensor '{}' is {} of shape {}, expected a matrix of F64", path, t.name,
                  t.dtype_name, shape_text(t.shape));
    NamedMatrix m{.width = t.shape[1], .numbers = std::vector<double>(static_cast<size_t>(t.num_elements()))};
    std::memcpy(m.numbers.data(), t.bytes.data(), t.bytes.size());
    matrices.emplace(t.name, std::move(m));
  }
  return matrices;
}

}  // namespace tern
