#pragma once
// SentencePiece models as .model files.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// Types of pieces, as the format numbers them (GGUF has the same numbers).
enum class PieceType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// A piece with its score (a log probability, or the order of merges) and type.
struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

/// What a .model file, or GGUF's vocabulary with scores, says.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  // by id
  bool is_unigram = true;             // else BPE by scores
  bool byte_fallback = false;
  bool add_dummy_prefix = true;          // adds a space before the text
  bool whitespace_as_suffix = false;     // adds that space behind the text instead
  bool remove_extra_whitespaces = true;  // at both ends, and of several in a row
  bool escape_whitespaces = true;        // spaces become "▁"
  // User-defined pieces are looked for in normalized text and change nothing around them; else (GGUF) in the raw text,
  // which they cut.
  bool user_defined_in_normalized = true;
  std::string charsmap;  // compiled rules; empty: none
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
};

/// Reads the bytes of a .model file (a protocol buffer).
/// Errors  bad_file "PLACE: …": broken fields, model types other than Unigram and BPE, rules for decoding, piece types
///         that do not exist, sizes beyond what is read. Fields about training alone are passed over.
/// Source  sentencepiece_model.proto of SentencePiece 0.2.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& place);

/// The bytes of a .model file that SentencePiece and read_sentencepiece read to the same tokenizer.
std::string write_sentencepiece(const SentencePieceModel&);

}  // namespace tern
