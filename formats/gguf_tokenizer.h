#pragma once
// The vocabulary of a GGUF file.

#include "formats/gguf.h"
#include "formats/tokenizer.h"

namespace tern {

/// Kinds "gpt2" (byte-level BPE with merges, splitting rule by its name) and "llama" (SentencePiece's BPE: pieces with
/// scores). The merges of the latter are every pair of pieces that make a third, the best score first.
/// Errors  bad_file: another kind, a splitting rule tern does not know, lists of different lengths, a merge of no
///         pieces.
Tokenizer gguf_tokenizer(const Gguf&);

}  // namespace tern
