#pragma once
// Tests only: where the golden files of tokenizers lie, and those that are not in this repository.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/source_dir_testing.h"

namespace tern {

inline const std::filesystem::path kTokenizerGolden = std::filesystem::path(source_dir()) / "tests/golden/tokenizers";

/// What the strings of the parity tests are made of (formats/tokenizer/strings_testing.h).
inline const nlohmann::json& parity_alphabet() {
  static const nlohmann::json a = nlohmann::json::parse(std::ifstream(kTokenizerGolden / "alphabet.json"));
  return a;
}

/// The tokenizers of others, which TERN_DATA names; empty where it is not set.
inline std::filesystem::path published_tokenizers() {
  const char* data = std::getenv("TERN_DATA");
  return data ? std::filesystem::path(data) / "tokenizers" : std::filesystem::path();
}

}  // namespace tern
