#pragma once
// What the tests of formats/ share: a temporary directory, malformed bytes, and the claim "this throws that".

#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/source_dir_testing.h"
#include "formats/mutate_testing.h"

namespace tern {

/// Sanitizers keep freed memory and run many times slower: tests of memory and of long runs ask for less there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tern-formats-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string golden(std::string_view name) { return source_dir() + "/tests/golden/" + std::string(name); }

/// A safetensors file: length, header, data.
inline std::string safetensors_file(std::string_view header, std::string_view data = "") {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return file + std::string(header) + std::string(data);
}

/// `run` must throw an Error of this kind whose message contains `fragment`.
inline testing::AssertionResult throws(ErrorKind kind, std::string_view fragment, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    if (error.kind() != kind)
      return testing::AssertionFailure() << "kind " << static_cast<int>(error.kind()) << ", want "
                                         << static_cast<int>(kind) << ": " << error.what();
    const std::string_view message = error.what();
    if (fragment.empty() || message.find(fragment) == std::string_view::npos)
      return testing::AssertionFailure() << "message does not say \"" << fragment << "\": " << message;
    if (message.size() > 2000) return testing::AssertionFailure() << "a message of " << message.size() << " bytes";
    return testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw no Error but: " << error.what();
  }
  return testing::AssertionFailure() << "threw nothing, want \"" << fragment << "\"";
}

/// The clock of the template goldens (dev/golden/chat_templates.py).
inline std::tm fixed_time() {
  std::tm t{};
  t.tm_year = 126;
  t.tm_mon = 10;
  t.tm_mday = 21;
  t.tm_hour = 14;
  t.tm_min = 5;
  t.tm_sec = 9;
  t.tm_isdst = -1;
  mktime(&t);
  return t;
}

}  // namespace tern
