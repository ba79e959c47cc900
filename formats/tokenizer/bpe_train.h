#pragma once
// Learns a byte-level BPE tokenizer from text. The reference: BpeTrainer of Hugging Face's tokenizers.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/repair_utf8.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

/// The pattern by which text is split into words.
enum class SplitPattern { gpt2, llama3 };

/// How the tokenizer is learned.
struct BpeTrainOptions {
  int64_t vocab_size = 8192;  // special tokens and the 256 bytes included
  SplitPattern pattern = SplitPattern::gpt2;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // take ids 0, 1, …; the first one is BOS and EOS
  int64_t min_frequency = 2;                                    // a pair seen less often is never merged
  int64_t memory_bytes = INT64_MAX;  // for distinct words and their pairs; beyond it: does_not_fit
  std::function<void(std::string_view part)> read =
      {};                                // called with each part of a long text that will not be read again
  Utf8Repair repair = Utf8Repair::mark;  // of bytes that are no UTF-8
};

/// `next(text)` fills in the next piece of text (a document, a line, a whole file) and says whether there was one.
/// Words never cross pieces. Bytes that are no UTF-8 are repaired part by part.
using TextSource = std::function<bool(std::string_view& text)>;

/// Order   the most frequent pair first, ties by the smaller left id, then the smaller
///         right id: the result depends on the text alone, not on threads or hash
///         seeds. The same ties as the reference's BpeTrainer, and the same merges
///         but for two things: special tokens in the text are left out (the reference learns from them as from words);
///         and where two merges make the same piece, a pair with that piece is merged once, everywhere (the reference
///         at times merges it twice).
/// Memory  up to 256 bytes for each distinct word and 48 for each of its bytes; a text is looked at in parts of 4 MiB,
///         but for a word that is longer.
/// Errors  does_not_fit: that is more than memory_bytes.
///         usage: vocab_size below 256 + special tokens. Text without enough pairs gives fewer pieces; callers compare
///         vocab_size() with what they asked for.
Tokenizer train_bpe(const TextSource& next, const BpeTrainOptions&);

}  // namespace tern
