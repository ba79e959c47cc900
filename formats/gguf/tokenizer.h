#pragma once
// The vocabulary of a GGUF file.

#include "formats/gguf/gguf.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

/// The tokenizer that tokenizer.ggml.* describes: "gpt2" (byte-level BPE with merges, splitting rule by its name),
/// "llama" (SentencePiece's BPE: pieces with scores), "bert" (WordPiece), "t5" (SentencePiece's Unigram). The merges of
/// "llama" are every pair of pieces that make a third, the best score first, of equal scores the leftmost; unused
/// pieces never come out.
/// Errors  bad_file "PATH: key 'K': …": another kind, a splitting rule that is missing or that tern does not know, lists of
///         different lengths, invalid types or scores, ids or merges of pieces that do not exist.
/// Source  the keys of ggml's GGUF description and what llama.cpp makes of them (formats/gguf/split.h).
Tokenizer gguf_tokenizer(const Gguf&);

}  // namespace tern
