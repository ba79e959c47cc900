// tern inspect names every weight type and its bits per weight.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/gguf/gguf.h"
#include "tests/e2e/quantize_testing.h"

namespace tern {
namespace {

class InspectTypes : public QuantizesInFolder<InspectTypes> {
 protected:
  static void SetUpTestSuite() { make_models("inspect-types"); }
};

// A name as inspect says it, the bits of a weight, and how text writes them, "" without scales.
struct InspectedType {
  const char* name;
  double bits;
  const char* words;
};

// `count` tensors are of the type, in text and in numbers.
void expect_named(const Outcome& text, const Json& weights, const InspectedType& type, int64_t count) {
  SCOPED_TRACE(type.name);
  EXPECT_EQ(weights["dtypes"][type.name], count);
  EXPECT_EQ(weights["bits_per_weight"][type.name], type.bits);
  EXPECT_EQ(weights["problems"], Json::array());
  const std::string bits = *type.words ? fmt::format(" ({} bits a weight)", type.words) : "";
  EXPECT_TRUE(has(text, fmt::format("{} {}{}", count, type.name, bits))) << text.text;
}

// Of LC the two bytes of a row and the tables of a matrix are not counted in, as they depend on its size.
TEST_F(InspectTypes, NamesTheTypesOfDirectories) {
  for (const InspectedType& type : std::initializer_list<InspectedType>{{"Q8_0", 8.5, "8.5"},
                                                                        {"Q5_1", 6, "6"},
                                                                        {"Q5_0", 5.5, "5.5"},
                                                                        {"Q4_1", 5, "5"},
                                                                        {"Q4_0", 4.5, "4.5"},
                                                                        {"Q6_K", 6.5625, "6.5625"},
                                                                        {"Q5_K", 5.5, "5.5"},
                                                                        {"Q4_K", 4.5, "4.5"},
                                                                        {"U4", 5, "5"},
                                                                        {"U3", 4, "4"},
                                                                        {"U2", 3, "3"},
                                                                        {"NF4", 4.5, "4.5"},
                                                                        {"NF4_1", 5, "5"},
                                                                        {"LC4", 4.25, "4.25"},
                                                                        {"LC3", 3.25, "3.25"},
                                                                        {"LC2", 2.25, "2.25"}}) {
    const std::string dir = std::string("inspected-") + type.name;
    write_coded_directory(coded_config("llama", true), *weight_type_from_name(type.name), root_ + "/" + dir);
    const Outcome text = tern("inspect " + dir);
    const Json weights = json("inspect " + dir)["weights"];
    const bool as_table = std::string_view(type.name) == "Q8_0";
    expect_named(text, weights, type, as_table ? 8 : 7);
    if (!as_table) expect_named(text, weights, {"Q8_0", 8.5, "8.5"}, 1);
    EXPECT_EQ(has(text, "7 I8 (tables of levels)"), std::string_view(type.name).starts_with("LC"));
    expect_named(text, weights, {"F32", 32, ""}, 3);
  }
}

TEST_F(InspectTypes, NamesTheTypesOfGgufFiles) {
  for (const InspectedType& type : std::initializer_list<InspectedType>{{"F16", 16, ""},
                                                                        {"BF16", 16, ""},
                                                                        {"Q8_0", 8.5, "8.5"},
                                                                        {"Q4_0", 4.5, "4.5"},
                                                                        {"Q4_1", 5, "5"},
                                                                        {"Q5_0", 5.5, "5.5"},
                                                                        {"Q5_1", 6, "6"},
                                                                        {"Q2_K", 2.625, "2.625"},
                                                                        {"Q3_K", 3.4375, "3.4375"},
                                                                        {"Q4_K", 4.5, "4.5"},
                                                                        {"Q5_K", 5.5, "5.5"},
                                                                        {"Q6_K", 6.5625, "6.5625"},
                                                                        {"IQ4_NL", 4.5, "4.5"},
                                                                        {"IQ4_XS", 4.25, "4.25"},
                                                                        {"IQ3_S", 3.4375, "3.4375"},
                                                                        {"IQ3_XXS", 3.0625, "3.0625"},
                                                                        {"IQ2_S", 2.5625, "2.5625"},
                                                                        {"IQ2_XS", 2.3125, "2.3125"},
                                                                        {"IQ2_XXS", 2.0625, "2.0625"},
                                                                        {"MXFP4", 4.25, "4.25"}}) {
    write_coded_model(coded_config("llama", true), {*weight_type_from_name(type.name)}, root_ + "/type.gguf");
    const Outcome text = tern("inspect type.gguf");
    const Json weights = json("inspect type.gguf")["weights"];
    expect_named(text, weights, type, 8);
    expect_named(text, weights, {"F32", 32, ""}, 3);
  }
  // Written by tern itself.
  for (const auto& [as, type] :
       {std::pair<const char*, InspectedType>{"q4_0", {"Q4_0", 4.5, "4.5"}}, {"q5_1", {"Q5_1", 6, "6"}}}) {
    const std::string out = std::string("inspected-") + as + ".gguf";
    quantize("one", {"rtn", as}, out);
    const Outcome text = tern("inspect " + out);
    const Json weights = json("inspect " + out)["weights"];
    expect_named(text, weights, type, 7);
    expect_named(text, weights, {"Q8_0", 8.5, "8.5"}, 2);
  }
}

// The file's last tensor as if it were of a type that is listed, but not read.
void rename_last_type(const std::string& path, uint32_t id, int64_t block_bytes) {
  std::string bytes = real_io().read(path);
  const Gguf file(path);
  const GgufTensor& last = file.tensors().back();
  ASSERT_EQ(last.name, "output.weight");
  const size_t name = bytes.find(std::string{'\r', 0, 0, 0, 0, 0, 0, 0} + "output.weight");
  ASSERT_NE(name, std::string::npos);
  std::memcpy(bytes.data() + name + 8 + 13 + 4 + 2 * 8, &id, 4);  // behind the name, its rank and sizes
  bytes.resize(static_cast<size_t>(file.offset_of(last) + last.num_elements() / 256 * block_bytes));
  write_file_atomically(real_io(), path, bytes);
}

TEST_F(InspectTypes, NamesTheTypesThatNobodyReadsAndRefusesThem) {
  for (const auto& [name, id, block_bytes] :
       {std::tuple{"IQ1_S", 19, 50}, {"IQ1_M", 29, 56}, {"TQ1_0", 34, 54}, {"TQ2_0", 35, 66}}) {
    SCOPED_TRACE(name);
    write_coded_model(coded_config("llama", false), {WeightType::q4_0}, root_ + "/unread.gguf");
    rename_last_type(root_ + "/unread.gguf", static_cast<uint32_t>(id), block_bytes);
    const Outcome text = tern("inspect unread.gguf 2>/dev/null"),
                  numbers = tern("inspect unread.gguf --json 2>/dev/null");
    EXPECT_EQ(text.code, 4);
    EXPECT_TRUE(has(text, fmt::format("1 {}", name))) << text.text;
    const Json weights = parse_json(numbers.text, "inspect")["weights"];
    EXPECT_EQ(weights["dtypes"][name], 1);
    EXPECT_FALSE(weights["bits_per_weight"].contains(name));
    expect_refusal(4, "inspect unread.gguf", {"output.weight", name, "does not read"});
  }
}

}  // namespace
}  // namespace tern
