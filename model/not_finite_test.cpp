#include "model/not_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/io.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

TEST(NotFinite, EveryTypesNanAndInfinityIsFoundByTensorAndPlace) {
  const std::string path = testing::TempDir() + "tern-not-finite.safetensors";
  const auto found = [&]<class T>(DType dtype, const std::vector<T>& values) {
    const std::vector<T> fine(3);
    const std::vector<TensorToWrite> tensors = {
        {"a.fine", dtype, {3}, std::as_bytes(std::span(fine)), {}},
        {"b.weight", dtype, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)), {}}};
    write_safetensors(real_io(), path, tensors);
    return find_not_finite(Weights(path));
  };
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, -nan, infinity, -infinity}) {
    const std::string want = path + ": tensor 'b.weight' holds 1 value that is not finite, the first at 1 of 3";
    EXPECT_EQ(found(DType::f64, std::vector<double>{1, bad, 2}), want);
    EXPECT_EQ(found(DType::f32, std::vector<float>{1, static_cast<float>(bad), 2}), want);
    EXPECT_EQ(found(DType::bf16, std::vector<bf16>{to_bf16(1), to_bf16(static_cast<float>(bad)), to_bf16(2)}), want);
    EXPECT_EQ(found(DType::f16, std::vector<f16>{to_f16(1), to_f16(static_cast<float>(bad)), to_f16(2)}), want);
  }
  EXPECT_EQ(found(DType::f32, std::vector<float>{std::numeric_limits<float>::max(), -0.0f,
                                                 std::numeric_limits<float>::denorm_min()}),
            "");
  EXPECT_EQ(found(DType::f16, std::vector<f16>{to_f16(65504), to_f16(-65504)}), "");
  found(DType::f32, std::vector<float>{static_cast<float>(nan)});
  try {
    require_finite(path);
    FAIL() << "no error";
  } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::bad_file); }
  real_io().remove(path);
}

}  // namespace
}  // namespace tern
