#pragma once
// Packing texts into a token file.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/io.h"
#include "formats/data/text_data.h"
#include "formats/data/token_data.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

class ChatTraining;  // formats/chat/training.h

/// Called while packing goes on, for a progress line; false stops it (then ErrorKind::interrupted).
using PackProgress = bool (*)(void* context, int64_t bytes_done, int64_t bytes_total);
struct PackOptions {
  PackProgress progress = nullptr;
  void* context = nullptr;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;      // an error names file, line and byte
  std::function<void(const std::string&)> tell = {};  // called with what a person should know: documents changed
  const ChatTraining* chat = nullptr;                 // for lines with messages; null: they are an error
  int64_t memory_bytes = INT64_MAX;  // that one document may take while it becomes tokens; beyond it: does_not_fit
  int64_t window =
      0;  // not 0: pairs of answers alone, each answer with its prompt filled up to so many tokens; then one more
  int64_t* most_bytes = nullptr;  // set to the largest memory bound of any one document; 0 if all were short enough to
                                  // need none
};

/// Packs text (.txt or any other name) and JSONL (.jsonl, .ndjson) into one token file, written under a temporary name and
/// renamed. A line of JSONL has `text`; or `prompt` and `completion`, with the loss on the completion alone; or `messages`,
/// with the loss on the assistant's alone and nothing added around them. Documents of a text file are separated by
/// <|endoftext|> lines; a file without such a line is one document. Each document gets BOS in front if the tokenizer adds one
/// and EOS behind if there is an EOS.
/// "<|endoftext|>" within a line, like every other special token's text, is plain text: data must not forge structure.
/// A prompt and its completion are encoded each on its own, as generation would meet them.
/// Pairs (`chosen`, `rejected`), only with a window: each answer is a document of its own, the rejected one behind the chosen one, filled
/// up with tokens 0 without a loss; at the end of all comes one more token.
/// Memory  bounded: files are mapped and let go, long documents are encoded in parts of 1
///         MiB where that cannot change ids (byte-level tokenizers of the usual patterns),
///         else whole; offsets take 8 bytes per document. Ids go through a temporary
///         file.
/// Errors  bad_file: naming file and line; a document of more than 256 MiB that cannot be encoded in parts; with a window: a line that is
///         no pair, an answer that is longer; without: a pair.
TokenFileInfo pack(const std::vector<std::filesystem::path>& inputs, const Tokenizer&,
                   const std::filesystem::path& output, PackOptions = {}, Io& = real_io());

/// A token file (is_token_file, or any .safetensors) is opened (its tokenizer must be this one); text or JSONL, or a folder of them
/// (data_files), is packed into `cache_dir` once and found again by the files' paths, sizes, times and the tokenizer's hash. The packed file
/// is written through the Io; inputs are read from the real disk.
TokenData load_or_pack(const std::filesystem::path& data, const Tokenizer&, const std::filesystem::path& cache_dir,
                       PackOptions = {}, Io& = real_io());

}  // namespace tern
