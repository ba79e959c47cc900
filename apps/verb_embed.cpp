// tern embed MODEL: one vector per text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/embed_settings.h"
#include "apps/inference_weights.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/progress.h"
#include "base/repair_utf8.h"
#include "base/units.h"
#include "formats/data/data_files.h"
#include "formats/data/jsonl.h"
#include "formats/data/text_data.h"
#include "infer/embedding.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/npy.h"
#include "model/model_files.h"

namespace tern {
namespace {

struct Texts {
  std::vector<std::string> texts;
  std::string source;  // of messages: "--text", or the file
};

std::string place_of(const Texts& t, size_t i) {
  return t.source == "--text" ? t.source : fmt::format("{} line {}", t.source, i + 1);
}

// All of --input. Of a byte: itself, its text, the token that it may be; of a line: its text, its tokens and their number in
// lists; of a long line also what encoding it takes, and of JSON reading it.
std::string lines_of_input(const Options& options, const std::string& path, bool lines) {
  constexpr int64_t kText = 2, kToken = 2 * sizeof(int32_t);
  constexpr int64_t kLine = 3 * sizeof(std::string) + 3 * sizeof(std::vector<int32_t>) + 64;
  std::string all = read_text(path, {text_room(options), kText + kToken});
  const int64_t room = text_room(options);  // beside all
  require_lines_fit(all, kLine, {room, kText - 1 + kToken}, path);
  for (size_t begin = 0, line = 1; begin < all.size(); ++line) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    // Bytes that are no UTF-8 become three each.
    const size_t repaired = repaired_utf8_size(std::string_view(all).substr(begin, end - begin), Utf8Repair::mark);
    if (const auto bytes = static_cast<int64_t>(repaired); bytes > kSmallText)
      require_text_fits(bytes, (kEncodeBytesPerByte + (lines ? kLineBytesPerByte : 0)) * bytes, room,
                        fmt::format("{} line {}", path, line));
    begin = end + 1;
  }
  return all;
}

// --text is one; a file has one in each line, of JSONL its "text".
Texts read_texts(const Options& options) {
  if (options.has("text") == options.has("input"))
    throw Error(ErrorKind::usage,
                "embed: give the texts by one of --text TEXT and --input FILE (one per line; -: standard input)");
  if (options.has("text")) return {{options.text("text")}, "--text"};
  const std::string& path = options.text("input");
  const bool lines = is_jsonl(path);
  Texts t{{}, path == "-" ? "standard input" : path};
  const std::string all = lines_of_input(options, path, lines);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    std::string_view line = std::string_view(all).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string place = place_of(t, t.texts.size());
    if (!lines) {
      t.texts.emplace_back(line);
      continue;
    }
    JsonlRecord record = parse_jsonl_record(line, place);
    if (record.is_chat || record.has_completion)
      throw Error(ErrorKind::bad_file, "{}: expected {{\"text\": …}}; a vector is made of one text", place);
    t.texts.push_back(std::move(record.text));
  }
  if (t.texts.empty()) throw Error(ErrorKind::bad_file, "{}: empty, expected a text in each line", t.source);
  return t;
}

struct Settings {
  EmbeddingSettings embedding;
  int64_t max_tokens = 0;
  std::string prefix, origin;  // where pooling comes from, for people
};

Settings settings_of(const Options& options, const ModelDescription& model) {
  const EmbedDefaults own = embed_defaults(model);
  if (!options.has("prefix"))
    for (const std::string& note : own.notes) log_info("{}", note);
  Settings s{{own.pooling, own.normalize, options.integer("batch")}, own.max_tokens, own.prefix, own.origin};
  if (options.has("pooling")) {
    s.embedding.pooling = pooling_named(options.text("pooling")).value();
    s.origin = "--pooling";
  }
  if (options.text("normalize") != "auto") s.embedding.normalize = options.text("normalize") == "always";
  if (options.has("prefix")) s.prefix = options.text("prefix");
  if (!own.include_prompt && !s.prefix.empty())
    throw Error(
        ErrorKind::bad_file,
        "{}: include_prompt: false, and {} puts a prompt before every text; tern does not leave its rows out of "
        "the vector{}",
        model.dir.path, options.has("prefix") ? "--prefix" : "the model itself",
        options.has("prefix") ? "; leave --prefix out" : "; --prefix \"\" leaves the prompt out");
  return s;
}

// Ids of every text, with what the tokenizer adds. Too long ones are refused, or cut: of what stands behind the text
// (SEP, EOS) everything stays.
std::vector<std::vector<int32_t>> tokens_of(const Options& options, const ModelDescription& model, const Texts& texts,
                                            const Settings& s) {
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<std::vector<int32_t>> all;
  int64_t num_cut = 0;
  for (size_t i = 0; i < texts.texts.size(); ++i) {
    const std::string text = s.prefix + texts.texts[i];
    tell_invalid_utf8(text);
    std::vector<int32_t> ids = tokenizer.encode(text);
    if (ids.empty())
      throw Error(ErrorKind::usage, "embed: {} has no tokens, and the tokenizer adds none; nothing to make a vector of",
                  place_of(texts, i));
    if (static_cast<int64_t>(ids.size()) > s.max_tokens) {
      if (!options.flag("truncate"))
        throw Error(
            ErrorKind::usage,
            "embed: {} has {} tokens, the model takes {}; give it in parts, or --truncate to leave the rest out",
            place_of(texts, i), ids.size(), s.max_tokens);
      const std::vector<int32_t> plain = tokenizer.encode(text, {.add_special = false});
      const auto front = std::search(ids.begin(), ids.end(), plain.begin(), plain.end()) - ids.begin();
      const auto behind = static_cast<ptrdiff_t>(ids.size()) - front - static_cast<ptrdiff_t>(plain.size());
      if (front + behind >= s.max_tokens)
        throw Error(ErrorKind::usage, "embed: the model takes {} tokens, and the tokenizer adds {}", s.max_tokens,
                    front + behind);
      ids.erase(ids.begin() + (s.max_tokens - behind), ids.end() - behind);
      ++num_cut;
    }
    for (const int32_t id : ids)
      if (id >= model.spec.vocab)
        throw Error(ErrorKind::bad_file, "{}: token id {} of {} is outside the model's vocabulary of {}",
                    model.dir.path, id, place_of(texts, i), model.spec.vocab);
    all.push_back(std::move(ids));
  }
  if (num_cut > 0) log_info("{} of {} texts cut to {} tokens", num_cut, all.size(), s.max_tokens);
  return all;
}

std::string line_of(std::span<const float> vector, std::string_view between) {
  return fmt::format("{}", fmt::join(vector, between));
}

// Vectors on their way to where they were asked for. JSON is printed at the end, as it is whole or not at all; until
// then the numbers are kept, as floats.
class Output {
 public:
  Output(const Options& options, int64_t rows, int64_t width) : width_(static_cast<size_t>(width)) {
    if (options.has("output"))
      npy_.emplace(real_io(), options.text("output"), rows, width);
    else
      keeps_ = options.flag("json");
  }
  static int64_t kept_bytes(const Options& options, int64_t rows, int64_t width) {
    return options.flag("json") && !options.has("output") ? rows * width * 4 : 0;
  }
  void take(std::span<const float> vectors) {
    if (npy_) return npy_->append(vectors);
    if (keeps_) {
      kept_.insert(kept_.end(), vectors.begin(), vectors.end());
      return;
    }
    for (; !vectors.empty(); vectors = vectors.subspan(width_)) print_out(line_of(vectors.first(width_), " ") + "\n");
  }
  void reserve(int64_t numbers) {
    if (keeps_) kept_.reserve(static_cast<size_t>(numbers));
  }
  void finish() {
    if (npy_) npy_->finish();
  }
  // The members of `head`, and the vectors behind them.
  void print(const Json& head) const {
    std::string text = dump_json(head, 2);
    if (!keeps_) return print_out(text + "\n");
    text.erase(text.rfind('\n'));  // and the brace
    print_out(text + ",\n  \"embeddings\": [");
    std::span<const float> rest = kept_;
    for (const char* before = "\n    ["; !rest.empty(); before = ",\n    [", rest = rest.subspan(width_))
      print_out(before + line_of(rest.first(width_), ", ") + "]");
    print_out("\n  ]\n}\n");
  }

 private:
  size_t width_;
  std::optional<NpyWriter> npy_;
  bool keeps_ = false;
  std::vector<float> kept_;
};

Json head_of(const Options& options, const ModelDescription& model, const Settings& s,
             const std::vector<std::vector<int32_t>>& tokens) {
  Json counts = Json::array();
  for (const auto& ids : tokens) counts.push_back(ids.size());
  Json out = {{"model", options.positional("MODEL")},    {"dtype", name_of(model.dtype)},
              {"pooling", name_of(s.embedding.pooling)}, {"normalized", s.embedding.normalize},
              {"dimensions", model.spec.width},          {"tokens", counts}};
  if (options.has("output")) out["output"] = options.text("output");
  return out;
}

void check_output(const Options& options) {
  if (!options.has("output")) return;
  const std::string& path = options.text("output");
  if (!path.ends_with(".npy"))
    throw Error(ErrorKind::usage, "embed: --output {}: expected a name that ends in .npy; for text leave it out", path);
  if (real_io().stat(path))
    throw Error(ErrorKind::usage, "embed: --output {}: is there already; name a new file, or remove it", path);
}

}  // namespace

int run_embed(const Options& options) {
  check_output(options);
  apply_threads(options);
  Texts texts = read_texts(options);
  const ModelDescription model = describe_model(options.positional("MODEL"), dtype_option(options));
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer, so texts cannot become tokens", model.dir.path);
  const Settings s = settings_of(options, model);
  if (s.embedding.pooling == Pooling::pooler && model.spec.predicts)
    throw Error(ErrorKind::usage, "embed: --pooling pooler: a {} model has no pooler; take last or mean",
                model.spec.family);
  const std::vector<std::vector<int32_t>> tokens = tokens_of(options, model, texts, s);
  texts.texts = {};
  const auto num = static_cast<int64_t>(tokens.size());
  const int64_t program = program_bytes(), kept = Output::kept_bytes(options, num, model.spec.width);
  const WeightsChoice choice =
      choose_weights_to_embed(options, model, tokens, s.embedding, kept, memory_budget(options));

  Arena arena;
  const InferenceWeights loaded(options, model, choice, 0, arena, WeightsPass::batch);
  std::optional<Linear> pooler;
  if (s.embedding.pooling == Pooling::pooler) pooler = load_pooler(model.spec, model.dir.path, model.dtype, arena);
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  Output output(options, num, model.spec.width);
  output.reserve(num * model.spec.width);
  {
    Progress progress("embed", num, real_clock(), {}, "texts");
    naming_bad_weights(model, [&] {
      embed_texts(model.spec, loaded.weights(), pooler ? &*pooler : nullptr, tokens, s.embedding, arena,
                  [&](int64_t first, std::span<const float> vectors) {
                    output.take(vectors);
                    progress.update(first + static_cast<int64_t>(vectors.size()) / model.spec.width);
                    return !stop_requested();
                  });
    });
    progress.finish();
  }
  output.finish();
  if (options.flag("json")) {
    Json head = head_of(options, model, s, tokens);
    head["memory"] = {{"peak_bytes", arena.peak_total()},
                      {"predicted_bytes", choice.peak() + kept},
                      {"program_bytes", program + choice.fit.beside},
                      {"peak_resident_bytes", read_process_memory().peak_resident_bytes}};
    if (loaded.streams()) head["streaming"] = loaded.json();
    output.print(head);
  }
  log_info("{} of {} numbers, pooling {} ({}), {}; {:.1f} texts/s", counted(num, "vector"), model.spec.width,
           name_of(s.embedding.pooling), s.origin, s.embedding.normalize ? "normalized" : "not normalized",
           static_cast<double>(num) / std::max(1e-9, seconds_between(start_ns, real_clock().now_ns())));
  return 0;
}

}  // namespace tern
