#include "formats/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "base/fault_io.h"
#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/safetensors/layout.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

template <class T>
std::vector<T> values(const TensorView& t) {
  std::vector<T> result(t.bytes.size() / sizeof(T));
  std::memcpy(result.data(), t.bytes.data(), t.bytes.size());
  return result;
}

template <class T>
TensorToWrite tensor(std::string name, std::vector<int64_t> shape, const std::vector<T>& data) {
  return {.name = std::move(name),
          .dtype = DTypeOf<T>::value,
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(data)),
          .produce = {}};
}

std::vector<TensorToWrite> to_write(const Safetensors& file) {
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < file.size(); ++i) {
    const TensorView t = file[i];
    tensors.push_back({std::string(t.name), t.dtype.value(), {t.shape.begin(), t.shape.end()}, t.bytes, {}});
  }
  return tensors;
}

TEST(Safetensors, ReadsWhatTheReferenceWrote) {
  const Safetensors file(golden("safetensors/all_dtypes.safetensors"));
  EXPECT_EQ(file.size(), 14u);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(values<double>(file.get("z.f64")), (std::vector<double>{0, 1 / 7.f, 2 / 7.f, 3 / 7.f, 4 / 7.f, 5 / 7.f}));
  const TensorView b = file.get("b.f32");
  EXPECT_EQ((std::vector<int64_t>(b.shape.begin(), b.shape.end())), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(values<float>(b)[5], 5 / 7.f);
  EXPECT_EQ(values<float>(file.get("a.f32")), std::vector<float>{1.5f});
  EXPECT_EQ(file.get("a.f32").num_elements(), 1);
  EXPECT_TRUE(file.get("a.f32").shape.empty());
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(values<f16>(file.get("h.f16"))[i], to_f16(static_cast<float>(i) / 7.f)) << i;
    EXPECT_EQ(values<bf16>(file.get("h.bf16"))[i], to_bf16(static_cast<float>(i) / 7.f)) << i;
  }
  EXPECT_EQ(values<int64_t>(file.get("i64")), (std::vector<int64_t>{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(values<int32_t>(file.get("i32")), (std::vector<int32_t>{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(values<int16_t>(file.get("i16")), (std::vector<int16_t>{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(values<uint16_t>(file.get("u16")), (std::vector<uint16_t>{65530, 65531, 65532, 65533, 65534, 65535}));
  EXPECT_EQ(values<int8_t>(file.get("i8")), (std::vector<int8_t>{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(values<uint8_t>(file.get("u8")), (std::vector<uint8_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.get("mask").dtype, DType::boolean);
  EXPECT_EQ(values<uint8_t>(file.get("mask")), (std::vector<uint8_t>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(file.get("empty").num_elements(), 0);
  EXPECT_TRUE(file.get("empty").bytes.empty());
  EXPECT_EQ(file.find("nobody"), std::nullopt);
}

TEST(Safetensors, WritesTheReferencesBytesAgain) {
  for (const char* name : {"all_dtypes", "nothing"}) {
    const std::string path = golden(std::string("safetensors/") + name + ".safetensors");
    const Safetensors file(path);
    TemporaryDirectory dir;
    const SafetensorsWritten written =
        write_safetensors(real_io(), dir / "out.safetensors", to_write(file), file.metadata());
    const std::string want = read_bytes(path), got = read_bytes(dir / "out.safetensors");
    EXPECT_EQ(got, want) << name;
    EXPECT_EQ(written.file_bytes, static_cast<int64_t>(want.size()));
    EXPECT_EQ(written.crc32c, crc32c(want));
  }
}

TEST(Safetensors, ListsDtypesItDoesNotReadAndRefusesThemWhenAsked) {
  const Safetensors file(golden("safetensors/listed_only.safetensors"));
  EXPECT_EQ(file.find("x")->dtype_name, "F8_E4M3");
  EXPECT_EQ(file.find("x")->dtype, std::nullopt);
  EXPECT_EQ(file.find("z")->dtype_name, "C64");
  EXPECT_EQ(file.get("y").dtype, DType::f32);
  EXPECT_TRUE(throws(ErrorKind::bad_file, "tensor \"x\" is F8_E4M3", [&] { file.get("x"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "tensor \"u\" is U32", [&] { file.get("u"); }));
}

TEST(Safetensors, NamesTheNearestTensor) {
  const Safetensors file(golden("safetensors/all_dtypes.safetensors"));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "did you mean \"h.bf16\"?", [&] { file.get("h.bf6"); }));
}

TEST(Safetensors, StaysValidWhenMoved) {
  Safetensors file(golden("safetensors/all_dtypes.safetensors"));
  const TensorView before = file.get("i64");
  const Safetensors moved = std::move(file);
  EXPECT_EQ(before.name, "i64");
  EXPECT_EQ(values<int64_t>(before), values<int64_t>(moved.get("i64")));
}

TEST(Safetensors, ListsTensorsInTheOrderOfTheirBytes) {
  const Safetensors file(golden("safetensors/all_dtypes.safetensors"));
  const std::byte* reached = file[0].bytes.data();
  for (size_t i = 0; i < file.size(); ++i) {
    EXPECT_EQ(file[i].bytes.data(), reached) << i;
    reached += file[i].bytes.size();
    file.will_need(i);
    file.dont_need(i);
  }
}

TEST(SafetensorsWrite, GivesTheSameBytesInWhateverOrderTensorsCome) {
  const std::vector<float> a{1, 2, 3};
  const std::vector<int8_t> b{4};
  std::vector<TensorToWrite> tensors{tensor("a", {3}, a), tensor("c", {1}, b), tensor("b", {3, 1}, a)};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  std::reverse(tensors.begin(), tensors.end());
  EXPECT_EQ(safetensors_header(tensors, {{"format", "pt"}}), header);
  EXPECT_EQ(header.size() % 8, 0u);
  const std::string json =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[12,24]},"
      "\"c\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[24,25]}}";
  EXPECT_EQ(header.substr(8), json + std::string((8 - json.size() % 8) % 8, ' '));
}

// Names and types alone say where each tensor will lie, whatever their order.
TEST(SafetensorsWrite, TheLayoutIsThatOfTheFile) {
  TemporaryDirectory dir;
  const std::string path = dir.path() + "/layout.safetensors";
  const std::vector<float> a{1, 2, 3};
  const std::vector<int8_t> b{4, 5, 6, 7, 8}, no_numbers;
  const std::vector<TensorToWrite> tensors{tensor("c", {5}, b), tensor("b", {3, 1}, a), tensor("none", {0}, no_numbers),
                                           tensor("a", {3}, a)};
  const SafetensorsWritten written = write_safetensors(real_io(), path, tensors);
  std::vector<TensorToWrite> forms = tensors;
  for (TensorToWrite& t : forms) t.bytes = {};
  const SafetensorsLayout layout = safetensors_layout(forms);
  EXPECT_EQ(layout.file_bytes, written.file_bytes);
  EXPECT_EQ(layout.header, real_io().read(path).substr(0, layout.header.size()));
  const Safetensors file(path);
  for (size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(layout.begins[i], file.offset_of(file.get(tensors[i].name))) << tensors[i].name;
  forms[0].name = "b";
  EXPECT_THROW(safetensors_layout(forms), Error);
}

TEST(SafetensorsWrite, StreamsWhatAProducerHandsOver) {
  TemporaryDirectory dir;
  const TensorToWrite t{
      .name = "x", .dtype = DType::i32, .shape = {2, 3}, .bytes = {}, .produce = [](const ByteSink& sink) {
        for (int32_t i = 0; i < 6; ++i) sink(std::as_bytes(std::span(&i, 1)));
      }};
  write_safetensors(real_io(), dir / "x.safetensors", {&t, 1});
  EXPECT_EQ(values<int32_t>(Safetensors(dir / "x.safetensors").get("x")), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(SafetensorsWrite, RefusesWhatTheReaderWould) {
  TemporaryDirectory dir;
  const std::vector<float> a{1, 2, 3};
  const auto write = [&](std::vector<TensorToWrite> tensors, SafetensorsMetadata metadata = {}) {
    return [&dir, tensors, metadata] { write_safetensors(real_io(), dir / "x.safetensors", tensors, metadata); };
  };
  TensorToWrite both = tensor("a", {3}, a),
                lies = {.name = "a", .dtype = DType::f32, .shape = {3}, .bytes = {}, .produce = {}};
  both.produce = lies.produce = [](const ByteSink& sink) { sink(std::as_bytes(std::span("12345678", 8))); };
  EXPECT_TRUE(throws(ErrorKind::usage, "given twice", write({tensor("a", {3}, a), tensor("a", {3}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "12 bytes given", write({tensor("a", {4}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "negative or too large", write({tensor("a", {-3}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "negative or too large", write({tensor("a", {1LL << 62, 1LL << 62}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "more than 8 dimensions", write({tensor("a", {3, 1, 1, 1, 1, 1, 1, 1, 1}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "keeps this name", write({tensor("__metadata__", {3}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "not UTF-8", write({tensor("\xff", {3}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "not UTF-8", write({}, {{"a", "\xc0"}})));
  EXPECT_TRUE(throws(ErrorKind::usage, "longer than 1 MiB", write({tensor(std::string((1 << 20) + 1, 'n'), {3}, a)})));
  EXPECT_TRUE(throws(ErrorKind::usage, "both bytes and a producer", write({both})));
  EXPECT_TRUE(throws(ErrorKind::usage, "the producer gave 8 bytes, its shape takes 12", write({lies})));
  EXPECT_EQ(real_io().list(dir.path()), std::vector<std::string>{});  // no half-written file stays
}

TEST(SafetensorsWrite, SavingOverAMappedFileLeavesTheMappingAlone) {
  TemporaryDirectory dir;
  const std::string path = dir / "model.safetensors";
  const std::vector<float> old(5000, 1.f), next(3, 2.f);
  const TensorToWrite first = tensor("x", {5000}, old), second = tensor("x", {3}, next);
  write_safetensors(real_io(), path, {&first, 1});
  const Safetensors mapped(path);
  write_safetensors(real_io(), path, {&second, 1});
  EXPECT_EQ(values<float>(mapped.get("x")), old);
  EXPECT_EQ(values<float>(Safetensors(path).get("x")), next);
  // Even from its own bytes.
  const Safetensors own(path);
  write_safetensors(real_io(), path, to_write(own));
  EXPECT_EQ(values<float>(Safetensors(path).get("x")), next);
}

TEST(SafetensorsWrite, AFailureAnywhereLeavesTheOldFileWhole) {
  TemporaryDirectory dir;
  const std::string path = dir / "model.safetensors";
  const std::vector<float> old(100, 1.f), next(200, 2.f);
  const TensorToWrite first = tensor("x", {100}, old), second = tensor("x", {200}, next);
  write_safetensors(real_io(), path, {&first, 1});
  const std::string before = read_bytes(path);
  int failures = 0;
  for (const FaultKind kind :
       {FaultKind::no_space, FaultKind::io_error, FaultKind::short_write, FaultKind::sync_error}) {
    for (int64_t k = 0;; ++k) {
      FaultIo io(real_io(), Fault{.at = k, .kind = kind});
      try {
        write_safetensors(io, path, {&second, 1});
      } catch (const Error&) {
        ++failures;
        // Only the sync of the directory comes after the rename.
        const std::string now = read_bytes(path);
        EXPECT_TRUE(now == before || values<float>(Safetensors(path).get("x")) == next) << k;
        for (const std::string& name : real_io().list(parent_path(path)))
          EXPECT_EQ(name.find(".tmp-"), std::string::npos) << k << " " << name;
      }
      if (io.num_operations() <= k) break;  // the fault lay past the end
      write_safetensors(real_io(), path, {&first, 1});
    }
    write_safetensors(real_io(), path, {&first, 1});
  }
  EXPECT_GE(failures, 8);
}

TEST(SafetensorsWrite, PropertyWhatIsWrittenIsReadBack) {
  std::mt19937_64 random(mutation_seed());
  RecordProperty("seed", static_cast<int>(mutation_seed()));
  TemporaryDirectory dir;
  constexpr std::array kTypes{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,    DType::i32,
                              DType::i16, DType::u16, DType::i8,   DType::u8,  DType::boolean};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> data;
    std::vector<TensorToWrite> tensors;
    for (size_t i = 0, n = random() % 12; i < n; ++i) {
      TensorToWrite t;
      t.name = "t" + std::to_string(i) + std::string(random() % 3, '"');
      t.dtype = kTypes[random() % kTypes.size()];
      int64_t elements = 1;
      for (size_t d = random() % 5; d > 0; --d) elements *= t.shape.emplace_back(static_cast<int64_t>(random() % 5));
      std::string& bytes = data.emplace_back(static_cast<size_t>(elements * size_of(t.dtype)), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      tensors.push_back(t);
    }
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = std::as_bytes(std::span(data[i]));
    write_safetensors(real_io(), dir / "p.safetensors", tensors, {{"round", std::to_string(round)}});
    const Safetensors file(dir / "p.safetensors");
    ASSERT_EQ(file.size(), tensors.size());
    ASSERT_EQ(file.metadata().at("round"), std::to_string(round));
    for (const TensorToWrite& t : tensors) {
      const TensorView got = file.get(t.name);
      ASSERT_EQ(got.dtype, t.dtype);
      ASSERT_TRUE(std::ranges::equal(got.shape, t.shape));
      ASSERT_TRUE(std::ranges::equal(got.bytes, t.bytes)) << t.name << " round " << round;
    }
  }
}

}  // namespace
}  // namespace tern
