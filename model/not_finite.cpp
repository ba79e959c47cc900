#include "model/not_finite.h"

#include <cstring>

#include "base/units.h"

namespace tern {
namespace {

// All ones in the exponent is NaN or infinity. `Bits` of each element against the type's exponent.
template <class Bits>
void count(std::span<const std::byte> bytes, Bits exponent, int64_t& first, int64_t& number) {
  for (size_t i = 0; i + sizeof(Bits) <= bytes.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    if ((bits & exponent) != exponent) continue;
    if (number++ == 0) first = static_cast<int64_t>(i / sizeof(Bits));
  }
}

}  // namespace

std::string find_not_finite(const Weights& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const TensorView t = weights[i];
    int64_t first = 0, number = 0;
    if (t.dtype == DType::f32) count<uint32_t>(t.bytes, 0x7f800000u, first, number);
    if (t.dtype == DType::bf16) count<uint16_t>(t.bytes, 0x7f80u, first, number);
    if (t.dtype == DType::f16) count<uint16_t>(t.bytes, 0x7c00u, first, number);
    if (t.dtype == DType::f64) count<uint64_t>(t.bytes, 0x7ff0000000000000u, first, number);
    weights.dont_need(t.name);
    if (number > 0)
      return fmt::format("{}: tensor '{}' holds {} that {} not finite, the first at {} of {}", weights.path(), t.name,
                         counted(number, "value"), number == 1 ? "is" : "are", format_with_commas(first),
                         format_with_commas(t.num_elements()));
  }
  return "";
}

void require_finite(const std::string& path) {
  if (!path.ends_with(".safetensors") && !path.ends_with(".json")) return;
  if (const std::string found = find_not_finite(Weights(path)); !found.empty())
    throw NotFinite("{}; the file is damaged, or the run that wrote it diverged: take an earlier one", found);
}

}  // namespace tern
