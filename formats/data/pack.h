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

/// Called while packing goes on, for a progress line. Returns false to stop it; then packing throws
/// ErrorKind::interrupted.
using PackProgress = bool (*)(void* context, int64_t bytes_done, int64_t bytes_total);
/// How texts are packed.
struct PackOptions {
  PackProgress progress = nullptr;
  void* context = nullptr;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;      // an error names file, line and byte
  std::function<void(const std::string&)> tell = {};  // called with what a person should know: documents changed
  const ChatTraining* chat = nullptr;                 // for lines with messages; null: they are an error
  int64_t memory_bytes = INT64_MAX;  // memory that one document may take while it becomes tokens; more: does_not_fit
  int64_t most_tokens = INT64_MAX;   // packing ends with the document that reaches so many
  int64_t window =
      0;  // not 0: only pairs of answers are packed, each answer with its prompt as a document of `window` tokens
  // Raised to the most bytes that a long document, or a long list of documents, was counted to take; unchanged if there
  // was none.
  int64_t* most_bytes = nullptr;
};

/// Packs text (.txt or any other name) and JSONL (.jsonl, .ndjson) into one token file, written under a temporary name
/// and renamed. A line of JSONL has `text`; or `prompt` and `completion`, with the loss on the completion alone; or
/// `messages`, with the loss on the assistant's alone and nothing added around them. Documents of a text file are
/// separated by <|endoftext|> lines; a file without such a line is one document. Each document begins with BOS if the
/// tokenizer adds one, and ends with EOS if the tokenizer has one.
/// "<|endoftext|>" within a line, like every other special token's text, is plain text: data must not forge structure.
/// A prompt and its completion are encoded apart, because generation meets the prompt alone.
/// Pairs (`chosen`, `rejected`) need a window. Each answer is then a document of its own, the rejected one after the
/// chosen one, filled up with tokens 0 that have no loss; one more token ends the file.
/// Memory  bounded: files are mapped and let go, long documents are encoded in parts of 1
///         MiB where that cannot change ids (byte-level tokenizers of the usual patterns),
///         else whole; offsets take 8 bytes per document. Ids go through a temporary
///         file.
/// Errors  bad_file: naming file and line; a document of more than 256 MiB that cannot be encoded in parts; with a
///         window: a line that is no pair, an answer that is longer; without: a pair.
TokenFileInfo pack(const std::vector<std::filesystem::path>& inputs, const Tokenizer&,
                   const std::filesystem::path& output, PackOptions = {}, Io& = real_io());

/// Opens `data` if it is a token file (is_token_file, or any .safetensors); its tokenizer must be this one. Else packs
/// it, a text, JSONL, or a folder of them (data_files), into `cache_dir`. A later call finds the packed file by the
/// inputs' paths, sizes and times and the tokenizer's hash. The packed file is written through the Io; inputs are read
/// from the real disk.
TokenData load_or_pack(const std::filesystem::path& data, const Tokenizer&, const std::filesystem::path& cache_dir,
                       PackOptions = {}, Io& = real_io());

}  // namespace tern
