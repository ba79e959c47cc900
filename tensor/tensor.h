#pragma once
// Tensor: dtype, shape, and contiguous storage that is shared and counted. Tensors have views but no arithmetic: kernels compute on spans.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"

namespace tern {

/// At most four dimensions; unused ones are absent (rank says how many).
struct Shape {
  static constexpr int kMaxRank = 4;
  std::array<int64_t, kMaxRank> sizes{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  int64_t operator[](int dim) const { return sizes[dim]; }
  int64_t count() const;  // 1 for rank 0
  friend bool operator==(const Shape&, const Shape&) = default;
};
std::string to_string(const Shape&);  // "(3, 4)"

class Arena;

/// A handle on contiguous row-major elements. Copies share the storage; the last handle frees it and ends its count.
class Tensor {
 public:
  Tensor() = default;
  /// Wraps memory that `owner` keeps alive (a mapped file, a vector); counted nowhere.
  static Tensor borrow(DType, Shape, void* data, std::shared_ptr<void> owner = nullptr);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rows() const { return shape_.rank == 0 ? 1 : shape_[0]; }
  int64_t count() const { return shape_.count(); }
  int64_t bytes() const { return count() * size_of(dtype_); }
  bool empty() const { return data_ == nullptr; }
  void* data() const { return data_; }
  /// The elements as T. Errors: TERN_CHECK if T is not the dtype.
  template <class T>
  std::span<T> span() const {
    check_type(DTypeOf<T>::value);
    return {static_cast<T*>(data_), static_cast<size_t>(count())};
  }

  /// Rows [begin, end) of dim 0; shares the storage.
  Tensor rows_view(int64_t begin, int64_t end) const;
  /// The same elements under another shape with the same count; shares the storage.
  Tensor reshaped(Shape) const;
  void fill_zero() const;

 private:
  friend class Arena;
  void check_type(DType) const;
  DType dtype_ = DType::f32;
  Shape shape_;
  void* data_ = nullptr;
  std::shared_ptr<void> storage_;
};

}  // namespace tern
