#pragma once
// A token file made by hand, as tern tokenize --pack would write it. Only tests include it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "formats/safetensors/write.h"

namespace tern {

/// Documents laid end to end: `documents` holds where each begins, and the end. `loss`: one mask byte a token, or none.
inline void write_token_file(const std::string& path, const std::vector<uint16_t>& tokens,
                             const std::vector<int64_t>& documents, int64_t vocab,
                             const std::vector<uint8_t>& loss = {}) {
  const auto n = static_cast<int64_t>(tokens.size()), borders = static_cast<int64_t>(documents.size());
  std::vector<TensorToWrite> parts = {{"tokens", DType::u16, {n}, std::as_bytes(std::span(tokens)), {}},
                                      {"documents", DType::i64, {borders}, std::as_bytes(std::span(documents)), {}}};
  if (!loss.empty()) parts.push_back({"loss", DType::u8, {n}, std::as_bytes(std::span(loss)), {}});
  write_safetensors(real_io(), path, parts,
                    {{"format", "tern-tokens-1"},
                     {"vocab_size", std::to_string(vocab)},
                     {"text_bytes", std::to_string(n)},
                     {"tokenizer", "none"},
                     {"source", "test"}});
}

}  // namespace tern
