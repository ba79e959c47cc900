#include "formats/data/text_data.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/repair_utf8.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/data/data_files.h"
#include "formats/data/jsonl.h"

namespace tern {

namespace {

constexpr std::array<std::string_view, 3> kInvalidUtf8Names = {"error", "replace", "skip"};

constexpr size_t kPiece = size_t{4} << 20;
constexpr int64_t kBytesPerValue = 64;  // of JSON while it is parsed: itself, twice in a list that grows, a name

// Of a line of JSON: it, the texts out of it and their copies, and all values that it may have.
void require_line_fits(std::string_view line, int64_t there_bytes, const std::string& where) {
  if (line.size() < kPiece / 64) return;  // what every run has room for
  const auto bytes = static_cast<int64_t>(line.size());
  if (line.size() > kPiece) require_text_fits(bytes, kLineBytesPerByte * bytes, there_bytes, where);
  const auto is_value = [](char c) { return c == ',' || c == '[' || c == '{'; };
  const int64_t values = kBytesPerValue * static_cast<int64_t>(std::count_if(line.begin(), line.end(), is_value));
  if (values > static_cast<int64_t>(kPiece))
    require_text_fits(bytes, kLineBytesPerByte * bytes + values, there_bytes, where);
}

// Compressed text would be read as invalid UTF-8 or nonsense: say what it is instead.
const char* compression_of(std::string_view head) {
  if (head.starts_with(std::string_view("\xFD"
                                        "7zXZ\0",
                                        6)))
    return "xz (xz -d FILE)";
  if (head.starts_with("\x1F\x8B")) return "gzip (gzip -d FILE)";
  if (head.starts_with("\x28\xB5\x2F\xFD")) return "zstd (zstd -d FILE)";
  if (head.starts_with("BZh")) return "bzip2 (bzip2 -d FILE)";
  if (head.starts_with(std::string_view("PK\x03\x04", 4))) return "zip (unzip FILE)";
  return nullptr;
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void refuse_compressed(std::string_view text, const std::string& place) {
  if (const char* kind = compression_of(text))
    throw Error(ErrorKind::bad_file, "{}: compressed with {}; unpack it first", place, kind);
}

}  // namespace

std::string_view name_of(InvalidUtf8 how) { return kInvalidUtf8Names[static_cast<size_t>(how)]; }
InvalidUtf8 invalid_utf8_from_name(std::string_view name) {
  const auto found = std::ranges::find(kInvalidUtf8Names, name);
  if (found == kInvalidUtf8Names.end())
    throw Error(ErrorKind::usage, "--invalid-utf8 {}: expected error, replace or skip", name);
  return static_cast<InvalidUtf8>(found - kInvalidUtf8Names.begin());
}

void check_text(std::string_view text, const std::string& place) {
  refuse_compressed(text, place);
  if (const size_t bad = find_invalid_utf8(text); bad != text.npos)
    throw Error(ErrorKind::bad_file, "{}: byte {} is not UTF-8; convert the file (iconv -t UTF-8)", place, bad);
}

void require_text_fits(int64_t document_bytes, int64_t needed_bytes, int64_t there_bytes, const std::string& where) {
  if (needed_bytes <= std::max<int64_t>(there_bytes, 0)) return;
  throw Error(ErrorKind::does_not_fit,
              "{}: a document of {}, which takes up to {} while it becomes tokens; there are {} for it: part it into "
              "shorter ones, or allow more memory (--memory)",
              where, format_bytes(document_bytes), format_bytes(needed_bytes),
              format_bytes(std::max<int64_t>(there_bytes, 0)));
}

DocumentReader::DocumentReader(const std::filesystem::path& path, InvalidUtf8 invalid, int64_t memory_bytes)
    : file_(path.string()), place_(path.string()), invalid_(invalid), memory_bytes_(memory_bytes) {
  const auto bytes = file_.bytes();
  all_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  is_json_ = is_jsonl(path.native());
  if (all_.empty()) throw Error(ErrorKind::bad_file, "{}: the file is empty; expected text", place_);
  refuse_compressed(all_, place_);
  if (path.extension() == ".json")
    throw Error(ErrorKind::bad_file,
                "{}: a .json file is neither text nor JSONL; one JSON object per line in a .jsonl file is read",
                place_);
  if (all_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark is no text
}

void DocumentReader::let_go(std::string_view part) const {
  const auto inside = [&](const char* p) { return p >= all_.data() && p <= all_.data() + all_.size(); };
  if (!inside(part.data()) || !inside(part.data() + part.size())) return;  // what was replaced or unpacked
  file_.advise(MappedFile::Advice::dont_need, static_cast<size_t>(part.data() - all_.data()), part.size());
}

size_t DocumentReader::find_from(size_t begin, std::string_view wanted) const {
  for (size_t at = begin; at < all_.size(); at += kPiece) {
    const std::string_view piece = all_.substr(at, kPiece + wanted.size() - 1);
    if (const size_t found = piece.find(wanted); found != piece.npos) return at + found;
    let_go(piece);
  }
  return all_.npos;
}

size_t DocumentReader::find_invalid(std::string_view text) const {
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view rest = text.substr(begin), piece = rest.substr(0, utf8_boundary(rest, kPiece));
    if (const size_t bad = find_invalid_utf8(piece); bad != piece.npos) return begin + bad;
    if (text.size() > kPiece) let_go(piece);
    begin += piece.size();
  }
  return text.npos;
}

// A repaired copy of a long text would be as long: whoever reads it does so in parts, and repairs each.
std::string_view DocumentReader::checked(std::string_view text, std::string& changed) {
  const size_t bad = find_invalid(text);
  if (bad == text.npos) return text;
  if (invalid_ == InvalidUtf8::error)
    throw Error(
        ErrorKind::bad_file,
        "{}: byte {} of the document that begins in line {} is not UTF-8; convert the file (iconv -t UTF-8), or have "
        "such bytes replaced or left out (--invalid-utf8 replace or skip)",
        place_, bad, line_);
  ++num_changed_;
  if (text.size() > kPiece) return text;
  const Utf8Repair how = invalid_ == InvalidUtf8::skip ? Utf8Repair::leave_out : Utf8Repair::mark;
  changed.clear();
  changed.reserve(repaired_utf8_size(text, how));
  append_repaired_utf8(changed, text, how);
  return changed;
}

bool DocumentReader::next(TextDocument& document) {
  if (at_ - gone_ >= kPiece) {
    file_.advise(MappedFile::Advice::dont_need, gone_, at_ - gone_);
    gone_ = at_;
  }
  return is_json_ ? next_json(document) : next_text(document);
}

bool DocumentReader::next_text(TextDocument& document) {
  while (at_ < all_.size()) {
    const size_t begin = at_;
    const int64_t first_line = line_;
    size_t end = all_.size();
    int64_t next_line = line_;
    // The next line that is the separator; candidates are found by its text, so long documents are not walked line by
    // line.
    at_ = all_.size();
    for (size_t found = find_from(begin, kDocumentLine); found != all_.npos;
         found = find_from(found + 1, kDocumentLine)) {
      if (found != begin && all_[found - 1] != '\n') continue;
      const size_t line_end = std::min(all_.find('\n', found), all_.size() - 1) + 1;
      if (without_line_end(all_.substr(found, line_end - found)) != kDocumentLine) continue;
      end = found;
      at_ = line_end;
      break;
    }
    for (size_t i = begin; i < at_; i += kPiece) {
      const std::string_view piece = all_.substr(i, std::min(kPiece, at_ - i));
      next_line += std::count(piece.begin(), piece.end(), '\n');
      if (piece.size() == kPiece) let_go(piece);
    }
    if (end > begin) {
      document = {checked(all_.substr(begin, end - begin), text_), {}, false, false, false, first_line};
      line_ = next_line;
      return true;
    }
    line_ = next_line;
  }
  return false;
}

bool DocumentReader::next_json(TextDocument& document) {
  if (rejects_next_) {
    rejects_next_ = false;
    (document.is_chat ? text_ : completion_) = std::move(rejected_);
    document.text = text_, document.completion = completion_;
    return true;
  }
  while (at_ < all_.size()) {
    const size_t end = std::min(find_from(at_, "\n"), all_.size() - 1) + 1;
    const std::string_view line = without_line_end(all_.substr(at_, end - at_));
    at_ = end;
    const int64_t number = line_++;
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const std::string where = place_ + ": line " + std::to_string(number);
    require_line_fits(line, memory_bytes_, where);
    JsonlRecord record = parse_jsonl_record(line, where);
    if (record.is_pair) {
      text_ = std::move(record.text), completion_ = std::move(record.completion);
      rejected_ = std::move(record.rejected), rejects_next_ = true;
      document = {text_, completion_, record.has_completion, true, record.is_chat, number, {}, true};
      return true;
    }
    if (record.is_chat) {
      document = {line, {}, false, false, true, number};
      return true;
    }
    if (record.text.empty() && record.completion.empty()) continue;
    if (line.size() > kPiece && !record.is_instruction) let_go(line);
    text_ = std::move(record.text);
    completion_ = std::move(record.completion);
    document = {text_, completion_, record.has_completion, true, false, number};
    if (record.is_instruction) document.row = line;
    return true;
  }
  return false;
}

}  // namespace tern
