#include "apps/read_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <utility>

#include "apps/common.h"
#include "apps/pack_line.h"
#include "apps/private_folder.h"
#include "apps/signals.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/repair_utf8.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/chat/template_files.h"
#include "formats/chat/training.h"
#include "formats/data/data_files.h"
#include "formats/data/text_data.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/load.h"
#include "infer/memory_fit.h"

namespace tern {
namespace {

// Room for encoding a small text there always is; of one with which more is done, so much less is small.
void require_text_room(int64_t bytes, const TextRoom& room, const std::string& where) {
  constexpr int64_t kEncoding = 1 + kEncodeBytesPerByte;
  if (bytes > kSmallText * kEncoding / std::max(kEncoding, room.per_byte))
    require_text_fits(bytes, bytes > INT64_MAX / room.per_byte ? INT64_MAX : bytes * room.per_byte, room.bytes, where);
}

// While a text of unknown length grows, what it has and a copy of twice that are there at once.
std::string read_stream(std::istream& in, int64_t known_bytes, const TextRoom& room, const std::string& where) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::string text;
  if (known_bytes > 0) text.reserve(static_cast<size_t>(known_bytes) + kPiece);
  while (in) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    in.read(text.data() + before, kPiece);
    text.resize(before + static_cast<size_t>(in.gcount()));
    const auto bytes = static_cast<int64_t>(text.size());
    if (bytes > known_bytes) require_text_room(bytes, {room.bytes, room.per_byte + 1}, where);
  }
  return text;
}

// A byte that is no UTF-8 is read as three, with each of which the same is done.
std::string with_room_for_repair(std::string text, const TextRoom& room, const std::string& where) {
  if (room.per_byte == 1) return text;  // nothing is made of it yet
  const auto repaired = static_cast<int64_t>(repaired_utf8_size(text, Utf8Repair::mark));
  if (repaired > static_cast<int64_t>(text.size())) require_text_room(repaired, room, where);
  return text;
}

}  // namespace

int64_t text_room(const Options& options) {
  const int64_t there = memory_budget(options).bytes;
  return options.has("memory") ? std::min(there, options.integer("memory") - read_process_memory().resident_bytes)
                               : there;
}

bool has_documents(const std::string& path) {
  return path != "-" && (is_jsonl(path) || path.ends_with(".safetensors") || is_token_file(path));
}

TokenData load_documents(const Options& options, const ModelDescription& model, const std::string& path,
                         Answers answers, int64_t most_tokens) {
  const StopSignals signals;
  const PrivateFolder folder;  // what is mapped outlives it
  PackLine line;
  PackOptions how = line.options();
  how.memory_bytes = text_room(options), how.most_tokens = most_tokens;
  std::optional<ChatTraining> chat;
  if (is_jsonl(path)) {
    ChatTemplates templates = read_chat_templates(model.dir.path);
    replace_chat_templates(templates, options.text("chat-template"));
    try {
      if (!templates.empty()) how.chat = &chat.emplace(std::move(templates), *model.tokenizer, answers);
    } catch (const Error& error) {  // lines of text need none
      log_info("{}; a line with messages will be refused", error.what());
    }
  }
  TokenData file = load_or_pack(path, *model.tokenizer, folder.path, how);
  line.finish();
  if (stop_requested()) throw Error(ErrorKind::interrupted, "{}: stopped; the same command starts anew", path);
  return file;
}

void refuse_words_of_conversations(const Options& options, const std::string& path) {
  for (const char* name : {"answers", "chat-template"})
    if (options.knows(name) && options.given(name) && !is_jsonl(path))
      throw Error(ErrorKind::usage, "--{} says nothing to {}: only JSONL (.jsonl, .ndjson) has conversations", name,
                  path);
}

std::string read_text(const std::string& path, const TextRoom& room) {
  if (path == "-")
    return with_room_for_repair(read_stream(std::cin, 0, room, "standard input"), room, "standard input");
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed))
    throw Error(ErrorKind::bad_file, "{}: a directory; expected a file of text", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::bad_file, "{}: cannot be read; is the path right?", path);
  const uintmax_t size = std::filesystem::is_regular_file(path, failed) ? std::filesystem::file_size(path, failed) : 0;
  const int64_t known = failed ? 0 : static_cast<int64_t>(size);
  require_text_room(known, room, path);
  std::string text = read_stream(file, known, room, path);
  if (file.bad()) throw Error(ErrorKind::bad_file, "{}: reading stopped half-way; is it a regular file?", path);
  return with_room_for_repair(std::move(text), room, path);
}

void require_lines_fit(std::string_view text, int64_t per_line, const TextRoom& room, const std::string& where) {
  const auto bytes = static_cast<int64_t>(text.size());
  require_text_room(bytes, room, where);  // before its lines are counted, for which all of it is looked at
  const int64_t lines = std::count(text.begin(), text.end(), '\n') + 1;
  if (const int64_t needed = bytes * room.per_byte + lines * per_line; needed > kSmallText)
    require_text_fits(bytes, needed, room.bytes, where);
}

void tell_invalid_utf8(std::string_view text) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
    log_info("byte {} of the text is not UTF-8; such bytes are read as U+FFFD", bad);
}

std::vector<int32_t> encode_at_most(const Tokenizer& tokenizer, std::string_view text, size_t most, bool& whole,
                                    int64_t room_bytes, const std::string& where) {
  constexpr size_t kPartBytes = size_t{1} << 20;
  constexpr int64_t kGrowing = 3 * sizeof(int32_t);  // of a token, while a copy of twice as many is made
  const auto bytes = static_cast<int64_t>(text.size());
  std::vector<int32_t> tokens;
  for (whole = false; !text.empty() && tokens.size() <= most;) {
    TextCut cut{text.size(), text.size()};
    if (text.size() > kPartBytes / 3)
      if (const TextCut found = tokenizer.find_cut(text, kPartBytes / 3); found.end > 0) cut = found;
    const int64_t held = kGrowing * static_cast<int64_t>(tokens.size());
    const size_t repaired = repaired_utf8_size(text.substr(0, cut.end), Utf8Repair::mark);
    const int64_t part = repaired > kPartBytes ? kEncodeBytesPerByte * static_cast<int64_t>(repaired) : 0;
    if (held + part > kSmallText) require_text_fits(bytes, held + part, room_bytes, where);
    tokenizer.encode_into(text.substr(0, cut.end), {.add_special = false}, tokens);
    text.remove_prefix(cut.next);
  }
  whole = text.empty() && tokens.size() <= most;
  tokens.resize(std::min(tokens.size(), most));
  return tokens;
}

}  // namespace tern
