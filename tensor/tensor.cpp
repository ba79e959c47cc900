#include "tensor/tensor.h"

#include <cstring>

#include "base/error.h"

namespace tern {

Shape::Shape(std::initializer_list<int64_t> dims) {
  TERN_CHECK(dims.size() <= static_cast<size_t>(kMaxRank), "Shape: {} dimensions, at most {}", dims.size(), +kMaxRank);
  for (const int64_t d : dims) {
    TERN_CHECK(d >= 0, "Shape: dimension {} is {}", rank, d);
    sizes[rank++] = d;
  }
}

int64_t Shape::count() const {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d)
    TERN_CHECK(!__builtin_mul_overflow(n, sizes[d], &n), "Shape: {} has more elements than 2^63", to_string(*this));
  return n;
}

std::string to_string(const Shape& shape) {
  std::string s = "(";
  for (int d = 0; d < shape.rank; ++d) s += (d ? ", " : "") + std::to_string(shape.sizes[d]);
  return s + (shape.rank == 1 ? ",)" : ")");
}

Tensor Tensor::borrow(DType dtype, Shape shape, void* data, std::shared_ptr<void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.data_ = data;
  t.storage_ = std::move(owner);
  return t;
}

Tensor Tensor::rows_view(int64_t begin, int64_t end) const {
  TERN_CHECK(shape_.rank >= 1 && 0 <= begin && begin <= end && end <= shape_[0], "rows_view: [{}, {}) of {}", begin,
             end, to_string(shape_));
  Tensor t = *this;
  const int64_t row_bytes = shape_[0] == 0 ? 0 : bytes() / shape_[0];
  t.shape_.sizes[0] = end - begin;
  t.data_ = static_cast<std::byte*>(data_) + begin * row_bytes;
  return t;
}

Tensor Tensor::reshaped(Shape shape) const {
  TERN_CHECK(shape.count() == count(), "reshaped: {} has not as many elements as {}", to_string(shape),
             to_string(shape_));
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

void Tensor::fill_zero() const {
  if (data_) std::memset(data_, 0, static_cast<size_t>(bytes()));
}

void Tensor::check_type(DType asked) const {
  TERN_CHECK(asked == dtype_, "Tensor: asked for {} elements, holds {}", name_of(asked), name_of(dtype_));
}

}  // namespace tern
