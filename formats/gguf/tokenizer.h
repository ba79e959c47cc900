#pragma once
// The vocabulary of a GGUF file.

#include "formats/gguf/gguf.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

/// The tokenizer that tokenizer.ggml.* describes: "gpt2" (byte-level BPE with merges, splitting rule by its name),
/// "llama" (SentencePiece's BPE: pieces with scores), "bert" (WordPiece), "t5" (SentencePiece's Unigram). The merges of
/// "llama" are every pair of pieces that make a third, the best score first, of equal scores the leftmost; unused
/// pieces never come out. Errors  bad_file "PATH: key 'K': …": another kind, a splitting rule tern does not know or
/// none, lists of different
///         lengths, types and scores that are none, ids and merges of no pieces.
/// Source  the keys of ggml's GGUF description and what llama.cpp makes of them (formats/gguf/split.h).
Tokenizer gguf_tokenizer(const Gguf&);

}  // namespace tern
