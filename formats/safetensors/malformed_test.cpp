// Files made by hand, each wrong in one way, and what the reader says.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/process_memory.h"
#include "formats/format_test_support.h"
#include "formats/safetensors/safetensors.h"

namespace tern {
namespace {

struct MalformedFile {
  std::string name, file, says;
};

std::string u64(uint64_t n) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i));
  return bytes;
}

/// A tensor entry of given dtype, shape and offsets text.
std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}";
}
/// A file with one tensor "a".
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, std::string_view data = "") {
  return safetensors_file("{" + entry("a", dtype, shape, offsets) + "}", data);
}
std::string header(std::string_view text, std::string_view data = "") { return safetensors_file(text, data); }
/// A file whose tensor "a" has this body.
std::string body(std::string_view text, std::string_view data = "") {
  return header("{\"a\":" + std::string(text) + "}", data);
}
std::string zeros(size_t n) { return std::string(n, '\0'); }
std::string nested(size_t depth, std::string_view open) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  return text;
}

std::vector<MalformedFile> malformed_files() {
  const std::string ok = entry("a", "U8", "[2]", "[0,2]");
  const std::string max64 = "9223372036854775807", over64 = "9223372036854775808", maxu64 = "18446744073709551615";
  const std::string dim31 = "2147483648", big = std::string((1 << 20) + 1, 'x');
  std::vector<MalformedFile> c{
      // the frame
      {"no bytes", "", "0 bytes, expected at least the 8"},
      {"one byte", "x", "1 bytes, expected at least the 8"},
      {"seven bytes", zeros(7), "7 bytes, expected at least the 8"},
      {"length only, zero", u64(0), "does not begin with '{'"},
      {"length zero with data", u64(0) + "abc", "does not begin with '{'"},
      {"length beyond file", u64(3) + "{}", "header of 3 bytes in a file of 10"},
      {"length far beyond file", u64(1000000) + "{}", "the file is cut short"},
      {"length at the limit, file short", u64(100000000) + "{}", "header of 100000000 bytes in a file"},
      {"length above 100 MB", u64(100000001) + "{}", "expected at most 100 MB"},
      {"length 2^31", u64(uint64_t{1} << 31) + "{}", "expected at most 100 MB"},
      {"length 2^63", u64(uint64_t{1} << 63) + "{}", "expected at most 100 MB"},
      {"length 2^64-1", u64(~uint64_t{0}) + "{}", "expected at most 100 MB"},
      {"length 2^64-8", u64(~uint64_t{0} - 7) + "{}", "expected at most 100 MB"},
      {"length in text", "00000002{}", "expected at most 100 MB"},
      {"length big-endian", zeros(7) + "\x02{}", "expected at most 100 MB"},
      {"git lfs pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "a Git LFS pointer"},
      {"html page", "<!DOCTYPE html><html><body>404</body></html>", "expected at most 100 MB"},
      {"zip of a pickle", "PK\x03\x04" + zeros(60), "in a file of 64"},
      {"gguf", "GGUF\x03" + zeros(59), "expected at most 100 MB"},
      {"header cut in the middle", u64(40) + "{\"a\":{\"dtype\":\"U8\"", "the file is cut short"},
      // the first byte
      {"blank before brace", header(" {}"), "does not begin with '{'"},
      {"newline before brace", header("\n{}"), "does not begin with '{'"},
      {"byte order mark", header("\xEF\xBB\xBF{}"), "does not begin with '{'"},
      {"array at top", header("[]"), "does not begin with '{'"},
      {"string at top", header("\"a\""), "does not begin with '{'"},
      {"number at top", header("12"), "does not begin with '{'"},
      {"null at top", header("null"), "does not begin with '{'"},
      {"zero byte first", header(std::string("\0{}", 3)), "does not begin with '{'"},
      // JSON
      {"unclosed object", header("{"), "header is not JSON"},
      {"two objects", header("{}{}"), "header is not JSON"},
      {"trailing word", header("{} x"), "header is not JSON"},
      {"trailing zero bytes", header("{}" + zeros(6)), "header is not JSON"},
      {"trailing comma", header("{" + ok + ",}", "ab"), "header is not JSON"},
      {"leading comma", header("{," + ok + "}", "ab"), "header is not JSON"},
      {"missing colon", header("{\"a\" 1}"), "header is not JSON"},
      {"single quotes", header("{'a':1}"), "header is not JSON"},
      {"bare key", header("{a:1}"), "header is not JSON"},
      {"comment", header("{/* c */}"), "header is not JSON"},
      {"line comment", header("{}//x"), "header is not JSON"},
      {"bad escape", header("{\"\\q\":1}"), "header is not JSON"},
      {"lone surrogate", header("{\"\\ud800\":1}"), "header is not JSON"},
      {"invalid UTF-8 name", header("{" + entry("\xff", "U8", "[2]", "[0,2]") + "}", "ab"), "header is not JSON"},
      {"overlong UTF-8 name", header("{" + entry("\xc0\x80", "U8", "[2]", "[0,2]") + "}", "ab"), "header is not JSON"},
      {"raw control character", header("{\"a\x01\":1}"), "header is not JSON"},
      {"raw newline in name", header("{\"a\nb\":1}"), "header is not JSON"},
      {"NaN", body("NaN"), "header is not JSON"},
      {"Infinity", body("Infinity"), "header is not JSON"},
      {"hexadecimal", one("U8", "[0x2]", "[0,2]", "ab"), "header is not JSON"},
      {"leading zero", one("U8", "[02]", "[0,2]", "ab"), "header is not JSON"},
      {"plus sign", one("U8", "[+2]", "[0,2]", "ab"), "header is not JSON"},
      {"unclosed string", header("{\"a"), "header is not JSON"},
      {"unclosed array", header("{\"a\":{\"shape\":[1"), "header is not JSON"},
      {"mismatched brackets", header("{\"a\":{\"shape\":[1}]}"), "header is not JSON"},
      {"error tells the byte", header("{\"a\":!}"), "byte 13"},
      // depth
      {"objects 10000 deep", header(nested(10000, "{\"a\":")), "unknown key \"a\""},
      {"arrays 10000 deep", body("{\"shape\":" + nested(10000, "[")), "shape holds an array"},
      {"metadata 10000 deep", header("{\"__metadata__\":" + nested(10000, "{\"k\":")), "\"k\" is an object"},
      // the tensor's object
      {"tensor is null", body("null"), "tensor \"a\": null, expected an object"},
      {"tensor is a number", body("1"), "tensor \"a\": the number 1, expected an object"},
      {"tensor is a negative number", body("-1"), "tensor \"a\": the number -1, expected an object"},
      {"tensor is a float", body("1.5"), "tensor \"a\": the number \"1.5\", expected an object"},
      {"tensor is a string", body("\"x\""), "tensor \"a\": the string \"x\", expected an object"},
      {"tensor is true", body("true"), "tensor \"a\": true or false, expected an object"},
      {"tensor is an array", body("[]"), "tensor \"a\": an array, expected an object"},
      {"tensor is empty", body("{}"), "tensor \"a\": no dtype"},
      {"no dtype", body("{\"shape\":[2],\"data_offsets\":[0,2]}", "ab"), "no dtype"},
      {"no shape", body("{\"dtype\":\"U8\",\"data_offsets\":[0,2]}", "ab"), "no shape"},
      {"no data_offsets", body("{\"dtype\":\"U8\",\"shape\":[2]}", "ab"), "no data_offsets"},
      {"unknown key", body("{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"x\":1}", "ab"),
       "unknown key \"x\""},
      {"key in capitals", body("{\"DTYPE\":\"U8\"}"), "unknown key \"DTYPE\""},
      {"empty key", body("{\"\":\"U8\"}"), "unknown key \"\""},
      {"dtype twice", body("{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}", "ab"),
       "\"dtype\" appears twice"},
      {"shape twice", body("{\"dtype\":\"U8\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,2]}", "ab"),
       "\"shape\" appears twice"},
      {"data_offsets twice",
       body("{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"data_offsets\":[0,2]}", "ab"),
       "\"data_offsets\" appears twice"},
      // dtype
      {"dtype unknown", one("F33", "[2]", "[0,2]", "ab"), "unknown dtype \"F33\"; the format has BOOL"},
      {"dtype in small letters", one("u8", "[2]", "[0,2]", "ab"), "unknown dtype \"u8\""},
      {"dtype with a blank", one("U8 ", "[2]", "[0,2]", "ab"), "unknown dtype \"U8 \""},
      {"dtype of torch", one("torch.float32", "[2]", "[0,8]", zeros(8)), "unknown dtype \"torch.float32\""},
      {"dtype empty", one("", "[2]", "[0,2]", "ab"), "unknown dtype \"\""},
      {"dtype with a zero byte", one("U8\\u0000", "[2]", "[0,2]", "ab"), "unknown dtype \"U8\\u0000\""},
      {"dtype long", one(std::string(5000, 'F'), "[2]", "[0,2]", "ab"), "(5000 bytes)"},
      {"dtype null", body("{\"dtype\":null}"), "dtype is null, expected a string"},
      {"dtype number", body("{\"dtype\":8}"), "dtype is the number 8, expected a string"},
      {"dtype array", body("{\"dtype\":[\"U8\"]}"), "dtype is an array, expected a string"},
      {"dtype object", body("{\"dtype\":{}}"), "dtype is an object, expected a string"},
      {"dtype true", body("{\"dtype\":true}"), "dtype is true or false, expected a string"},
      // shape
      {"shape null", one("U8", "null", "[0,2]", "ab"), "shape is null, expected an array"},
      {"shape number", one("U8", "2", "[0,2]", "ab"), "shape is the number 2, expected an array"},
      {"shape string", one("U8", "\"2\"", "[0,2]", "ab"), "shape is the string \"2\", expected an array"},
      {"shape object", one("U8", "{}", "[0,2]", "ab"), "shape is an object, expected an array"},
      {"shape true", one("U8", "true", "[0,2]", "ab"), "shape is true or false, expected an array"},
      {"size negative", one("U8", "[-2]", "[0,2]", "ab"), "shape holds the number -2, expected whole numbers"},
      {"size minus zero point", one("U8", "[-0.0]", "[0,0]"), "shape holds the number \"-0.0\""},
      {"size float", one("U8", "[2.0]", "[0,2]", "ab"), "shape holds the number \"2.0\""},
      {"size exponent", one("U8", "[2e0]", "[0,2]", "ab"), "shape holds the number \"2e0\""},
      {"size null", one("U8", "[null]", "[0,2]", "ab"), "shape holds null"},
      {"size true", one("U8", "[true]", "[0,2]", "ab"), "shape holds true or false"},
      {"size string", one("U8", "[\"2\"]", "[0,2]", "ab"), "shape holds the string \"2\""},
      {"size array", one("U8", "[[2]]", "[0,2]", "ab"), "shape holds an array"},
      {"size object", one("U8", "[{}]", "[0,2]", "ab"), "shape holds an object"},
      {"size 2^63", one("U8", "[" + over64 + "]", "[0,2]", "ab"), "at most 2^63 - 1"},
      {"size 2^64-1", one("U8", "[" + maxu64 + "]", "[0,2]", "ab"), "at most 2^63 - 1"},
      {"size 2^64", one("U8", "[18446744073709551616]", "[0,2]", "ab"), "shape holds the number"},
      {"size 1e400", one("U8", "[1e400]", "[0,2]", "ab"), "header is not JSON"},
      {"rank 9", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]", "a"), "more than 8 dimensions"},
      {"rank 100000", one("U8", "[1" + nested(99999, ",1") + "]", "[0,1]", "a"), "more than 8 dimensions"},
      // shape x dtype = bytes
      {"one byte short", one("U8", "[3]", "[0,2]", "ab"), "takes 3 bytes, data_offsets [0, 2] give 2"},
      {"one byte long", one("U8", "[1]", "[0,2]", "ab"), "takes 1 bytes, data_offsets [0, 2] give 2"},
      {"bytes of another dtype", one("F32", "[2]", "[0,4]", zeros(4)), "takes 8 bytes"},
      {"scalar without bytes", one("F32", "[]", "[0,0]"), "takes 4 bytes"},
      {"empty tensor with bytes", one("F32", "[0]", "[0,4]", zeros(4)), "takes 0 bytes"},
      {"product 2^62 x 2", one("U8", "[4611686018427387904,2]", "[0,2]", "ab"), "no whole number of bytes"},
      {"product 2^31 x 2^31 x 2^31", one("U8", "[" + dim31 + "," + dim31 + "," + dim31 + "]", "[0,2]", "ab"),
       "no whole number of bytes"},
      {"product wraps to the right size", one("U8", "[6148914691236517206,3]", "[0,2]", "ab"),
       "no whole number of bytes"},
      {"product wraps to zero", one("U8", "[4294967296,4294967296]", "[0,0]"), "no whole number of bytes"},
      {"bytes wrap", one("F64", "[2305843009213693952]", "[0,0]"), "no whole number of bytes"},
      {"overflow hidden by a zero", one("U8", "[4294967296,4294967296,0]", "[0,0]"), "no whole number of bytes"},
      {"largest size", one("U8", "[" + max64 + "]", "[0,2]", "ab"), "no whole number of bytes"},
      {"half a byte", one("F4", "[3]", "[0,2]", "ab"), "no whole number of bytes"},
      {"six bits", one("F6_E2M3", "[2]", "[0,2]", "ab"), "no whole number of bytes"},
      // data_offsets
      {"offsets null", one("U8", "[2]", "null", "ab"), "data_offsets is null, expected [begin, end]"},
      {"offsets number", one("U8", "[2]", "2", "ab"), "data_offsets is the number 2"},
      {"offsets object", one("U8", "[2]", "{}", "ab"), "data_offsets is an object"},
      {"offsets string", one("U8", "[2]", "\"0,2\"", "ab"), "data_offsets is the string"},
      {"offsets empty", one("U8", "[2]", "[]", "ab"), "data_offsets holds 0 numbers"},
      {"offsets one", one("U8", "[2]", "[0]", "ab"), "data_offsets holds 1 numbers"},
      {"offsets three", one("U8", "[2]", "[0,2,4]", "ab"), "data_offsets holds more than two"},
      {"offsets negative", one("U8", "[2]", "[-2,0]", "ab"), "data_offsets holds the number -2"},
      {"offsets float", one("U8", "[2]", "[0,2.0]", "ab"), "data_offsets holds the number \"2.0\""},
      {"offsets strings", one("U8", "[2]", "[\"0\",\"2\"]", "ab"), "data_offsets holds the string"},
      {"offsets nulls", one("U8", "[2]", "[null,2]", "ab"), "data_offsets holds null"},
      {"offsets nested", one("U8", "[2]", "[[0,2]]", "ab"), "data_offsets holds an array"},
      {"offsets 2^63", one("U8", "[2]", "[0," + over64 + "]", "ab"), "at most 2^63 - 1"},
      {"offsets 2^64-1", one("U8", "[2]", "[" + maxu64 + "," + maxu64 + "]", "ab"), "at most 2^63 - 1"},
      {"offsets backwards", one("U8", "[2]", "[2,0]", "ab"), "end before they begin"},
      {"offsets far backwards", one("U8", "[2]", "[" + max64 + ",0]", "ab"), "end before they begin"},
      // tiling
      {"past the end", one("U8", "[3]", "[0,3]", "ab"), "reach past the file's 2 data bytes"},
      {"data missing", one("U8", "[2]", "[0,2]"), "the file is cut short"},
      {"far past the end", one("U8", "[1099511627776]", "[0,1099511627776]", "ab"),
       "reach past the file's 2 data bytes"},
      {"a byte left over", one("U8", "[2]", "[0,2]", "abc"), "1 bytes after the last tensor"},
      {"data without tensors", header("{}", "abc"), "3 bytes after the last tensor"},
      {"hole at the front", one("U8", "[1]", "[1,2]", "ab"), "leave a hole after the bytes before it, which end at 0"},
      {"hole between",
       header("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "U8", "[1]", "[2,3]") + "}", "abc"),
       "leave a hole"},
      {"overlap", header("{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}", "abc"),
       "overlap the bytes before it"},
      {"same bytes twice",
       header("{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[0,2]") + "}", "ab"), "overlap"},
      {"one inside another",
       header("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[1]", "[1,2]") + "}", "abcd"),
       "overlap"},
      {"empty tensor inside another",
       header("{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[0]", "[1,1]") + "}", "ab"), "overlap"},
      {"empty tensor past the end", one("U8", "[0]", "[7,7]"), "leave a hole"},
      // names
      {"same name twice",
       header("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}", "ab"),
       "tensor \"a\" appears twice"},
      {"same name twice, same bytes", header("{" + ok + "," + ok + "}", "ab"), "tensor \"a\" appears twice"},
      {"same name by escape",
       header("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("\\u0061", "U8", "[1]", "[1,2]") + "}", "ab"),
       "tensor \"a\" appears twice"},
      {"name over 1 MiB", header("{" + entry(big, "U8", "[2]", "[0,2]") + "}", "ab"), "a key of 1048577 bytes"},
      {"dtype over 1 MiB", one(big, "[2]", "[0,2]", "ab"), "a string of 1048577 bytes"},
      {"control characters are shown escaped", one("\\u001b[31m", "[2]", "[0,2]", "ab"), "\\u001b[31m"},
      // __metadata__
      {"metadata null", header("{\"__metadata__\":null}"), "__metadata__ is null, expected an object of strings"},
      {"metadata string", header("{\"__metadata__\":\"pt\"}"), "__metadata__ is the string"},
      {"metadata array", header("{\"__metadata__\":[]}"), "__metadata__ is an array"},
      {"metadata number", header("{\"__metadata__\":1}"), "__metadata__ is the number 1"},
      {"metadata value number", header("{\"__metadata__\":{\"step\":1}}"),
       "__metadata__: \"step\" is the number 1, expected a string"},
      {"metadata value float", header("{\"__metadata__\":{\"step\":1.5}}"),
       "\"step\" is the number \"1.5\", expected a string"},
      {"metadata value null", header("{\"__metadata__\":{\"step\":null}}"), "\"step\" is null, expected a string"},
      {"metadata value true", header("{\"__metadata__\":{\"step\":true}}"), "\"step\" is true or false"},
      {"metadata value array", header("{\"__metadata__\":{\"step\":[]}}"), "\"step\" is an array"},
      {"metadata value object", header("{\"__metadata__\":{\"step\":{}}}"), "\"step\" is an object"},
      {"metadata key twice", header("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}"), "the key \"a\" appears twice"},
      {"metadata twice", header("{\"__metadata__\":{},\"__metadata__\":{}}"), "\"__metadata__\" appears twice"},
      {"metadata key over 1 MiB", header("{\"__metadata__\":{\"" + big + "\":\"\"}}"), "a key of 1048577 bytes"},
      {"metadata value over 1 MiB", header("{\"__metadata__\":{\"a\":\"" + big + "\"}}"), "a string of 1048577 bytes"},
  };
  std::string keys;
  for (int i = 0; i <= 100000; ++i) keys += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
  c.push_back({"metadata of 100001 keys", header("{\"__metadata__\":{" + keys + "}}"), "holds more than 100000 keys"});
  return c;
}

TEST(SafetensorsMalformed, EachIsAnErrorThatSaysWhat) {
  const std::vector<MalformedFile> all = malformed_files();
  ASSERT_GE(all.size(), 120u);
  for (const MalformedFile& c : all) {
    EXPECT_TRUE(throws(ErrorKind::bad_file, c.says, [&] {
      Safetensors::over(std::as_bytes(std::span(c.file)), "f.safetensors");
    })) << c.name;
    EXPECT_TRUE(throws(ErrorKind::bad_file, "f.safetensors: ", [&] {
      Safetensors::over(std::as_bytes(std::span(c.file)), "f.safetensors");
    })) << c.name;
  }
}

TEST(SafetensorsMalformed, AFileOnDiskIsJudgedTheSame) {
  TemporaryDirectory dir;
  const std::vector<MalformedFile> all = malformed_files();
  for (size_t i = 0; i < all.size(); i += 10) {
    write_bytes(dir / "x.safetensors", all[i].file);
    EXPECT_TRUE(throws(ErrorKind::bad_file, all[i].says, [&] { Safetensors file(dir / "x.safetensors"); }))
        << all[i].name;
  }
  EXPECT_TRUE(throws(ErrorKind::bad_file, "absent.safetensors", [&] { Safetensors file(dir / "absent.safetensors"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, dir.path(), [&] { Safetensors file(dir.path()); }));
}

TEST(SafetensorsMalformed, TheNeighboursOfTheCasesAreFine) {
  const std::string longest(1 << 20, 'n');
  for (const std::string& file :
       {header("{}"), header("{}   \n\t "), one("U8", "[]", "[0,1]", "a"),
        one("U8", "[0,1152921504606846975]", "[0,0]"), one("U8", "[1,1,1,1,1,1,1,1]", "[0,1]", "a"),
        one("F4", "[4]", "[0,2]", "ab"), header("{" + entry("", "U8", "[2]", "[0,2]") + "}", "ab"),
        header("{" + entry("b", "U8", "[1]", "[1,2]") + "," + entry("a", "U8", "[1]", "[0,1]") + "}", "ab"),
        header("{" + entry("a", "U8", "[0]", "[0,0]") + "," + entry("b", "U8", "[0]", "[0,0]") + "}"),
        header("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("e", "U8", "[0]", "[1,1]") + "," +
                   entry("b", "U8", "[1]", "[1,2]") + "}",
               "ab"),
        header("{" + entry(longest, "U8", "[2]", "[0,2]") + "}", "ab"), header("{\"__metadata__\":{}}")})
    EXPECT_NO_THROW(Safetensors::over(std::as_bytes(std::span(file)), "fine")) << file.substr(8, 100);
}

TEST(SafetensorsMalformedSlow, AMillionTensorsFitAndOneMoreDoesNot) {
  std::string text = "{";
  text.reserve(70'000'000);
  const auto add = [&](int i) {
    text += (i ? "," : "") +
            entry(std::to_string(i), "U8", "[]", "[" + std::to_string(i) + "," + std::to_string(i + 1) + "]");
  };
  for (int i = 0; i < 1'000'000; ++i) add(i);
  TemporaryDirectory dir;
  const std::string path = dir / "many.safetensors";
  write_bytes(path, safetensors_file(text + "}", zeros(1'000'000)));
  add(1'000'000);
  const std::string more = safetensors_file(text + "}", zeros(1'000'001));
  text.clear();
  text.shrink_to_fit();
  EXPECT_TRUE(throws(ErrorKind::bad_file, "more than a million tensors",
                     [&] { Safetensors::over(std::as_bytes(std::span(more)), "f"); }));
  const int64_t before = read_process_memory().resident_bytes;
  const bool reset = reset_peak_resident();
  const Safetensors file(path);
  EXPECT_EQ(file.size(), 1'000'000u);
  EXPECT_EQ(file.get("999999").bytes.size(), 1u);
  if (!reset) GTEST_SKIP() << "this kernel does not let a process forget its peak memory";
  EXPECT_LE(read_process_memory().peak_resident_bytes - before, 3 * static_cast<int64_t>(more.size()) + (64 << 20));
}

}  // namespace
}  // namespace tern
