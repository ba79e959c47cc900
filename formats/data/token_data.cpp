#include "formats/data/token_data.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "formats/safetensors/safetensors.h"

namespace tern {

namespace {

constexpr std::string_view kFormat = "tern-tokens-1";

int64_t metadata_number(const std::map<std::string, std::string>& metadata, const char* key, const std::string& place) {
  const auto found = metadata.find(key);
  int64_t n = -1;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size()) n = -1;
  }
  if (n < 0)
    throw Error(ErrorKind::bad_file, "{}: metadata '{}' is missing or no number; pack the text again", place, key);
  return n;
}

TensorView vector_named(const Safetensors& file, const char* name, const std::string& place) {
  const auto view = file.find(name);
  if (!view)
    throw Error(ErrorKind::bad_file, "{}: no tensor '{}'; this is no token file: pack the text again", place, name);
  if (view->shape.size() != 1)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' has {} dimensions, expected 1", place, name, view->shape.size());
  return *view;
}

// A key whose name a flipped bit changed must not pass for one that is missing.
void check_keys(const std::map<std::string, std::string>& metadata, const std::string& place) {
  constexpr std::array<std::string_view, 6> kKnown{"format",     "tokenizer",  "source",
                                                   "vocab_size", "text_bytes", "crc32c"};
  for (const auto& [key, value] : metadata)
    if (std::ranges::find(kKnown, key) == kKnown.end())
      throw Error(ErrorKind::bad_file, "{}: metadata '{}' is not known; is the file damaged? Pack the text again",
                  place, make_printable(key));
}

}  // namespace

std::string token_checksum(uint32_t tokens, uint32_t loss, uint32_t documents, const TokenFileInfo& info) {
  return fmt::format("{:08x}", crc32c(fmt::format("{:08x} {:08x} {:08x} {} {} {} {}", tokens, loss, documents,
                                                  info.vocab_size, info.text_bytes, info.tokenizer_hash, info.source)));
}

int32_t TokenData::token(int64_t i) const {
  if (is_wide_) {
    int32_t id;
    std::memcpy(&id, tokens_ + 4 * i, 4);
    return id;
  }
  uint16_t id;
  std::memcpy(&id, tokens_ + 2 * i, 2);
  return id;
}

void TokenData::read(int64_t first, std::span<int32_t> out) const {
  TERN_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= info_.num_tokens,
             "TokenData::read: tokens {} to {} of {}", first, first + static_cast<int64_t>(out.size()),
             info_.num_tokens);
  for (size_t i = 0; i < out.size(); ++i) out[i] = token(first + static_cast<int64_t>(i));
}

int64_t TokenData::document_of(int64_t i) const {
  return std::ranges::upper_bound(documents_, i) - documents_.begin() - 1;
}

bool is_token_file(const std::filesystem::path& path) {
  const auto info = real_io().stat(path.string());
  if (!info || info->is_directory || info->size_bytes < 16) return false;
  const MappedFile file(path.string());
  uint64_t length = 0;
  if (file.size() < 16) return false;
  std::memcpy(&length, file.bytes().data(), sizeof length);
  // tern's own headers are under a kilobyte; text read as a length is far beyond.
  if (length > kSafetensorsMaxHeaderBytes) return false;
  const std::string_view header(reinterpret_cast<const char*>(file.bytes().data()) + 8,
                                std::min<size_t>(length, file.size() - 8));
  return header.starts_with('{') && header.find(fmt::format("\"{}\"", kFormat)) != std::string_view::npos;
}

struct TokenData::Held {
  std::string bytes;  // of an Io that cannot be mapped
  Safetensors file;
};

void TokenData::let_go() const {
  for (size_t i = 0; i < file_->file.size(); ++i)
    if (file_->file[i].name != "documents") file_->file.dont_need(i);
}

namespace {

using Metadata = std::map<std::string, std::string>;

std::string text_of(const Metadata& metadata, const char* key) {
  return metadata.contains(key) ? metadata.at(key) : std::string();
}

void check_format(const Metadata& metadata, const std::string& place) {
  if (const auto format = metadata.find("format"); format == metadata.end() || format->second != kFormat)
    throw Error(ErrorKind::bad_file,
                "{}: a safetensors file, but not a token file ({}); make one with tern tokenize --pack", place,
                kFormat);
  check_keys(metadata, place);
}

void check_types(const TensorView& tokens, const TensorView& documents, const std::string& place) {
  if (tokens.dtype != DType::u16 && tokens.dtype != DType::i32)
    throw Error(ErrorKind::bad_file, "{}: tokens are {}, expected U16 or I32", place, tokens.dtype_name);
  if (documents.dtype != DType::i64)
    throw Error(ErrorKind::bad_file, "{}: documents are {}, expected I64", place, documents.dtype_name);
}

// Where documents begin, and the end.
std::vector<int64_t> offsets_of(const TensorView& documents, int64_t num_tokens, const std::string& place) {
  std::vector<int64_t> offsets(static_cast<size_t>(documents.shape[0]));
  std::memcpy(offsets.data(), documents.bytes.data(), documents.bytes.size());
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != num_tokens)
    throw Error(ErrorKind::bad_file, "{}: documents must begin at 0 and end at {} tokens; pack the text again", place,
                num_tokens);
  if (!std::ranges::is_sorted(offsets, std::less_equal<>()))
    throw Error(ErrorKind::bad_file, "{}: document offsets do not rise; pack the text again", place);
  return offsets;
}

}  // namespace

TokenData TokenData::open(const std::filesystem::path& path, Io& io) {
  const std::string place = path.string();
  const auto held = std::make_shared<Held>();
  if (&io == &real_io()) {
    held->file = Safetensors(place);
  } else {
    held->bytes = io.read(place);
    held->file = Safetensors::over(std::as_bytes(std::span(held->bytes)), place);
  }
  const Safetensors* const file = &held->file;
  const auto& metadata = file->metadata();
  check_format(metadata, place);
  TokenData data;
  data.file_ = held;
  const TensorView tokens = vector_named(*file, "tokens", place), documents = vector_named(*file, "documents", place);
  check_types(tokens, documents, place);
  data.tokens_ = tokens.bytes.data();
  data.is_wide_ = tokens.dtype == DType::i32;
  data.info_.num_tokens = tokens.shape[0];
  data.info_.num_documents = documents.shape[0] - 1;
  data.info_.vocab_size = metadata_number(metadata, "vocab_size", place);
  data.info_.text_bytes = metadata_number(metadata, "text_bytes", place);
  data.info_.tokenizer_hash = text_of(metadata, "tokenizer");
  data.info_.source = text_of(metadata, "source");
  data.documents_ = offsets_of(documents, data.info_.num_tokens, place);

  constexpr int64_t kPiece = int64_t{1} << 20;
  uint32_t tokens_crc = 0, loss_crc = 0;
  const auto width = static_cast<size_t>(data.is_wide_ ? 4 : 2);
  for (int64_t i = 0; i < data.info_.num_tokens; ++i) {
    if (i % kPiece == 0) {
      data.let_go();
      const auto count = static_cast<size_t>(std::min(kPiece, data.info_.num_tokens - i));
      tokens_crc = crc32c(tokens.bytes.subspan(static_cast<size_t>(i) * width, count * width), tokens_crc);
    }
    if (const int32_t id = data.token(i); id < 0 || id >= data.info_.vocab_size)
      throw Error(ErrorKind::bad_file, "{}: token {} is {}, but the vocabulary has {} ids; is the file damaged?", place,
                  i, id, data.info_.vocab_size);
  }
  if (file->find("loss")) {
    const TensorView loss = vector_named(*file, "loss", place);
    if (loss.dtype != DType::u8 || loss.shape[0] != data.info_.num_tokens)
      throw Error(ErrorKind::bad_file, "{}: loss is {} × {}, expected U8 × {}", place, loss.dtype_name, loss.shape[0],
                  data.info_.num_tokens);
    data.loss_ = reinterpret_cast<const uint8_t*>(loss.bytes.data());
    for (size_t at = 0; at < loss.bytes.size(); at += kPiece) {
      data.let_go();
      loss_crc = crc32c(loss.bytes.subspan(at, std::min<size_t>(kPiece, loss.bytes.size() - at)), loss_crc);
    }
  }
  const std::string found = token_checksum(tokens_crc, loss_crc, crc32c(documents.bytes), data.info_);
  if (const std::string written = text_of(metadata, "crc32c"); metadata.contains("crc32c") && written != found)
    throw Error(ErrorKind::bad_file,
                "{}: checksum {}, and {} when it was written: the file has changed since; pack the text again", place,
                found, make_printable(written));
  return data;
}

}  // namespace tern
