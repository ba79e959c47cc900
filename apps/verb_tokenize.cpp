// tern tokenize: text to ids and back, packing data files, training a tokenizer.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/pack_line.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/publish.h"
#include "base/system.h"
#include "base/units.h"
#include "formats/chat/template_files.h"
#include "formats/chat/training.h"
#include "formats/data/data_files.h"
#include "formats/data/pack.h"
#include "formats/data/text_data.h"
#include "formats/data/token_data.h"
#include "formats/tokenizer/bpe_train.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/memory_fit.h"

namespace tern {
namespace {

void say(const std::string& line) { log_info("{}", line); }

// --text, or all of --input ("-": standard input), of which each byte takes so many in all.
std::string input_text(const Options& options, int64_t per_byte) {
  if (options.has("text") == options.has("input"))
    throw Error(ErrorKind::usage,
                "tokenize: give the input by one of --text TEXT and --input FILE (-: standard input)");
  if (options.has("text")) return options.text("text");
  return read_text(options.text("input"), {text_room(options), per_byte});
}

// Of a byte of text, or of ids: itself, what encoding takes, what is written (JSON: its ids and pieces twice, and their text).
int64_t bytes_per_byte(const Options& options) {
  constexpr int64_t kWritten = 20, kJson = 200;
  return 1 + kEncodeBytesPerByte + (options.flag("json") ? kJson : kWritten);
}

std::filesystem::path input_file(const Options& options, const char* what) {
  if (options.has("text") || !options.has("input") || options.text("input") == "-")
    throw Error(ErrorKind::usage, "tokenize: {} reads a file or a folder: give --input PATH", what);
  return options.text("input");
}

const std::string& output_path(const Options& options, const char* what) {
  if (!options.has("output")) throw Error(ErrorKind::usage, "tokenize: {} writes files: give --output PATH", what);
  return options.text("output");
}

void write_result(const Options& options, std::string_view text) {
  if (!options.has("output")) return print_out(text);
  const std::string& output = options.text("output");
  if (is_token_file(output))
    throw Error(ErrorKind::usage, "tokenize --output {}: holds packed tokens; choose another, or remove it first",
                output);
  const bool replaces = real_io().stat(output).has_value();
  write_file_atomically(real_io(), output, text);
  say(fmt::format("tokenize: wrote {}{}", output, replaces ? " (in place of the file that was there)" : ""));
}

Tokenizer the_tokenizer(const Options& options) {
  if (!options.has_positional("TOKENIZER"))
    throw Error(ErrorKind::usage,
                "tokenize: TOKENIZER is missing: a model directory, or a tokenizer.json, vocab.json or "
                "tokenizer.model file");
  return Tokenizer::load(options.positional("TOKENIZER"));
}

void refuse_together(const Options& options) {
  int num_modes = 0;
  for (const char* mode : {"decode", "pack", "train"}) num_modes += options.flag(mode);
  if (num_modes > 1)
    throw Error(ErrorKind::usage, "tokenize: --decode, --pack and --train are three different jobs; give one");
  if (options.has("vocab-size") && !options.flag("train"))
    throw Error(ErrorKind::usage, "tokenize: --vocab-size belongs to --train");
  if (options.flag("add-special") && num_modes > 0)
    throw Error(ErrorKind::usage,
                "tokenize: --add-special is for turning text into ids; --pack ends each document by itself");
}

// The same one again changes nothing, and completes what a stopped one left; another one may be what some model was
// trained with.
void refuse_other_tokenizer(const std::string& directory, const Tokenizer& made) {
  std::vector<std::string> there;
  bool same = true;
  for (const auto& [name, text] :
       {std::pair("tokenizer.json", made.to_json()), std::pair("tokenizer_config.json", made.config_json())}) {
    const std::string path = join_path(directory, name);
    if (!real_io().stat(path)) continue;
    there.emplace_back(name);
    same = same && real_io().read(path) == text;
  }
  if (same) return;
  throw Error(ErrorKind::usage,
              "tokenize --train: {} holds another tokenizer ({}), which models may need; choose another --output, or "
              "remove it first",
              directory, fmt::join(there, ", "));
}

// A new directory comes as a whole; of two writers into one that is there, the second finds what the first wrote.
void save_trained(const Tokenizer& tokenizer, const std::string& directory) {
  Io& io = real_io();
  if (!io.stat(directory)) {
    OutputDirectory output(io, directory);
    tokenizer.save(output.temporary());
    return output.publish();
  }
  const std::unique_ptr<IoLock> lock = io.lock_existing(directory);
  if (!lock)
    throw Error(ErrorKind::usage,
                "tokenize --train: another tern is at work on {}; wait for it or choose another --output", directory);
  refuse_other_tokenizer(directory, tokenizer);
  tokenizer.save(directory);
}

void tell_trained(const Options& options, const Tokenizer& tokenizer, int64_t asked, const std::string& directory,
                  int64_t text_bytes) {
  if (tokenizer.vocab_size() < asked)
    say(fmt::format("tokenize: {} pieces, not {}: the text has no more pairs that occur twice", tokenizer.vocab_size(),
                    asked));
  if (options.flag("json"))
    print_json({{"output", directory},
                {"vocab_size", tokenizer.vocab_size()},
                {"tokenizer", tokenizer.hash()},
                {"text_bytes", text_bytes}});
  else
    say(fmt::format("tokenize: wrote {} ({})", directory, tokenizer.describe()));
}

int train(const Options& options) {
  if (options.has_positional("TOKENIZER"))
    throw Error(ErrorKind::usage, "tokenize --train makes a new tokenizer: leave TOKENIZER '{}' out",
                options.positional("TOKENIZER"));
  const std::string& directory = output_path(options, "--train");
  const std::vector<std::string> files = data_files(input_file(options, "--train").string());
  const InvalidUtf8 invalid = invalid_utf8_from_name(options.text("invalid-utf8"));
  const int64_t room = text_room(options);
  int64_t bytes_total = 0, bytes_before = 0;
  for (const std::string& file : files) bytes_total += real_io().stat(file).value_or(FileInfo{}).size_bytes;
  size_t next_file = 0;
  std::optional<DocumentReader> reader;
  const auto next_document = [&](TextDocument& document) {
    while (true) {
      if (reader && reader->next(document)) return true;
      if (reader) bytes_before += reader->bytes_total();
      if (next_file == files.size()) return false;
      reader.emplace(files[next_file++], invalid, room);
    }
  };
  BpeTrainOptions how;
  if (options.has("vocab-size")) how.vocab_size = options.integer("vocab-size");
  how.memory_bytes = room;
  how.repair = invalid == InvalidUtf8::skip ? Utf8Repair::leave_out : Utf8Repair::mark;
  how.read = [&](std::string_view part) {
    if (reader) reader->let_go(part);
  };
  bool in_completion = false;
  TextDocument document;
  Progress progress("read", bytes_total, real_clock(), {}, "bytes");
  const Tokenizer tokenizer = train_bpe(
      [&](std::string_view& text) {
        if (in_completion) {
          in_completion = false;
          text = document.completion;
          return true;
        }
        if (!next_document(document)) return false;
        progress.update(bytes_before + reader->bytes_done());
        if (document.is_chat)
          throw Error(ErrorKind::usage, "--input: line {} has messages; a tokenizer is trained on texts",
                      document.line);
        in_completion = document.has_completion;
        text = document.text;
        return true;
      },
      how);
  progress.finish();
  save_trained(tokenizer, directory);
  tell_trained(options, tokenizer, how.vocab_size, directory, bytes_total);
  return 0;
}

int pack_file(const Options& options) {
  const Tokenizer tokenizer = the_tokenizer(options);
  const std::string& output = output_path(options, "--pack");
  const bool replaces = real_io().stat(output).has_value();
  if (replaces && !is_token_file(output) && real_io().stat(output)->size_bytes > 0)
    throw Error(ErrorKind::usage,
                "tokenize --pack --output {}: holds something else than packed tokens; choose another, or remove it "
                "first",
                output);
  const StopSignals signals;
  PackLine line;
  PackOptions how = line.options();
  ChatTemplates templates = read_chat_templates(options.positional("TOKENIZER"));
  replace_chat_templates(templates, options.text("chat-template"));
  const std::optional<ChatTraining> chat =
      templates.empty() ? std::nullopt
                        : std::optional<ChatTraining>(std::in_place, std::move(templates), tokenizer,
                                                      answers_from_name(options.text("answers")));
  how.chat = chat ? &*chat : nullptr;
  how.memory_bytes = text_room(options);
  how.invalid_utf8 = invalid_utf8_from_name(options.text("invalid-utf8"));
  how.tell = [](const std::string& text) { log_info("{}", text); };
  const std::vector<std::string> files = data_files(input_file(options, "--pack").string());
  const TokenFileInfo info = pack({files.begin(), files.end()}, tokenizer, output, how);
  line.finish();
  if (options.flag("json"))
    print_json({{"output", output},
                {"tokens", info.num_tokens},
                {"documents", info.num_documents},
                {"vocab_size", info.vocab_size},
                {"text_bytes", info.text_bytes},
                {"tokenizer", info.tokenizer_hash}});
  else
    say(fmt::format("tokenize: wrote {}{}: {} in {}, {:.2f} bytes of text per token", output,
                    replaces ? " (in place of the file that was there)" : "", counted(info.num_tokens, "token"),
                    counted(info.num_documents, "document"),
                    static_cast<double>(info.text_bytes) / static_cast<double>(info.num_tokens)));
  return 0;
}

std::vector<int32_t> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  const auto is_between = [](char c) {
    return c == ' ' || c == ',' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
  };
  for (size_t i = 0; i < text.size();) {
    if (is_between(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && !is_between(text[end])) ++end;
    int32_t id = -1;
    const auto [stop, error] = std::from_chars(text.data() + i, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end)
      throw Error(ErrorKind::usage,
                  "tokenize --decode: '{}' is no id; expected whole numbers separated by spaces or commas",
                  text.substr(i, std::min<size_t>(end - i, 40)));
    ids.push_back(id);
    i = end;
  }
  return ids;
}

// The pieces once, however many they are: a list that stands between braces is copied.
Json pieces_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json::array_t pieces;
  pieces.reserve(ids.size());
  for (const int32_t id : ids) pieces.emplace_back(std::string(tokenizer.piece(id)));
  return Json(std::move(pieces));
}

int decode(const Options& options) {
  const Tokenizer tokenizer = the_tokenizer(options);
  const std::vector<int32_t> ids = parse_ids(input_text(options, bytes_per_byte(options)));
  for (const int32_t id : ids)
    if (!tokenizer.has(id))
      throw Error(ErrorKind::usage, "tokenize --decode: no piece has id {}; this tokenizer has {} ids", id,
                  tokenizer.vocab_size());
  const std::string text = tokenizer.decode(ids);
  if (!options.flag("json")) {
    write_result(options, options.has("output") ? text : text + "\n");
    return 0;
  }
  Json result = {{"text", text}, {"token_ids", ids}};
  result["pieces"] = pieces_of(tokenizer, ids);
  write_result(options, dump_json(result) + "\n");
  return 0;
}

int encode(const Options& options) {
  const Tokenizer tokenizer = the_tokenizer(options);
  const std::string text = input_text(options, bytes_per_byte(options));
  tell_invalid_utf8(text);
  const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = options.flag("add-special")});
  if (options.flag("json")) {
    Json result = Json::object();
    result["token_ids"] = ids;
    result["pieces"] = pieces_of(tokenizer, ids);
    result["text_bytes"] = text.size();
    write_result(options, dump_json(result) + "\n");
    return 0;
  }
  std::string line;
  for (const int32_t id : ids) fmt::format_to(std::back_inserter(line), "{}{}", line.empty() ? "" : " ", id);
  write_result(options, line + "\n");
  return 0;
}

}  // namespace

int run_tokenize(const Options& options) {
  refuse_together(options);
  for (const char* name : {"answers", "chat-template"})
    if (options.given(name) && !options.flag("pack"))
      throw Error(ErrorKind::usage, "tokenize: --{} is of --pack, which writes conversations; leave it out", name);
  if (options.flag("train")) return train(options);
  if (options.flag("pack")) return pack_file(options);
  return options.flag("decode") ? decode(options) : encode(options);
}

}  // namespace tern
