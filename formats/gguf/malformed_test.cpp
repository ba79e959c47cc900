// Malformed GGUF files: each is refused by an error that names place and fact.
#include <gtest/gtest.h>

#include <random>

#include "formats/gguf/gguf.h"
#include "formats/mutations_testing.h"

namespace tern {
namespace {

// A file put together by hand.
struct Maker {
  std::string bytes;
  template <class T>
  Maker& n(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Maker& u32(uint64_t v) { return n(static_cast<uint32_t>(v)); }
  Maker& u64(uint64_t v) { return n(v); }
  Maker& raw(std::string_view s) {
    bytes += s;
    return *this;
  }
  Maker& text(std::string_view s) { return u64(s.size()).raw(s); }
  Maker& head(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  Maker& key(std::string_view name, uint32_t type) { return text(name).u32(type); }
  Maker& info(std::string_view name, std::vector<uint64_t> sizes, uint32_t type, uint64_t offset) {
    text(name).u32(sizes.size());
    for (const uint64_t s : sizes) u64(s);
    return u32(type).u64(offset);
  }
  Maker& pad(size_t to = 32) {
    bytes.resize((bytes.size() + to - 1) / to * to, '\0');
    return *this;
  }
  Maker& data(size_t count, char fill = 1) {
    bytes.append(count, fill);
    return *this;
  }
};

testing::AssertionResult refused(const Maker& m, const char* fragment) {
  return throws(ErrorKind::bad_file, fragment, [&] { Gguf::over(std::as_bytes(std::span(m.bytes)), "f.gguf"); });
}
testing::AssertionResult accepted(const Maker& m) {
  try {
    Gguf::over(std::as_bytes(std::span(m.bytes)), "f.gguf");
    return testing::AssertionSuccess();
  } catch (const std::exception& error) { return testing::AssertionFailure() << error.what(); }
}

constexpr uint64_t kHuge = 0xffffffffffffffffu;

TEST(GgufMalformed, Headers) {
  EXPECT_TRUE(accepted(Maker().head(0, 0)));
  EXPECT_TRUE(refused(Maker(), "is it cut off?"));
  EXPECT_TRUE(refused(Maker().raw("GGUF"), "is it cut off?"));
  EXPECT_TRUE(refused(Maker().raw("GGML").u32(3).u64(0).u64(0), "does not begin with 'GGUF'"));
  EXPECT_TRUE(refused(Maker().raw("FUGG").u32(3).u64(0).u64(0), "does not begin with 'GGUF'"));
  for (const uint32_t version : {0u, 1u, 2u, 4u, 0xffffffffu})
    EXPECT_TRUE(refused(Maker().head(0, 0, version), "tern reads version 3; convert it again"));
  EXPECT_TRUE(refused(Maker().head(0, 0, 0x03000000u), "big-endian"));
  for (const uint64_t n : {uint64_t{1}, uint64_t{1'000'001}, uint64_t{1} << 63, kHuge}) {
    EXPECT_TRUE(refused(Maker().head(n, 0), "tensors cannot stand in 0 bytes"));
    EXPECT_TRUE(refused(Maker().head(0, n), "keys cannot stand in 0 bytes"));
  }
  EXPECT_TRUE(refused(Maker().head(0, 100'001).data(2'000'000), "100001 keys"));
  EXPECT_TRUE(refused(Maker().head(0, 0).data(200), "200 bytes behind the header of a file without tensors"));
}

TEST(GgufMalformed, Keys) {
  const auto with = [](auto&& add) {
    Maker m;
    m.head(0, 1);
    add(m);
    return m;
  };
  EXPECT_TRUE(accepted(with([](Maker& m) { m.key("k", 0).n<uint8_t>(1); })));
  EXPECT_TRUE(refused(with([](Maker& m) { m.text("").u32(0).data(9); }), "an empty key"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.text("a b").u32(0).data(9); }), "is not printable ASCII"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.text("é").u32(0).data(9); }), "is not printable ASCII"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.text(std::string(65'536, 'k')).u32(0).data(9); }), "a key of 65536 bytes"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.u64(kHuge).data(90); }), "a key of 18446744073709551615 bytes"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.u64(100).data(20); }), "the file ends 20 bytes into a key of 100 bytes"));
  for (const uint32_t type : {13u, 255u, 0xffffffffu})
    EXPECT_TRUE(refused(with([&](Maker& m) { m.key("k", type).data(8); }), "key 'k': byte 33: value type"));
  for (const uint32_t type : {0u, 3u, 4u, 6u, 10u, 12u})
    EXPECT_TRUE(refused(with([&](Maker& m) { m.key("kkk", type); }), "key 'kkk': byte"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.key("k", 7).n<uint8_t>(2); }), "boolean 2, must be 0 or 1"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.key("k", 8).u64(kHuge); }), "a string of 18446744073709551615 bytes"));
  EXPECT_TRUE(
      refused(with([](Maker& m) { m.key("k", 8).u64((1 << 20) + 1).data(1 << 21); }), "at most 1048576 are read"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.key("k", 8).u64(5).raw("abc"); }), "the file ends 3 bytes into a string"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.key("k", 8).text("\xff"); }), "not UTF-8"));
  Maker twice;
  twice.head(0, 2).key("k", 0).n<uint8_t>(1).key("k", 0).n<uint8_t>(1);
  EXPECT_TRUE(refused(twice, "key 'k' stands there twice"));
}

TEST(GgufMalformed, Arrays) {
  const auto with = [](uint64_t inner, uint64_t count, auto&& add) {
    Maker m;
    m.head(0, 1).key("k", 9).u32(inner).u64(count);
    add(m);
    return m;
  };
  const auto nothing = [](Maker&) {};
  EXPECT_TRUE(accepted(with(0, 0, nothing)));
  EXPECT_TRUE(accepted(with(8, 1, [](Maker& m) { m.text("\xff"); })));  // a token's bytes
  EXPECT_TRUE(refused(with(13, 0, nothing), "value type 13"));
  for (const uint32_t inner : {0u, 4u, 6u, 7u, 8u, 9u, 12u})
    for (const uint64_t count : {uint64_t{1000}, uint64_t{1} << 60, uint64_t{1} << 63, kHuge})
      EXPECT_TRUE(refused(with(inner, count, [](Maker& m) { m.data(100, 0); }), "elements in 100 bytes"));
  EXPECT_TRUE(refused(with(7, 3, [](Maker& m) { m.raw(std::string("\0\1\3", 3)); }), "boolean 3"));
  EXPECT_TRUE(
      refused(with(8, 2, [](Maker& m) { m.text("a").u64(99).data(3); }), "the file ends 3 bytes into a string"));
  Maker deep;
  deep.head(0, 1).key("k", 9);
  for (int i = 0; i < 10'000; ++i) deep.u32(9).u64(1);
  deep.u32(0).u64(0);
  EXPECT_TRUE(refused(deep, "nested more than 4 deep"));
  Maker four;
  four.head(0, 1).key("k", 9).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).u32(0).u64(1).n<uint8_t>(5);
  EXPECT_TRUE(accepted(four));
  const Gguf file = Gguf::over(std::as_bytes(std::span(four.bytes)), "f");
  EXPECT_EQ(file.get("k").elements()[0].elements()[0].elements()[0].as_i64s(), (std::vector<int64_t>{5}));
}

TEST(GgufMalformed, Alignment) {
  const auto with = [](uint32_t type, uint64_t value) {
    Maker m;
    m.head(1, 1).key("general.alignment", type);
    if (type == 10) {
      m.u64(value);
    } else {
      m.u32(value);
    }
    m.info("t", {2}, 0, 0);
    return m.pad(value > 0 && value < 4096 ? value : 32).data(8, 0).pad(value > 0 && value < 4096 ? value : 32);
  };
  EXPECT_TRUE(accepted(with(4, 8)));
  EXPECT_TRUE(accepted(with(4, 64)));
  for (const uint32_t bad : {0u, 1u, 4u, 7u, 24u, 33u, 1u << 21, 0x80000000u})
    EXPECT_TRUE(refused(with(4, bad), "must be a power of two from 8"));
  EXPECT_TRUE(refused(with(10, 32), "type u64, must be u32"));
}

TEST(GgufMalformed, TensorInfos) {
  const auto with = [](auto&& add) {
    Maker m;
    m.head(1, 0);
    add(m);
    return m.pad().data(64, 0);
  };
  EXPECT_TRUE(accepted(with([](Maker& m) { m.info("t", {16}, 0, 0); })));
  EXPECT_TRUE(accepted(with([](Maker& m) { m.info("t", {4, 2, 2, 1}, 0, 0); })));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("", {16}, 0, 0); }), "a tensor without a name"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info(std::string(65, 'n'), {16}, 0, 0); }), "a tensor's name of 65 bytes"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("\xff", {16}, 0, 0); }), "not UTF-8"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {1, 1, 1, 1, 16}, 0, 0); }), "5 dimensions, at most 4"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.text("t").u32(0xffffffffu).data(64); }), "4294967295 dimensions"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {0}, 0, 0); }), "tensor 't': byte 37: dimension 0 is 0"));
  for (const uint64_t size : {uint64_t{1} << 61, uint64_t{1} << 63, kHuge})
    EXPECT_TRUE(refused(with([&](Maker& m) { m.info("t", {size}, 0, 0); }), "more elements than any memory holds"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {1u << 31, 1u << 31, 1u << 31}, 0, 0); }), "more elements"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {uint64_t{1} << 60}, 0, 0); }), "is the file cut off?"));
  for (const uint32_t type : {4u, 5u, 31u, 33u, 38u, 42u, 0xffffffffu})
    EXPECT_TRUE(refused(with([&](Maker& m) { m.info("t", {256}, type, 0); }), "is not one of the format's"));
  EXPECT_TRUE(
      refused(with([](Maker& m) { m.info("t", {16}, 8, 0); }), "rows of 16 elements, Q8_0 comes in blocks of 32"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {128}, 12, 0); }), "Q4_K comes in blocks of 256"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {16}, 0, 1); }), "offset 1 is no multiple of the alignment 32"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {16}, 0, 32); }), "a hole"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {16}, 0, kHuge - 31); }), "a hole"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {17}, 0, 0); }), "68 bytes from 0 of the data, which has 64"));
  EXPECT_TRUE(refused(with([](Maker& m) { m.info("t", {8}, 0, 0); }), "32 bytes behind the last tensor"));
  Maker cut;
  cut.head(1, 0).text("t").u32(1).u64(16);
  EXPECT_TRUE(refused(cut, "tensors cannot stand in"));
  EXPECT_TRUE(refused(cut.u32(0).data(3), "tensor 't': byte 49: the file ends 3 bytes into an offset of 8 bytes"));
}

TEST(GgufMalformed, TablesOfTensors) {
  const auto two = [](const char* a, uint64_t at, const char* b, uint64_t bt, size_t data) {
    Maker m;
    return m.head(2, 0).info(a, {4}, 0, at).info(b, {16}, 0, bt).pad().data(data, 0);
  };
  EXPECT_TRUE(accepted(two("a", 0, "b", 32, 96)));
  EXPECT_TRUE(accepted(two("a", 64, "b", 0, 96)));
  EXPECT_TRUE(accepted(two("a", 64, "b", 0, 80)));  // the last tensor's padding may be left out
  EXPECT_TRUE(refused(two("a", 0, "a", 32, 96), "tensor 'a' stands there twice"));
  EXPECT_TRUE(refused(two("a", 0, "b", 0, 96), "overlap"));
  EXPECT_TRUE(refused(two("a", 0, "b", 64, 128), "a hole"));
  EXPECT_TRUE(refused(two("a", 0, "b", 32, 95), "is the file cut off?"));
  EXPECT_TRUE(refused(two("a", 0, "b", 32, 97), "bytes behind the last tensor"));
  Maker dirty = two("a", 0, "b", 32, 96);
  dirty.bytes[dirty.bytes.size() - 80] = 'x';
  EXPECT_TRUE(refused(dirty, "in the padding, which must be zero"));
  Maker header = two("a", 0, "b", 32, 96);
  header.bytes[header.bytes.size() - 97] = 'x';
  EXPECT_TRUE(refused(header, "in the padding, which must be zero"));
  Maker end;
  end.head(1, 0).info("t", {16}, 0, 0);
  EXPECT_TRUE(refused(end, "before its data begin"));
}

TEST(GgufMalformed, EveryCutOfAGoodFileIsRefused) {
  const std::string whole = read_bytes(golden("gguf/metadata.gguf"));
  int accepted_cuts = 0;
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::string cut = whole.substr(0, n);
    try {
      Gguf::over(std::as_bytes(std::span(cut)), "cut");
      ++accepted_cuts;  // only padding is missing
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file); }
  }
  EXPECT_LT(accepted_cuts, 64);
}

TEST(GgufMutationsSlow, EveryMutationIsReadOrRefused) {
  survive_mutations({read_bytes(golden("gguf/metadata.gguf")), read_bytes(golden("gguf/types.gguf"))},
                    [](const std::string& bytes) {
                      const Gguf file = Gguf::over(std::as_bytes(std::span(bytes)), "mutated");
                      for (size_t k = 0; k < file.num_keys(); ++k)
                        if (file.value(k).type() == GgufValueType::array) file.value(k).elements();
                    },
                    {.least_fine = 500, .least_refused = 2500, .change = MutateNumbers{}});
}

}  // namespace
}  // namespace tern
