#include "model/weights_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "model/fragment.h"
#include "model/number.h"

namespace tern {

std::string weights_file(const std::string& model_dir) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(model_dir, ignored)) return model_dir;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (const fs::path p = fs::path(model_dir) / name; fs::exists(p, ignored)) return p.string();
  throw Error(
      ErrorKind::bad_file,
      "{}: no model.safetensors and no model.safetensors.index.json; expected the directory of a model with weights",
      model_dir);
}

namespace {

// The fragment's rows of `width` to `to`, from the view's elements, which lie as (file_rows, width), or as (width,
// file_rows) if transposed; of several such matrices from the fragment's.
template <class From, class To>
void copy_rows(const TensorView& view, const Fragment& f, int64_t width, To* to) {
  const std::byte* from = view.bytes.data() + f.slab * f.file_rows * width * static_cast<int64_t>(sizeof(From));
  const int64_t rows = f.row_end - f.row_begin;
  if (std::is_same_v<From, To> && !f.transposed && f.file_step == 1) {
    const int64_t row_bytes = width * static_cast<int64_t>(sizeof(From));
    from += f.file_row * row_bytes;
    // Touching memory for the first time costs more than copying: by all threads.
    parallel_ranges(rows * row_bytes, int64_t{1} << 20, 64, [&](int64_t begin, int64_t end) {
      std::memcpy(reinterpret_cast<std::byte*>(to) + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < width; ++k) {
      const int64_t row = f.file_row + r * f.file_step, at = f.transposed ? k * f.file_rows + row : row * width + k;
      to[r * width + k] = number_as<To>(load_number<From>(from + at * static_cast<int64_t>(sizeof(From))));
    }
}

}  // namespace

template <class To>
void copy_fragment(const TensorView& view, const std::string& path, const Fragment& f, int64_t width, To* to) {
  switch (view.dtype.value_or(DType::u8)) {
    case DType::f32:
      return copy_rows<float>(view, f, width, to);
    case DType::bf16:
      return copy_rows<bf16>(view, f, width, to);
    case DType::f16:
      return copy_rows<f16>(view, f, width, to);
    case DType::f64:
      return copy_rows<double>(view, f, width, to);
    default:
      break;
  }
  throw Error(ErrorKind::bad_file,
              "{}: tensor '{}' holds {}, expected F32, BF16, F16 or F64; quantized weights are not read yet", path,
              view.name, view.dtype_name);
}
template void copy_fragment(const TensorView&, const std::string&, const Fragment&, int64_t, float*);
template void copy_fragment(const TensorView&, const std::string&, const Fragment&, int64_t, bf16*);
template void copy_fragment(const TensorView&, const std::string&, const Fragment&, int64_t, double*);

}  // namespace tern
