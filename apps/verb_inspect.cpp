// tern inspect MODEL: what a model directory holds, in words and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/options.h"
#include "base/system.h"
#include "base/units.h"
#include "infer/load.h"
#include "model/check_weights.h"
#include "model/weights.h"

namespace tern {
namespace {

struct Parts {
  int64_t embedding = 0, attention = 0, mlp = 0, norms = 0, head = 0;
};

Parts count_parts(const ModelSpec& spec) {
  Parts parts;
  for (const ParameterInfo& p : parameters(spec)) {
    const auto& unit = spec.units[static_cast<size_t>(p.unit)].spec;
    int64_t& part = p.is_norm_weight || p.name.find("norm") != std::string::npos ? parts.norms
                    : std::holds_alternative<EmbedSpec>(unit)                    ? parts.embedding
                    : std::holds_alternative<AttentionSpec>(unit)                ? parts.attention
                    : std::holds_alternative<MlpSpec>(unit)                      ? parts.mlp
                                                                                 : parts.head;
    part += p.shape.count();
  }
  return parts;
}

// "BF16", or "201 BF16, 2 F32" where a file mixes them.
std::string dtype_words(const WeightsCheck& check) {
  std::string words;
  for (const auto& [name, count] : check.dtypes)
    words += check.dtypes.size() == 1 ? name : fmt::format("{}{} {}", words.empty() ? "" : ", ", count, name);
  return words;
}

std::string weights_words(const WeightsCheck& check) {
  std::string words = fmt::format("{} of {} in {} and {}", format_bytes(check.num_bytes), dtype_words(check),
                                  counted(check.num_tensors, "tensor"), counted(check.num_files, "file"));
  return check.problems.empty() ? words + ": whole, every name and shape as config.json implies" : words;
}

Json weights_json(const WeightsCheck& check) {
  return {{"files", check.num_files}, {"tensors", check.num_tensors},    {"bytes", check.num_bytes},
          {"dtypes", check.dtypes},   {"whole", check.problems.empty()}, {"problems", check.problems}};
}

// What was wrong with the weights ends the verb, after everything else was shown.
void require_whole(const WeightsCheck& check) {
  if (check.problems.empty()) return;
  constexpr size_t kMost = 20;
  std::string all;
  for (size_t i = 0; i < std::min(kMost, check.problems.size()); ++i) all += "\n  " + check.problems[i];
  if (check.problems.size() > kMost)
    all += fmt::format("\n  and {} more (--json lists all)", check.problems.size() - kMost);
  throw Error(
      ErrorKind::bad_file,
      "the weights cannot be used as they are:{}\nfetch the files again, or find the config.json they belong to", all);
}

std::string_view rope_name(RopeKind kind) {
  switch (kind) {
    case RopeKind::none:
      return "learned positions";
    case RopeKind::standard:
      return "rotary";
    case RopeKind::linear:
      return "rotary, linear scaling";
    case RopeKind::dynamic:
      return "rotary, dynamic NTK scaling";
    case RopeKind::yarn:
      return "rotary, YaRN scaling";
    case RopeKind::llama3:
      return "rotary, Llama 3 scaling";
    case RopeKind::longrope:
      return "rotary, LongRoPE";
  }
  return "";
}

}  // namespace

int run_inspect(const Options& options) {
  const ModelDescription model =
      describe_model(options.positional("MODEL"), std::nullopt, {.need_weights = false, .environment = {}});
  const ModelSpec& spec = model.spec;
  const auto& attention = std::get<AttentionSpec>(spec.units[1].spec);
  const auto& mlp = std::get<MlpSpec>(spec.units[2].spec);
  const Parts parts = count_parts(spec);
  const int64_t total = num_parameters(spec);
  const KvShape kv = kv_shape(spec, 16, model.dtype);
  const int64_t available = read_memory_facts().available_bytes;
  const bool weights = !model.dir.weights.empty();
  const WeightsCheck check = weights ? check_weights(spec, model.dir.weights) : WeightsCheck{};
  const InferenceFit fit = inference_fit(
      spec, model.dtype,
      {.context = spec.context, .sequences = 1, .page_tokens = 16, .iteration_tokens = 128, .logit_rows = 1});

  if (options.flag("json")) {
    Json out = {{"model", options.positional("MODEL")},
                {"path", model.dir.path},
                {"family", spec.family},
                {"has_weights", weights},
                {"dtype", name_of(model.config.dtype.value_or(DType::f32))},
                {"layers", spec.layers},
                {"width", spec.width},
                {"heads", attention.heads},
                {"kv_heads", attention.kv_heads},
                {"head_dim", attention.head_dim},
                {"hidden", mlp.hidden},
                {"vocab", spec.vocab},
                {"context", spec.context},
                {"sliding_window", attention.window},
                {"positions", rope_name(spec.rope.kind)},
                {"tied_head", spec.head().tied},
                {"parameters",
                 {{"total", total},
                  {"embedding", parts.embedding},
                  {"attention", parts.attention},
                  {"mlp", parts.mlp},
                  {"norms", parts.norms},
                  {"head", parts.head}}},
                {"kv_bytes_per_token", kv.bytes_per_token()},
                {"inference_peak_bytes", fit.peak()},
                {"memory_available_bytes", available}};
    out["tokenizer"] = model.tokenizer ? Json(model.tokenizer->describe()) : Json();
    out["chat_template"] = model.tokenizer && model.tokenizer->has_chat_template();
    out["weights"] = weights ? weights_json(check) : Json();
    out["notes"] = model.notes;
    print_json(out);
    require_whole(check);
    return 0;
  }
  const auto line = [](std::string_view key, const std::string& text) {
    print_out(fmt::format("{:<12} {}\n", key, text));
  };
  const auto share = [&](int64_t part) {
    return fmt::format("{} ({:.1f} %)", format_count(static_cast<double>(part)),
                       100.0 * static_cast<double>(part) / static_cast<double>(total));
  };
  line("model", model.dir.path);
  line("family", fmt::format("{}, {} layers of width {}, hidden {}", spec.family, spec.layers, spec.width, mlp.hidden));
  line("attention",
       fmt::format("{} heads of {}, {} key-value heads{}", attention.heads, attention.head_dim, attention.kv_heads,
                   attention.window > 0 ? fmt::format(", window of {} tokens", attention.window) : ""));
  line("positions", fmt::format("{}, context {}", rope_name(spec.rope.kind), format_with_commas(spec.context)));
  line("parameters", fmt::format("{} ({})", format_with_commas(total), format_count(static_cast<double>(total))));
  line("", fmt::format("attention {}, mlp {}, embedding {}, head {}, norms {}", share(parts.attention),
                       share(parts.mlp), share(parts.embedding),
                       spec.head().tied ? "tied to the embedding" : share(parts.head), share(parts.norms)));
  line("weights", !weights               ? "NONE in this directory"
                  : check.num_files == 0 ? "NOT readable, see below"
                                         : weights_words(check));
  line("tokenizer",
       model.tokenizer ? model.tokenizer->describe() : "none: generate, eval and train need one beside config.json");
  line("chat", model.tokenizer && model.tokenizer->has_chat_template() ? "has a chat template" : "no chat template");
  line("cache", fmt::format("{} of keys and values per token, {} at the full context",
                            format_bytes(kv.bytes_per_token()), format_bytes(kv.bytes_per_token() * spec.context)));
  line("to run it",
       fmt::format(
           "{} at the full context; this machine has {} free{}", format_bytes(fit.peak()), format_bytes(available),
           fit.peak() <= available ? "" : fmt::format(": it does not fit, see {} generate --context", program_name())));
  for (const std::string& note : model.notes) line("note", note);
  for (const std::string& note : check.notes) line("note", note);
  require_whole(check);
  return 0;
}

}  // namespace tern
