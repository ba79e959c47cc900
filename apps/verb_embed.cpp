// tern embed MODEL: one vector per text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/units.h"
#include "formats/jsonl.h"
#include "infer/embedding.h"
#include "infer/load.h"
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

// --text is one; a file has one in each line, of JSONL its "text".
Texts read_texts(const Options& options) {
  if (options.has("text") == options.has("input"))
    throw Error(ErrorKind::usage,
                "embed: give the texts by one of --text TEXT and --input FILE (one per line; -: standard input)");
  if (options.has("text")) return {{options.text("text")}, "--text"};
  const std::string& path = options.text("input");
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool is_jsonl = ending == ".jsonl" || ending == ".ndjson";
  Texts t{{}, path == "-" ? "standard input" : path};
  const std::string all = read_text(path);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    std::string_view line = std::string_view(all).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string place = place_of(t, t.texts.size());
    if (!is_jsonl) {
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
  Settings s;
  std::optional<SentenceConfig> said;
  if (!model.dir.is_gguf()) said = read_sentence_config(model.dir.path);
  s.embedding.pooling = model.spec.predicts ? Pooling::last : Pooling::mean;
  s.origin = model.spec.predicts ? "the default of a decoder" : "the default of an encoder";
  s.max_tokens = model_context(model);
  if (said) {
    s.embedding.pooling = said->pooling, s.embedding.normalize = said->normalize;
    s.prefix = said->prefix, s.origin = "the model's own";
    s.max_tokens = std::min(s.max_tokens, said->max_tokens.value_or(s.max_tokens));
    for (const std::string& note : said->notes)
      if (!options.has("prefix")) log_info("{}", note);
  }
  if (options.has("pooling")) {
    s.embedding.pooling = pooling_named(options.text("pooling")).value();
    s.origin = "--pooling";
  }
  if (options.text("normalize") != "auto") s.embedding.normalize = options.text("normalize") == "always";
  if (options.has("prefix")) s.prefix = options.text("prefix");
  s.embedding.batch = options.integer("batch");
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

void print_vectors(std::span<const float> vectors, int64_t width) {
  for (size_t begin = 0; begin < vectors.size(); begin += static_cast<size_t>(width)) {
    std::string line;
    for (const float v : vectors.subspan(begin, static_cast<size_t>(width)))
      fmt::format_to(std::back_inserter(line), "{}{}", line.empty() ? "" : " ", v);
    print_out(line + "\n");
  }
}

void print_embeddings_json(const Options& options, const ModelDescription& model, const Settings& s,
                           const std::vector<std::vector<int32_t>>& tokens, std::span<const float> vectors) {
  Json rows = Json::array(), counts = Json::array();
  const auto width = static_cast<size_t>(model.spec.width);
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back(std::vector<float>(vectors.begin() + static_cast<ptrdiff_t>(i * width),
                                      vectors.begin() + static_cast<ptrdiff_t>((i + 1) * width)));
    counts.push_back(tokens[i].size());
  }
  Json out = {{"model", options.positional("MODEL")},    {"dtype", name_of(model.dtype)},
              {"pooling", name_of(s.embedding.pooling)}, {"normalized", s.embedding.normalize},
              {"dimensions", model.spec.width},          {"tokens", counts}};
  if (options.has("output"))
    out["output"] = options.text("output");
  else
    out["embeddings"] = rows;
  print_json(out);
}

}  // namespace

int run_embed(const Options& options) {
  if (options.has("output") && !options.text("output").ends_with(".npy"))
    throw Error(ErrorKind::usage, "embed: --output {}: expected a name that ends in .npy; for text leave it out",
                options.text("output"));
  apply_threads(options);
  const Texts texts = read_texts(options);
  const MemoryBudget budget = memory_budget(options);
  const ModelDescription model = describe_model(options.positional("MODEL"), dtype_option(options));
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer, so texts cannot become tokens", model.dir.path);
  const Settings s = settings_of(options, model);
  if (s.embedding.pooling == Pooling::pooler && model.spec.predicts)
    throw Error(ErrorKind::usage, "embed: --pooling pooler: a {} model has no pooler; take last or mean",
                model.spec.family);
  const std::vector<std::vector<int32_t>> tokens = tokens_of(options, model, texts, s);
  check_embedding_fit(model.spec, model.dtype, tokens, s.embedding, budget.bytes, budget.source);

  Arena arena;
  const ModelWeights weights = load_for_inference(model, arena);
  std::optional<Linear> pooler;
  if (s.embedding.pooling == Pooling::pooler) pooler = load_pooler(model.spec, model.dir.path, model.dtype, arena);
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  Progress progress("embed", static_cast<int64_t>(tokens.size()), real_clock(), {}, "texts");
  const std::vector<float> vectors =
      embed_texts(model.spec, weights, pooler ? &*pooler : nullptr, tokens, s.embedding, arena, [&](int64_t done) {
        progress.update(done);
        return !stop_requested();
      });
  progress.finish();
  if (options.has("output")) write_npy(real_io(), options.text("output"), vectors, model.spec.width);
  if (options.flag("json"))
    print_embeddings_json(options, model, s, tokens, vectors);
  else if (!options.has("output"))
    print_vectors(vectors, model.spec.width);
  log_info("{} of {} numbers, pooling {} ({}), {}; {:.1f} texts/s",
           counted(static_cast<int64_t>(tokens.size()), "vector"), model.spec.width, name_of(s.embedding.pooling),
           s.origin, s.embedding.normalize ? "normalized" : "not normalized",
           static_cast<double>(tokens.size()) / std::max(1e-9, seconds_between(start_ns, real_clock().now_ns())));
  return 0;
}

}  // namespace tern
