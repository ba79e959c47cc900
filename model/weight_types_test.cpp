// GGUF's weight types: what the format's own package decodes them to, to the bit, and any bytes at all.
#include <cmath>
#include <cstring>
#include <set>

#include "base/weight_type.h"
#include "formats/format_test_support.h"
#include "formats/gguf/gguf.h"
#include "formats/mutations_testing.h"
#include "kernels/cpu/decode.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

TEST(WeightTypes, EveryTypeOfGgufDecodesToTheBitsOfItsPackage) {
  const Gguf file(golden("gguf/types.gguf"));
  const std::string floats = read_bytes(golden("gguf/types.f32"));
  std::vector<float> want(floats.size() / sizeof(float));
  std::memcpy(want.data(), floats.data(), floats.size());
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    SCOPED_TRACE(std::string(name_of(isa)));
    size_t at = 0, nans = 0;
    std::set<WeightType> types;
    for (const GgufTensor& t : file.tensors()) {
      ASSERT_TRUE(t.type->weight) << t.name;
      ASSERT_EQ(t.name, "t." + std::string(t.type->name));
      types.insert(*t.type->weight);
      EXPECT_EQ(static_cast<int64_t>(t.bytes.size()), stored_bytes(*t.type->weight, 1, t.num_elements())) << t.name;
      std::vector<float> got(static_cast<size_t>(t.num_elements()), NAN);
      decode_blocks(*t.type->weight, t.bytes, got);
      for (const float x : got) {
        ASSERT_LT(at, want.size());
        if (std::isnan(want[at])) {
          ASSERT_TRUE(std::isnan(x)) << t.name << " " << at;
          ++nans;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(want[at])) << t.name << " " << at;
        }
        ++at;
      }
    }
    EXPECT_EQ(at, want.size());
    EXPECT_LT(nans, want.size() / 4);  // most of the comparison is of numbers
    for (const WeightTypeRow& row : kWeightTypes)
      if (row.gguf != kNotInGguf) {
        EXPECT_TRUE(types.contains(row.type))
            << row.name << " is not in gguf/types.gguf: add it to dev/golden/gguf_files.py";
      }
  }
  force_isa(before);
}

TEST(WeightTypesMutationsSlow, AnyBytesOfABlockAreNumbers) {
  survive_mutations({read_bytes(golden("gguf/types.gguf"))},
                    [](const std::string& bytes) {
                      const Gguf file = Gguf::over(std::as_bytes(std::span(bytes)), "mutated");
                      std::vector<float> out;
                      for (const GgufTensor& t : file.tensors()) {
                        if (!t.type->weight) continue;
                        out.assign(static_cast<size_t>(t.num_elements()), 0);
                        decode_blocks(*t.type->weight, t.bytes, out);
                      }
                    },
                    {.least_fine = 500, .least_refused = 2500, .change = MutateNumbers{}});
}

}  // namespace
}  // namespace tern
