#pragma once
// What the safetensors reader and writer share.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "formats/safetensors/safetensors.h"

namespace tern {

/// A row of the format's dtypes; `dtype` is absent where tern only lists the tensor.
struct SafetensorsType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;
};

/// All dtypes of the format in its own order; the writer sorts tensors from the last to the first.
std::span<const SafetensorsType> safetensors_types();
/// Row of `name`, or of a dtype; -1 if the format has no such name.
int safetensors_type_row(std::string_view name);
int safetensors_type_row(DType);

/// Bytes of a tensor of this shape; absent if the count overflows int64 or does not fill whole bytes.
std::optional<int64_t> safetensors_bytes(std::span<const int64_t> shape, uint64_t bits);

/// A name from a stranger's file, in quotes, escaped and cut to a length a message can bear.
std::string shown(std::string_view name);

/// "; did you mean \"…\"?", or nothing. Silent on huge lists and names, where looking would cost more than it helps.
std::string nearest_tensor(std::string_view name, const std::vector<std::string_view>& names);
/// Errors: bad_file if the tensor's dtype is one tern only lists.
void check_readable(const std::string& place, const TensorView&);

}  // namespace tern
