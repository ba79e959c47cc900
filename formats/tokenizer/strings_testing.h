#pragma once
// Tests only: the 20,000 mixed strings of the parity tests. dev/tokenizers/strings.py makes the same ones.

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace tern {

inline constexpr int kParityStrings = 20000, kParityBlock = 500;
inline constexpr uint64_t kParitySeed = 20261121;

class Lcg {
 public:
  explicit Lcg(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  uint32_t below(uint32_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((state_ >> 33) % n);
  }

 private:
  uint64_t state_;
};

class ParityStrings {
 public:
  explicit ParityStrings(const nlohmann::json& alphabet, uint64_t seed = kParitySeed) : a_(alphabet), rng_(seed) {}

  std::string next() {
    const uint32_t i = count_++;
    if (i % 4 != 3) return part(i % 12);
    std::string out;
    for (uint32_t n = 2 + rng_.below(3); n > 0; --n) out += part(rng_.below(12));
    return out;
  }

 private:
  const nlohmann::json& any_of(const char* key) { return any_of(a_[key]); }
  const nlohmann::json& any_of(const nlohmann::json& list) {
    return list[rng_.below(static_cast<uint32_t>(list.size()))];
  }
  void add_text(const char* key, std::string& out) { out += any_of(key).get_ref<const std::string&>(); }
  void add_from(const nlohmann::json& ranges, std::string& out) {
    const nlohmann::json& r = any_of(ranges);
    const uint32_t first = r[0], last = r[1];
    append_utf8(out, first + rng_.below(last - first + 1));
  }
  void add_point(uint32_t limit, std::string& out) {
    const uint32_t c = rng_.below(limit - 0x800);
    append_utf8(out, c < 0xD800 ? c : c + 0x800);
  }

  std::string part(uint32_t kind) {
    std::string out;
    const auto repeat = [&](uint32_t n, const auto& body) {
      for (; n > 0; --n) body();
    };
    switch (kind) {
      case 0:
        add_point(0x10000, out);
        break;
      case 1: {
        const nlohmann::json& category = any_of("categories");
        repeat(1 + rng_.below(8), [&] { add_from(category, out); });
        break;
      }
      case 2:
        repeat(1 + rng_.below(16), [&] { add_from(any_of("categories"), out); });
        break;
      case 3:
        repeat(1 + rng_.below(4), [&] { add_text("emoji", out); });
        break;
      case 4:
        repeat(1 + rng_.below(6), [&] {
          repeat(rng_.below(5), [&] { add_text("spaces", out); });
          add_text("words", out);
        });
        repeat(rng_.below(4), [&] { add_text("spaces", out); });
        break;
      case 5:
        repeat(1 + rng_.below(5), [&] {
          repeat(1 + rng_.below(9), [&] { out += static_cast<char>('0' + rng_.below(10)); });
          add_text("separators", out);
        });
        break;
      case 6:
        repeat(1 + rng_.below(6), [&] { add_text("code", out); });
        break;
      case 7: {
        const nlohmann::json& script = any_of("scripts");
        const uint32_t num_words = 1 + rng_.below(8);
        for (uint32_t w = 0; w < num_words; ++w) {
          if (w > 0) out += ' ';
          repeat(1 + rng_.below(9), [&] { add_from(script, out); });
        }
        break;
      }
      case 8: {
        const uint32_t n = 60 + rng_.below(400);
        if (rng_.below(2) == 0)
          out.assign(n, static_cast<char>('a' + rng_.below(26)));
        else
          repeat(n, [&] { out += static_cast<char>('a' + rng_.below(26)); });
        break;
      }
      case 9:
        repeat(1 + rng_.below(4), [&] {
          add_text("specials", out);
          if (rng_.below(2) == 0) add_text("words", out);
          if (rng_.below(3) == 0) out += ' ';
        });
        break;
      case 10:
        repeat(1 + rng_.below(12), [&] {
          const std::string& word = any_of("words").get_ref<const std::string&>();
          const bool shout = rng_.below(6) == 0 && std::ranges::all_of(word, [](char c) { return c > 0; });
          for (const char c : word) out += shout && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
          add_text("endings", out);
        });
        break;
      default:
        repeat(1 + rng_.below(12), [&] { add_point(0x110000, out); });
    }
    return out;
  }

  const nlohmann::json& a_;
  Lcg rng_;
  uint32_t count_ = 0;
};

/// Hashes of number lists, one per block of lists; each list ends with -1.
class BlockHashes {
 public:
  explicit BlockHashes(int block) : block_(block) {}
  template <class Numbers>
  void add_list(const Numbers& numbers) {
    for (const auto n : numbers) add(static_cast<uint32_t>(n));
    add(0xFFFFFFFFu);
    if (++count_ % block_ == 0) {
      char hex[17];
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(value_));
      hashes.push_back(hex);
      value_ = 0xCBF29CE484222325ull;
    }
  }
  std::vector<std::string> hashes;

 private:
  void add(uint32_t n) { value_ = (value_ ^ n) * 0x100000001B3ull; }
  uint64_t value_ = 0xCBF29CE484222325ull;
  int block_, count_ = 0;
};

}  // namespace tern
