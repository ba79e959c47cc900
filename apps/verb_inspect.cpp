// tern inspect MODEL: what a model directory holds, in words and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/embed_settings.h"
#include "apps/inspect_adapter.h"
#include "apps/inspect_words.h"
#include "apps/layout_words.h"
#include "apps/model_of.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "base/shell.h"
#include "base/system.h"
#include "base/text.h"
#include "base/units.h"
#include "base/weight_type.h"
#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "formats/data/token_data.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/check_weights.h"
#include "model/model_files.h"
#include "model/not_finite.h"
#include "model/weights.h"

namespace tern {
namespace {

// "Q4_K (4.5 bits a weight)"; of a type without scales the name says it.
std::string type_words(const std::string& name) {
  const auto type = weight_type_from_name(name);
  if (!type || row_of(*type).block_elements == 1) return name;
  return fmt::format("{} ({:.6g} bits a weight)", name, bits_per_weight(*type));
}

bool has_tables(const std::string& name) {
  const auto type = weight_type_from_name(name);
  return type && row_of(*type).levels > 0;
}

// "BF16", or "201 BF16, 2 F32" where a file mixes them. I8 beside learned types are their tables.
std::string dtype_words(const WeightsCheck& check) {
  const bool learned = std::ranges::any_of(check.dtypes, [](const auto& of) { return has_tables(of.first); });
  std::string words;
  for (const auto& [name, count] : check.dtypes) {
    const std::string type = learned && name == "I8" ? "I8 (tables of levels)" : type_words(name);
    words += check.dtypes.size() == 1 ? type : fmt::format("{}{} {}", words.empty() ? "" : ", ", count, type);
  }
  return words;
}

std::string weights_words(const WeightsCheck& check, bool is_gguf) {
  std::string words = fmt::format("{} of {} in {} and {}", format_bytes(check.num_bytes), dtype_words(check),
                                  counted(check.num_tensors, "tensor"), counted(check.num_files, "file"));
  if (!check.problems.empty()) return words;
  words += fmt::format(": whole, every name and shape as {} implies", is_gguf ? "the file's metadata" : "config.json");
  return check.num_passed_over == 0
             ? words
             : words + fmt::format(", but for {} of layers or heads that tern does not run, which were not looked at",
                                   counted(check.num_passed_over, "tensor"));
}

Json weights_json(const WeightsCheck& check) {
  Json bits = Json::object();
  for (const auto& [name, count] : check.dtypes)
    if (const auto type = weight_type_from_name(name)) bits[name] = bits_per_weight(*type);
  return {{"files", check.num_files},   {"tensors", check.num_tensors},
          {"bytes", check.num_bytes},   {"passed_over", check.num_passed_over},
          {"dtypes", check.dtypes},     {"whole", check.problems.empty()},
          {"problems", check.problems}, {"bits_per_weight", std::move(bits)}};
}

// What is broken ends the verb, after everything else was shown.
void require_whole(const std::vector<std::string>& problems, bool of_weights) {
  if (problems.empty()) return;
  constexpr size_t kMost = 20;
  std::string all;
  for (size_t i = 0; i < std::min(kMost, problems.size()); ++i) all += "\n  " + problems[i];
  if (problems.size() > kMost) all += fmt::format("\n  and {} more (--json lists all)", problems.size() - kMost);
  throw Error(ErrorKind::bad_file, "the model cannot be used as it is:{}{}", all,
              of_weights ? "\nfetch the weights again, or find the config.json they belong with" : "");
}

// Whether every number is one. Larger files are not read for it: the verbs that use them say so when they meet a NaN.
constexpr int64_t kMostRead = int64_t{1} << 30;
bool reads_numbers(const ModelDescription& model, const WeightsCheck& check) {
  return check.problems.empty() && check.num_files > 0 && !model.dir.is_gguf() && check.num_bytes <= kMostRead;
}

// What is not there, and which verbs need it.
std::vector<std::string> missing_parts(const ModelDescription& model) {
  std::vector<std::string> missing;
  if (model.dir.weights.empty()) missing.emplace_back("weights: without them a model can only be trained from scratch");
  if (!model.dir.has_tokenizer())
    missing.emplace_back("a tokenizer: generate, chat, eval and embed need one beside config.json");
  return missing;
}

// What makes vectors of texts; what tern embed refuses is a problem of an encoder, and a note of what also generates.
std::optional<EmbedDefaults> embedding_of(ModelDescription& model, std::vector<std::string>& problems) {
  try {
    const EmbedDefaults defaults = embed_defaults(model);
    if (defaults.said || !model.spec.predicts) return defaults;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) throw;
    if (model.spec.predicts)
      model.notes.push_back(fmt::format("tern embed refuses the model: {}", error.what()));
    else
      problems.emplace_back(error.what());
  }
  return {};
}

// Of the files that hold a tokenizer, those that are not read because another is.
std::string tokenizer_words(const ModelDescription& model) {
  if (!model.tokenizer) return model.dir.has_tokenizer() ? "NOT readable, see below" : "none";
  std::vector<std::string> names;
  for (const std::string& file : model.dir.tokenizer_files) names.push_back(file_name(file));
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  std::string beside;
  if (has("tokenizer.json"))
    for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
      if (has(name)) beside = fmt::format("; from tokenizer.json, {} beside it is not read", name);
  return model.tokenizer->describe() + beside;
}

// What one sequence of a length takes, and the longest that fits.
struct SequenceRoom {
  DType dtype;
  int64_t shortest_bytes, full_bytes, longest;  // longest 0: not even a short one
};
constexpr int64_t kShort = 512;

InferenceFit fit_of(const ModelSpec& spec, DType dtype, int64_t context) {
  if (!spec.predicts) {  // one text without a cache, and no logits
    InferenceFit fit =
        inference_fit(spec, dtype, {.context = 1, .sequences = 0, .iteration_tokens = context, .logit_rows = 0});
    fit.logits = 0;
    return fit;
  }
  return inference_fit(spec, dtype,
                       {.context = context,
                        .sequences = 1,
                        .page_tokens = 16,
                        .iteration_tokens = std::min<int64_t>(128, context),
                        .logit_rows = 1});
}

SequenceRoom room_of(const ModelSpec& spec, DType dtype, int64_t most, int64_t available) {
  const auto peak = [&](int64_t context) { return fit_of(spec, dtype, context).total(); };
  SequenceRoom room{dtype, peak(std::min(kShort, most)), peak(most), 0};
  if (room.full_bytes <= available) {
    room.longest = most;
  } else if (room.shortest_bytes <= available) {
    int64_t low = std::min(kShort, most), high = most;  // low fits, high does not
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (peak(middle) <= available ? low : high) = middle;
    }
    room.longest = low;
  }
  return room;
}

std::string room_words(const SequenceRoom& r, int64_t most, int64_t available) {
  if (r.longest == most)
    return fmt::format("{}: fits, {} at the full context of {}", name_of(r.dtype), format_bytes(r.full_bytes),
                       format_with_commas(most));
  if (r.longest > 0)
    return fmt::format("{}: fits up to {} of {} tokens; the full context needs {}, {} are free", name_of(r.dtype),
                       format_with_commas(r.longest), format_with_commas(most), format_bytes(r.full_bytes),
                       format_bytes(available));
  return fmt::format("{}: does not fit: {} for {} tokens, {} are free", name_of(r.dtype),
                     format_bytes(r.shortest_bytes), format_with_commas(std::min(kShort, most)),
                     format_bytes(available));
}

// The templates by name, each in words; what does not parse goes to `problems`.
std::vector<std::string> template_lines(const ModelDescription& model, std::vector<std::string>& problems) {
  std::vector<std::string> lines;
  try {
    const ChatTemplates all = read_chat_templates(model.dir.path);
    for (const auto& [name, source] : all.by_name) {
      try {
        const ChatTemplate t(source.text, source.place, all.special_tokens);
        lines.push_back(fmt::format("template '{}'{}", make_printable(name),
                                    t.marks_assistant() ? ", which marks the assistant's words for training" : ""));
      } catch (const Error& error) { problems.emplace_back(error.what()); }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) throw;
    problems.emplace_back(error.what());
  }
  return lines;
}

// Everything that is shown, looked at once.
struct Inspected {
  std::string name;  // as it was asked for
  ModelDescription model;
  Parts parts;
  KvShape kv;
  int64_t total, most, available;  // parameters; positions; bytes of memory
  WeightsCheck check;
  bool has_weights, reads_numbers;
  std::string bad_numbers;
  std::vector<std::string> missing, problems, templates;
  std::optional<EmbedDefaults> embedding;
  std::vector<SequenceRoom> rooms;
  bool broken_template;
  bool broken_weights() const { return !check.problems.empty() || !bad_numbers.empty(); }
};

Inspected inspect(const std::string& name) {
  std::vector<std::string> problems;
  ModelDescription model = describe_model(name, std::nullopt, {.need_weights = false, .environment = {}}, &problems);
  const ModelSpec& spec = model.spec;
  const bool weights = !model.dir.weights.empty();
  const WeightsCheck check = weights ? check_weights(spec, model.dir.weights) : WeightsCheck{};
  problems.insert(problems.end(), check.problems.begin(), check.problems.end());
  bool numbers = weights && reads_numbers(model, check);
  std::string bad_numbers;
  if (numbers) bad_numbers = find_not_finite(Weights(model.dir.weights));
  // Of a directory of codes only what is not coded was looked at: enough to find a fault, not to say that there is none.
  if (bad_numbers.empty() && numbers) numbers = !holds_coded(model.spec, model.dir.path);
  if (!bad_numbers.empty()) problems.push_back(bad_numbers);
  // A directory is a model's: without weights it cannot be used. A config.json by itself was never more.
  const auto given = real_io().stat(name);
  if (!weights && !(given && !given->is_directory))
    problems.push_back(fmt::format("{}: no weights that tern reads in this directory", model.dir.path));
  const std::optional<EmbedDefaults> embedding = embedding_of(model, problems);
  const size_t before_templates = problems.size();
  const std::vector<std::string> templates = template_lines(model, problems);
  const bool broken_template = problems.size() > before_templates;
  if (model.tokenizer && model.tokenizer->vocab_size() > spec.vocab)
    problems.push_back(fmt::format("the tokenizer knows {} ids, the model {}: they do not belong together",
                                   model.tokenizer->vocab_size(), spec.vocab));
  const int64_t most = model_context(model), available = read_memory_facts().available_bytes;
  std::vector<SequenceRoom> rooms;
  for (const DType dtype : {model.dtype, DType::bf16})
    if (rooms.empty() || dtype != model.dtype) rooms.push_back(room_of(spec, dtype, most, available));
  return {.name = name,
          .model = model,
          .parts = count_parts(spec),
          .kv = kv_shape(spec, 16, model.dtype),
          .total = num_parameters(spec),
          .most = most,
          .available = available,
          .check = check,
          .has_weights = weights,
          .reads_numbers = numbers,
          .bad_numbers = bad_numbers,
          .missing = missing_parts(model),
          .problems = problems,
          .templates = templates,
          .embedding = embedding,
          .rooms = rooms,
          .broken_template = broken_template};
}

Json shape_json(const Inspected& in) {
  const ModelSpec& spec = in.model.spec;
  const Parts& parts = in.parts;
  const AttentionSpec& attention = first_attention(spec);
  const MlpSpec* mlp = first_mlp(spec);
  return {{"model", in.name},
          {"path", in.model.dir.path},
          {"format", in.model.dir.is_gguf() ? "gguf" : "huggingface"},
          {"family", spec.family},
          {"has_weights", in.has_weights},
          {"dtype", name_of(in.model.config.dtype.value_or(DType::f32))},
          {"layers", spec.layers},
          {"width", spec.width},
          {"heads", attention.heads},
          {"kv_heads", attention.kv_heads},
          {"head_dim", attention.head_dim},
          {"hidden", mlp ? Json(mlp->hidden) : Json()},
          {"vocab", spec.vocab},
          {"context", spec.context},
          {"sliding_window", attention.window},
          {"positions", position_words(spec)},
          {"encoder", !spec.predicts},
          {"tied_head", spec.head().tied},
          {"parameters",
           {{"total", in.total},
            {"embedding", parts.embedding},
            {"attention", parts.attention},
            {"mlp", parts.mlp},
            {"experts", parts.experts},
            {"norms", parts.norms},
            {"head", parts.head}}},
          {"kv_bytes_per_token", spec.predicts ? in.kv.bytes_per_token() : 0},
          {"inference_peak_bytes", in.rooms[0].full_bytes},
          {"memory_available_bytes", in.available}};
}

Json json_of(const Inspected& in) {
  const ModelDescription& model = in.model;
  Json out = shape_json(in);
  for (const SequenceRoom& r : in.rooms)
    out["fits"][std::string(name_of(r.dtype))] = {{"longest_context", r.longest}, {"peak_bytes_full", r.full_bytes}};
  out["units"] = Json::array();
  for (const auto& [text, count] : unit_lines(model.spec)) out["units"].push_back({{"what", text}, {"count", count}});
  out["tokenizer"] = model.tokenizer ? Json(model.tokenizer->describe()) : Json();
  out["chat_template"] = !in.templates.empty();
  out["templates"] = in.templates;
  out["weights"] = in.has_weights ? weights_json(in.check) : Json();
  if (in.has_weights) out["weights"]["finite"] = in.reads_numbers ? Json(in.bad_numbers.empty()) : Json();
  if (in.embedding)
    out["embedding"] = {{"pooling", name_of(in.embedding->pooling)},
                        {"normalize", in.embedding->normalize},
                        {"prefix", in.embedding->prefix},
                        {"max_tokens", in.embedding->max_tokens},
                        {"origin", in.embedding->origin}};
  out["missing"] = in.missing;
  out["notes"] = model.notes;
  out["problems"] = in.problems;
  return out;
}

void print_line(std::string_view key, const std::string& text) { print_out(fmt::format("{:<12} {}\n", key, text)); }

void print_shape(const Inspected& in) {
  const ModelSpec& spec = in.model.spec;
  const Parts& parts = in.parts;
  const auto share = [&](int64_t part) {
    return fmt::format("{} ({:.1f} %)", format_count(static_cast<double>(part)),
                       100.0 * static_cast<double>(part) / static_cast<double>(in.total));
  };
  print_line("model", fmt::format("{}{}", in.model.dir.path, in.model.dir.is_gguf() ? " (a GGUF file)" : ""));
  print_line("family",
             fmt::format("{}: reads up to {} tokens and {}", spec.family, format_with_commas(spec.context),
                         spec.predicts ? "says which comes next" : "turns them into one vector (tern embed)"));
  print_line("positions", position_words(spec));
  std::string_view key = "units";
  for (const auto& [text, count] : unit_lines(spec)) {
    print_line(key, fmt::format("{:>3} × {}", count, text));
    key = "";
  }
  print_line("parameters",
             fmt::format("{} ({})", format_with_commas(in.total), format_count(static_cast<double>(in.total))));
  print_line("", fmt::format("attention {}, {}{}embedding {}, head {}, norms {}", share(parts.attention),
                             parts.mlp > 0 ? fmt::format("mlp {}, ", share(parts.mlp)) : "",
                             parts.experts > 0 ? fmt::format("experts {}, ", share(parts.experts)) : "",
                             share(parts.embedding),
                             !spec.predicts     ? "none (an encoder)"
                             : spec.head().tied ? "tied to the embedding"
                                                : share(parts.head),
                             share(parts.norms)));
}

void print_inspected(const Inspected& in) {
  const ModelDescription& model = in.model;
  const ModelSpec& spec = model.spec;
  print_shape(in);
  print_line("weights", !in.has_weights           ? "NONE in this directory"
                        : in.check.num_files == 0 ? "NOT readable, see below"
                                                  : weights_words(in.check, model.dir.is_gguf()));
  print_line("tokenizer", tokenizer_words(model));
  if (in.embedding) print_line("embedding", describe(*in.embedding));
  if (in.broken_template)
    print_line("chat", "a template that cannot be read, see below");
  else if (in.templates.empty() && spec.predicts)
    print_line("chat", "no chat template: it continues texts and does not converse");
  for (const std::string& t : in.templates) print_line("chat", t);
  if (spec.predicts)
    print_line("cache", fmt::format("{} of keys and values per token, {} at the full context",
                                    format_bytes(in.kv.bytes_per_token()),
                                    format_bytes(in.kv.bytes_per_token() * spec.context)));
  std::string_view key = "to run it";
  for (const SequenceRoom& r : in.rooms) {
    print_line(key, room_words(r, in.most, in.available));
    key = "";
  }
  for (const std::string& note : model.notes) print_line("note", note);
  for (const std::string& part : in.missing) print_line("missing", part);
  if (in.problems.empty() && in.missing.empty())
    print_line("broken",
               in.reads_numbers
                   ? "nothing: names, shapes and numbers of the weights, tokenizer and template were looked at"
                   : "nothing that was looked at: names and shapes of the weights, tokenizer and template; "
                     "not their numbers");
}

// A token file: read whole, so a changed byte is an error.
int inspect_tokens(const Options& options, const std::string& path) {
  const TokenData data = TokenData::open(path);
  const TokenFileInfo& info = data.info();
  if (options.flag("json")) {
    print_json({{"tokens", info.num_tokens},
                {"documents", info.num_documents},
                {"vocab_size", info.vocab_size},
                {"text_bytes", info.text_bytes},
                {"loss_mask", data.has_loss()},
                {"tokenizer", info.tokenizer_hash},
                {"source", info.source}});
    return 0;
  }
  print_out(fmt::format("token file   {} of a vocabulary of {}, in {}{}\n", counted(info.num_tokens, "token"),
                        format_with_commas(info.vocab_size), counted(info.num_documents, "document"),
                        data.has_loss() ? ", with a mask of what is learnt" : ""));
  if (info.text_bytes > 0 && info.num_tokens > 0)
    print_out(fmt::format("text         {}, {:.2f} bytes a token\n", format_bytes(info.text_bytes),
                          static_cast<double>(info.text_bytes) / static_cast<double>(info.num_tokens)));
  if (!info.source.empty()) print_out(fmt::format("made from    {}\n", info.source));
  print_out("to train on it: tern train MODEL --data " + shell_quoted(path) + " --output run\n");
  return 0;
}

// How the matrices may lie on many ranks; weights are not read.
int inspect_layouts(const Options& options, const std::string& path) {
  const ModelSpec spec = model_of(path);
  const int64_t sequences = options.integer("batch");
  const LayoutQuestion question{.ranks = static_cast<int>(options.integer("layouts")),
                                .rows = sequences * options.integer("seq"),
                                .sequences = sequences};
  if (options.flag("json"))
    print_json(layout_json(spec, question));
  else
    print_out(layout_words(spec, question));
  return 0;
}

}  // namespace

int run_inspect(const Options& options) {
  const std::string path = options.positional("MODEL");
  for (const char* of_layouts : {"batch", "seq"})
    if (options.given(of_layouts) && !options.given("layouts"))
      throw Error(ErrorKind::usage, "--{}: belongs to --layouts RANKS, which is not given", of_layouts);
  if (options.given("layouts")) {
    if (is_token_file(path)) throw Error(ErrorKind::usage, "--layouts: '{}' is a token file, not a model", path);
    return inspect_layouts(options, path);
  }
  if (is_token_file(path)) return inspect_tokens(options, path);
  if (is_adapter_folder(path)) return inspect_adapter(options, path);
  const Inspected in = inspect(path);
  if (options.flag("json"))
    print_json(json_of(in));
  else
    print_inspected(in);
  require_whole(in.problems, in.broken_weights());
  return 0;
}

}  // namespace tern
