#pragma once
// The tokenizer that a SentencePiece model means.

#include <memory>
#include <string>
#include <string_view>

#include "formats/tokenizer/sentencepiece_file.h"

namespace tern {

class TextBudget;

struct TokenizerData;
struct SentencePieceStep;  // formats/tokenizer/normalize.h

/// The tokenizer, for finish_tokenizer. Control and unknown pieces are special added tokens: with allow_special off,
/// ids are those of SentencePiece, which reads their spelling as plain text. Time and memory follow the pieces' bytes.
/// Errors  bad_file "PLACE: …": a piece twice, none or two unknown ones, byte pieces without byte fallback, an unused
///         piece that merges make (BPE of a .model file), more merges than 8·pieces + 4,096.
/// Source  SentencePiece 0.2.3, judged by its ids (dev/tokenizers/make_sentencepiece_goldens.py).
std::unique_ptr<TokenizerData> tokenizer_of_sentencepiece(SentencePieceModel, const std::string& place);

/// The step by which the model normalizes text. Errors  bad_file: rules that cannot be read.
SentencePieceStep sentencepiece_step(const SentencePieceModel&, const std::string& place);
/// The text as this step rewrites it. Errors  as TextBudget::check_bytes.
std::string normalize_by_sentencepiece(const SentencePieceStep&, std::string_view text, const TextBudget&);

}  // namespace tern
