#include "formats/data/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/publish.h"
#include "base/repair_utf8.h"
#include "base/rng.h"
#include "base/units.h"
#include "formats/chat/training.h"
#include "formats/data/data_files.h"
#include "formats/safetensors/write.h"

namespace tern {

namespace {

namespace fs = std::filesystem;

constexpr size_t kPartBytes = size_t{1} << 20, kMaxWholeBytes = size_t{256} << 20;
constexpr int64_t kManyDocuments = int64_t{1} << 16;  // after so many their ends are counted; fewer always have room

// Ids and mask on their way to the output: appended to files beside it, which go away with this object.
class PackFiles {
 public:
  PackFiles(const fs::path& output, bool wide, Io& io)
      : wide_(wide), tokens_(io, output.string() + ".tokens"), loss_(io, output.string() + ".loss") {}

  void add(std::span<const int32_t> ids, bool loss) {
    for (const int32_t id : ids) {
      if (wide_)
        push(id);
      else
        push(static_cast<uint16_t>(id));
    }
    mask_.insert(mask_.end(), ids.size(), static_cast<std::byte>(loss));
    num_tokens_ += static_cast<int64_t>(ids.size());
    masked_ |= !loss && !ids.empty();
    if (bytes_.size() > (size_t{1} << 20)) flush();
  }
  void flush() {
    tokens_.append(std::span<const std::byte>(bytes_));
    loss_.append(std::span<const std::byte>(mask_));
    tokens_crc32c_ = crc32c(bytes_, tokens_crc32c_);
    loss_crc32c_ = crc32c(mask_, loss_crc32c_);
    bytes_.clear();
    mask_.clear();
  }
  int64_t num_tokens() const { return num_tokens_; }
  bool masked() const { return masked_; }
  const std::string& tokens_path() const { return tokens_.temporary(); }
  const std::string& loss_path() const { return loss_.temporary(); }
  uint32_t tokens_crc32c() const { return tokens_crc32c_; }
  uint32_t loss_crc32c() const { return masked_ ? loss_crc32c_ : 0; }

 private:
  template <class T>
  void push(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
  }

  bool wide_, masked_ = false;
  OutputFile tokens_, loss_;  // never published
  uint32_t tokens_crc32c_ = 0, loss_crc32c_ = 0;
  std::vector<std::byte> bytes_, mask_;
  int64_t num_tokens_ = 0;
};

class Packer {
 public:
  /// `done` is called with each part of a long text and where it ends in it.
  using Done = std::function<void(std::string_view part, int64_t end)>;
  Packer(const Tokenizer& tokenizer, PackFiles& files, const PackOptions& options, Done done)
      : tokenizer_(tokenizer), files_(files), chat_(options.chat), options_(options), done_(std::move(done)) {}

  void add(const TextDocument& d, const std::string& place) {
    if (d.is_pair != (options_.window > 0))
      throw Error(ErrorKind::bad_file, "{}: line {}: {}", place, d.line,
                  d.is_pair ? "a pair of answers, from which adapt --method dpo learns"
                            : "no pair of answers ('chosen', 'rejected'), from which --method dpo learns");
    const int64_t before = files_.num_tokens();
    add_document(d, place);
    if (d.is_pair) fill_up(before, fmt::format("{}: line {}", place, d.line));
  }

  // The last window's last target: Feed has windows of one token more.
  void end_windows() {
    const int32_t id = 0;
    files_.add(std::span(&id, 1), false);
    documents.push_back(files_.num_tokens());
  }

  std::vector<int64_t> documents{0};
  int64_t text_bytes = 0;

 private:
  void fill_up(int64_t before, const std::string& where) {
    const int64_t own = files_.num_tokens() - before;
    if (own > options_.window)
      throw Error(ErrorKind::bad_file,
                  "{}: an answer with its prompt is {} tokens, --seq {}; raise --seq or leave the pair out", where, own,
                  options_.window);
    TERN_CHECK(own > 0, "{}: an answer without tokens", where);
    const std::vector<int32_t> rest(static_cast<size_t>(options_.window - own), 0);
    files_.add(rest, false);
    documents.back() = files_.num_tokens();
  }

  void add_document(const TextDocument& d, const std::string& place) {
    held_ = 0;
    if (is_long(d.text.size() + d.completion.size()) && (d.unpacked || d.is_chat))
      held_ = kLineBytesPerByte * static_cast<int64_t>(d.text.size() + d.completion.size());
    if (d.is_chat) return add_chat(d.text, d.line, place);
    if (chat_ && !d.row.empty()) return add_chat(d.row, d.line, place);
    const int64_t before = files_.num_tokens();
    const std::optional<int32_t> bos = tokenizer_.bos(), eos = tokenizer_.eos();
    if (bos && tokenizer_.adds_bos()) files_.add(std::span(&*bos, 1), !d.has_completion);
    // What DocumentReader changes of a long text it leaves to its reader.
    const bool broken = !d.unpacked && is_long(d.text.size()) && options_.invalid_utf8 != InvalidUtf8::error;
    add_text(d.text, broken, !d.has_completion, place, d.line);
    if (d.has_completion) add_text(d.completion, false, true, place, d.line);
    if (eos) files_.add(std::span(&*eos, 1), true);
    if (files_.num_tokens() > before) end_document(place, d.line);
  }

  // Where documents end is kept of all of them, in a list that grows.
  void end_document(const std::string& place, int64_t line) {
    documents.push_back(files_.num_tokens());
    if (const auto n = static_cast<int64_t>(documents.size()); n % kManyDocuments == 0) {
      const int64_t needed = held_ + n * 3 * static_cast<int64_t>(sizeof documents[0]);
      if (needed > options_.memory_bytes)
        throw Error(
            ErrorKind::does_not_fit,
            "{}: line {}: {} documents so far, whose ends take up to {}; there are {} for them: join documents, or "
            "allow more memory (--memory)",
            place, line, n, format_bytes(needed), format_bytes(std::max<int64_t>(options_.memory_bytes, 0)));
      if (options_.most_bytes) *options_.most_bytes = std::max(*options_.most_bytes, needed);
    }
  }

  void add_chat(std::string_view text, int64_t line, const std::string& place) {
    const std::string where = fmt::format("{}: line {}", place, line);
    if (!chat_)
      throw Error(
          ErrorKind::bad_file,
          "{}: a conversation, which needs a chat template to become text, and there is none; give --chat-template "
          "FILE, or a model or tokenizer directory that has one",
          where);
    take(text.size(), text.size(), where);
    chat_->encode(text, where, [&](const TrainingChat& chat) {
      for (size_t begin = 0; begin < chat.ids.size();) {
        size_t end = begin;
        while (end < chat.ids.size() && chat.loss[end] == chat.loss[begin]) ++end;
        files_.add(std::span(chat.ids).subspan(begin, end - begin), chat.loss[begin] != 0);
        begin = end;
      }
      end_document(place, line);
    });
    text_bytes += static_cast<int64_t>(text.size());
  }

  // `broken`: it may have bytes that are no UTF-8. A cut lies between bytes that are, so such a text is cut where the
  // repaired one may be.
  void add_text(std::string_view text, bool broken, bool loss, const std::string& place, int64_t line) {
    const size_t whole = text.size(), near = broken ? kPartBytes / 3 : kPartBytes;  // a byte may become three
    while (!text.empty()) {
      TextCut cut{text.size(), text.size()};
      if (text.size() > near)
        if (const TextCut found = tokenizer_.find_cut(text, near); found.end > 0) cut = found;
      std::string_view part = text.substr(0, cut.end);
      const auto position = static_cast<int64_t>(whole - text.size());
      const size_t bytes = broken ? repaired_size(part, whole, position) : part.size();
      if (bytes > kMaxWholeBytes)
        throw Error(ErrorKind::bad_file,
                    "{}: line {}: a document of {} bytes; this tokenizer encodes at most {} at once: part the text "
                    "by lines {}",
                    place, line, text.size(), kMaxWholeBytes, kDocumentLine);
      take(whole, bytes, place + ": line " + std::to_string(line));
      std::string repaired;
      if (broken) {
        repaired.reserve(bytes);
        for_each_piece(part, whole, position, [&](std::string_view p) { append_repaired_utf8(repaired, p, repair()); });
        part = repaired;
      }
      ids_.clear();
      tokenizer_.encode_into(part, {.add_special = false, .allow_special = false}, ids_);
      files_.add(ids_, loss);
      text_bytes += static_cast<int64_t>(bytes + cut.next - cut.end);
      const std::string_view encoded = text.substr(0, cut.next);
      text.remove_prefix(cut.next);
      if (whole > kPartBytes) done_(encoded, static_cast<int64_t>(whole - text.size()));
    }
  }

  Utf8Repair repair() const {
    return options_.invalid_utf8 == InvalidUtf8::skip ? Utf8Repair::leave_out : Utf8Repair::mark;
  }

  // A part of a text of `whole` bytes in pieces of whole characters, of which a long one is let go at once.
  template <class Body>
  void for_each_piece(std::string_view part, size_t whole, int64_t position, const Body& body) {
    while (!part.empty()) {
      const std::string_view piece = part.substr(0, utf8_boundary(part, kPartBytes));
      body(piece);
      if (whole > kPartBytes) done_(piece, position);
      part.remove_prefix(piece.size());
    }
  }

  size_t repaired_size(std::string_view part, size_t whole, int64_t position) {
    size_t bytes = 0;
    for_each_piece(part, whole, position, [&](std::string_view p) { bytes += repaired_utf8_size(p, repair()); });
    return bytes;
  }

  static bool is_long(size_t bytes) { return bytes > size_t{4} << 20; }
  // Before `part` bytes of a document of `whole` are encoded at once.
  void take(size_t whole, size_t part, const std::string& where) {
    const int64_t needed = held_ + (part > kPartBytes ? kEncodeBytesPerByte * static_cast<int64_t>(part) : 0);
    require_text_fits(static_cast<int64_t>(whole), needed, options_.memory_bytes, where);
    if (options_.most_bytes) *options_.most_bytes = std::max(*options_.most_bytes, needed);
  }

  const Tokenizer& tokenizer_;
  PackFiles& files_;
  const ChatTraining* chat_;
  const PackOptions& options_;
  int64_t held_ = 0;  // of the document at hand, beside its part that is encoded
  Done done_;
  std::vector<int32_t> ids_;
};

void produce_file(Io& io, const std::string& path, const ByteSink& sink) {
  constexpr size_t kPiece = size_t{1} << 20;
  if (&io != &real_io()) {
    const std::string bytes = io.read(path);
    return sink(std::as_bytes(std::span(bytes)));
  }
  const MappedFile file(path);
  for (size_t at = 0; at < file.size(); at += kPiece) {
    const size_t count = std::min(kPiece, file.size() - at);
    sink(file.bytes().subspan(at, count));
    file.advise(MappedFile::Advice::dont_need, at, count);
  }
}

void tell_changed(const PackOptions& options, const std::string& source, int64_t changed) {
  if (changed > 0 && options.tell)
    options.tell(fmt::format("{}: {} had bytes that are no UTF-8, which were {}", source, counted(changed, "document"),
                             options.invalid_utf8 == InvalidUtf8::skip ? "left out" : "replaced by U+FFFD"));
}

// What the inputs are called together.
std::string source_of(const std::vector<fs::path>& inputs) {
  constexpr size_t kNamed = 3;
  if (inputs.size() > kNamed) return counted(static_cast<int64_t>(inputs.size()), "file");
  std::string source;
  for (const fs::path& input : inputs) source += (source.empty() ? "" : ", ") + input.filename().string();
  return source;
}

}  // namespace

TokenFileInfo pack(const std::vector<fs::path>& inputs, const Tokenizer& tokenizer, const fs::path& output,
                   PackOptions options, Io& io) {
  const bool wide = tokenizer.vocab_size() > 65536;
  PackFiles files(output, wide, io);
  const std::string source = source_of(inputs);
  int64_t total = 0, done = 0;
  fs::path current;
  const auto tell = [&](int64_t bytes) {
    if (options.progress && !options.progress(options.context, bytes, total))
      throw Error(ErrorKind::interrupted, "{}: packing was interrupted; the same command starts it anew",
                  current.string());
  };
  int64_t before = 0, changed = 0;  // bytes before the document at hand; documents with bytes that were no UTF-8
  const DocumentReader* reading = nullptr;
  Packer packer(tokenizer, files, options, [&](std::string_view part, int64_t end) {
    reading->let_go(part);
    tell(before + end);
  });
  for (const fs::path& input : inputs)
    if (const auto info = real_io().stat(input.string())) total += info->size_bytes;
  for (const fs::path& input : inputs) {
    DocumentReader reader(input, options.invalid_utf8, options.memory_bytes);
    current = input;
    reading = &reader;
    before = done;
    for (TextDocument document; files.num_tokens() < options.most_tokens && reader.next(document);) {
      packer.add(document, input.string());
      tell(before = done + reader.bytes_done());
    }
    done += reader.bytes_total();
    changed += reader.num_changed();
  }
  if (options.window > 0 && files.num_tokens() > 0) packer.end_windows();
  files.flush();
  tell_changed(options, source, changed);
  if (files.num_tokens() == 0) throw Error(ErrorKind::bad_file, "{}: no text to pack; every document is empty", source);

  const TokenFileInfo info{files.num_tokens(),     static_cast<int64_t>(packer.documents.size()) - 1,
                           tokenizer.vocab_size(), packer.text_bytes,
                           tokenizer.hash(),       source};
  std::vector<TensorToWrite> tensors(2);
  tensors[0] = {"tokens", wide ? DType::i32 : DType::u16, {info.num_tokens}, {}, [&](const ByteSink& sink) {
                  produce_file(io, files.tokens_path(), sink);
                }};
  tensors[1] = {"documents", DType::i64, {info.num_documents + 1}, std::as_bytes(std::span(packer.documents)), {}};
  if (files.masked())
    tensors.push_back({"loss", DType::u8, {info.num_tokens}, {}, [&](const ByteSink& sink) {
                         produce_file(io, files.loss_path(), sink);
                       }});
  write_safetensors(io, output.string(), tensors,
                    {{"format", "tern-tokens-1"},
                     {"tokenizer", info.tokenizer_hash},
                     {"source", info.source},
                     {"vocab_size", std::to_string(info.vocab_size)},
                     {"text_bytes", std::to_string(info.text_bytes)},
                     {"crc32c", token_checksum(files.tokens_crc32c(), files.loss_crc32c(),
                                               crc32c(std::as_bytes(std::span(packer.documents))), info)}});
  return info;
}

TokenData load_or_pack(const fs::path& data, const Tokenizer& tokenizer, const fs::path& cache_dir, PackOptions options,
                       Io& io) {
  const std::vector<std::string> files = data_files(data.string());
  if (data.extension() == ".safetensors" || is_token_file(data)) {
    TokenData tokens = TokenData::open(data);
    if (tokens.info().tokenizer_hash != tokenizer.hash())
      throw Error(ErrorKind::bad_file,
                  "{}: packed with another tokenizer (hash {}, this one has {}); pack the text again", data.string(),
                  tokens.info().tokenizer_hash, tokenizer.hash());
    return tokens;
  }
  std::string key;
  for (const std::string& file : files) {
    const auto stat = real_io().stat(file);
    key += fmt::format("{}\n{}\n{}\n", fs::canonical(file).string(), stat ? stat->size_bytes : 0,
                       stat ? stat->modified_ns : 0);
  }
  key += fmt::format("{}\n{}", tokenizer.hash(), static_cast<int>(options.invalid_utf8)) +
         (options.chat ? "\n" + options.chat->hash() : "") +
         (options.window > 0 ? fmt::format("\npairs of {}", options.window) : "") +
         (options.most_tokens < INT64_MAX ? fmt::format("\nuntil {}", options.most_tokens) : "");
  make_dirs(io, cache_dir.string());
  const fs::path packed =
      cache_dir / fmt::format("{}-{:016x}.tokens.safetensors", fs::canonical(data).stem().string(), hash_name(key));
  if (io.stat(packed.string())) {
    try {
      return TokenData::open(packed, io);
    } catch (const Error&) {
      // A damaged cache is rebuilt from the text, which is at hand.
    }
  }
  pack({files.begin(), files.end()}, tokenizer, packed, options, io);
  return TokenData::open(packed, io);
}

}  // namespace tern
