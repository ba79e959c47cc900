#pragma once
// A tokenizer written as GGUF's metadata.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/tokenizer.h"

namespace tern {

class GgufMetadata;  // formats/gguf/write.h

/// Writes tokenizer.ggml.*: byte-level BPE as llama.cpp's "gpt2" with the name of its splitting rule, BPE with byte
/// fallback as its "llama" with scores (minus the rank of the merge that makes a piece). Ids up to vocab_size that the
/// tokenizer does not have become unused pieces, as llama.cpp's converter names them.
/// Returns what is lost, one sentence each: added tokens that swallow blanks or are found in normalized text.
/// Errors  usage: a tokenizer of another kind, or a splitting rule that llama.cpp has no name for, as far as tern
///         knows.
std::vector<std::string> add_gguf_vocabulary(GgufMetadata&, const Tokenizer&, int64_t vocab_size);

}  // namespace tern
