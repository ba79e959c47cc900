#pragma once
// A product of 1024³ by one of three multipliers. It measures the machine's peak rate, for "share of peak" and for a line of `tern bench`.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/matmul.h"
#include "kernels/onednn/fast_matmul.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {

/// Fills `out` with numbers from −0.5 to 0.5, the same each time.
template <class T>
void fill_probe(std::span<T> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const float value = static_cast<float>((i * 2654435761u) >> 8 & 0xff) / 256.0f - 0.5f;
    if constexpr (std::is_same_v<T, bf16>)
      out[i] = to_bf16(value);
    else
      out[i] = value;
  }
}

inline constexpr int64_t kProbeSize = 1024;
inline constexpr double kProbeFlops = 2.0 * kProbeSize * kProbeSize * kProbeSize;

/// The probe, for T float or bf16. Errors  TERN_CHECK: oneDNN is asked for, but has no products of T on this machine.
template <class T>
class ProductProbe {
 public:
  /// The multiplier: multiply_fast, multiply_exact, or oneDNN itself.
  enum class Who : uint8_t { fast, exact, onednn };

  explicit ProductProbe(Who who) : who_(who), x_(kCount), w_(kCount), y_(kCount) {
    fill_probe(std::span<T>(x_));
    w_ = x_;
    if (who == Who::exact) {
      scratch_.resize(static_cast<size_t>(packed_bytes(kType, kProbeSize, kProbeSize)));
      pack_weight<T>(w_, kProbeSize, kProbeSize, scratch_);
      return;
    }
    TERN_CHECK(who == Who::fast || onednn_can(kType), "probe: oneDNN has no {} here", name_of(kType));
    scratch_.resize(static_cast<size_t>(
        who == Who::onednn ? onednn_scratch_bytes(kProduct)
                           : fast_scratch_bytes(LinearProduct::forward, kType, kProbeSize, kProbeSize, kProbeSize)));
  }
  /// One product.
  void run() {
    const std::span<const T> x = x_, w = w_, no_bias;
    switch (who_) {
      case Who::fast:
        return multiply_fast<T, T>(x, w, no_bias, kProbeSize, kProbeSize, kProbeSize, std::span(y_), scratch_);
      case Who::exact:
        return multiply_exact<T, T>(x, scratch_, no_bias, kProbeSize, kProbeSize, kProbeSize, false, std::span(y_));
      case Who::onednn:
        return onednn_multiply(kProduct, x_.data(), w_.data(), nullptr, y_.data(), scratch_);
    }
  }
  std::span<const T> result() const { return y_; }

 private:
  static constexpr DType kType = DTypeOf<T>::value;
  static constexpr size_t kCount = static_cast<size_t>(kProbeSize) * kProbeSize;
  static constexpr OnednnProduct kProduct = {
      LinearProduct::forward, kType, kType, false, false, kProbeSize, kProbeSize, kProbeSize};
  Who who_;
  std::vector<T> x_, w_, y_;
  std::vector<std::byte> scratch_;  // of `exact`: the packed weight
};

}  // namespace tern
