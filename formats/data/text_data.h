#pragma once
// Documents out of text and JSONL files, one at a time, without reading a file whole.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace tern {

/// A document. Its views live as long as DocumentReader::next says.
struct TextDocument {
  std::string_view text;        // the text, or the prompt
  std::string_view completion;  // if has_completion: the part on which a loss is taken
  bool has_completion = false;
  bool unpacked = false;      // out of JSON: a copy in memory, not a part of the mapped file
  bool is_chat = false;       // `text` is a line of JSON with messages (formats/chat/training.h)
  int64_t line = 1;           // where it begins
  std::string_view row = {};  // an instruction's line of JSON, for a caller with a chat template
  bool is_pair = false;       // one of two answers to a prompt; the rejected one is the document after the chosen one
};

/// The line that separates documents of a text file.
inline constexpr std::string_view kDocumentLine = "<|endoftext|>";

/// Upper bounds of the memory that a document takes, in bytes per byte of it; tests/e2e/memory_test.cpp checks them.
/// kLineBytesPerByte holds for a line of JSONL (the line, the text unpacked from it, a copy of that);
/// kEncodeBytesPerByte for a part longer than 1 MiB that is encoded at once (its text, words, symbols and ids, under
/// any tokenizer).
constexpr int64_t kLineBytesPerByte = 4, kEncodeBytesPerByte = 40;
/// Checks that needed_bytes, which a document of document_bytes takes, are at most there_bytes.
/// Errors: does_not_fit, naming `where`, what it takes, what there is, and what to do.
void require_text_fits(int64_t document_bytes, int64_t needed_bytes, int64_t there_bytes, const std::string& where);

/// Checks that a file's bytes are text. Errors: bad_file: compressed (by its first bytes), or not UTF-8; `place` names
/// it.
void check_text(std::string_view text, const std::string& place);

/// What is done with bytes of a document that are no UTF-8: they are an error, become U+FFFD, or are left out.
enum class InvalidUtf8 : uint8_t { error, replace, skip };
/// "error", "replace", "skip". Errors of invalid_utf8_from_name: usage, for another name.
std::string_view name_of(InvalidUtf8);
InvalidUtf8 invalid_utf8_from_name(std::string_view);

/// Reads the documents of one file. It maps the file and lets go of pages that it has passed, so that a long document is never
/// resident as a whole.
class DocumentReader {
 public:
  /// `.jsonl` and `.ndjson` are JSONL, any other name is text. Bytes that are no UTF-8 are an error in JSONL, and in text if
  /// `invalid` is error. Else a document of text that has them is counted (num_changed) and changed as `invalid` says; one of
  /// more than 4 MiB is counted and handed over unchanged: whoever reads it repairs it part by part (base/repair_utf8.h).
  /// Errors  bad_file: missing; empty; compressed (by its first bytes); a directory; `.json`.
  /// `memory_bytes`: memory that a document may take; next() throws does_not_fit before one takes more.
  explicit DocumentReader(const std::filesystem::path&, InvalidUtf8 invalid = InvalidUtf8::error,
                          int64_t memory_bytes = INT64_MAX);
  /// Reads the next document; false at the end. Its views live until the next call. Empty documents are left out.
  /// Errors  bad_file "PATH: line N: …".
  bool next(TextDocument&);
  /// Lets go of the pages of `part`, a part of a document of plain text that will not be read again.
  void let_go(std::string_view part) const;
  int64_t bytes_done() const { return static_cast<int64_t>(at_); }
  int64_t bytes_total() const { return static_cast<int64_t>(file_.size()); }
  int64_t num_changed() const { return num_changed_; }

 private:
  bool next_text(TextDocument&);
  bool next_json(TextDocument&);
  size_t find_from(size_t begin, std::string_view wanted) const;
  size_t find_invalid(std::string_view text) const;
  std::string_view checked(std::string_view text, std::string& changed);

  MappedFile file_;
  std::string place_;
  std::string_view all_;
  size_t at_ = 0, gone_ = 0;  // bytes before `gone_` have left the program's memory
  int64_t line_ = 1, num_changed_ = 0;
  bool is_json_ = false;
  InvalidUtf8 invalid_;
  int64_t memory_bytes_;
  std::string text_, completion_, rejected_;
  bool rejects_next_ = false;  // a pair's second document is still to come
};

}  // namespace tern
