// tern inspect MODEL: what a model directory holds, in words and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/chat_template.h"
#include "infer/load.h"
#include "model/check_weights.h"
#include "model/weights.h"

namespace tern {
namespace {

struct Parts {
  int64_t embedding = 0, attention = 0, mlp = 0, experts = 0, norms = 0, head = 0;
  int64_t total() const { return embedding + attention + mlp + experts + norms + head; }
};

Parts count_parts(const ModelSpec& spec) {
  Parts parts;
  for (const ParameterInfo& p : parameters(spec)) {
    const auto& unit = spec.units[static_cast<size_t>(p.unit)].spec;
    int64_t& part = p.is_norm_weight || p.name.find("norm") != std::string::npos ? parts.norms
                    : std::holds_alternative<EmbedSpec>(unit)                    ? parts.embedding
                    : std::holds_alternative<HeadSpec>(unit)                     ? parts.head
                    : p.name.find(".attention.") != std::string::npos            ? parts.attention
                    : p.name.find(".experts.") != std::string::npos              ? parts.experts
                                                                                 : parts.mlp;
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

// What is broken ends the verb, after everything else was shown.
void require_whole(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  constexpr size_t kMost = 20;
  std::string all;
  for (size_t i = 0; i < std::min(kMost, problems.size()); ++i) all += "\n  " + problems[i];
  if (problems.size() > kMost) all += fmt::format("\n  and {} more (--json lists all)", problems.size() - kMost);
  throw Error(ErrorKind::bad_file,
              "the model cannot be used as it is:{}\nfetch the files again, or find the ones they belong with", all);
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

// One line per kind of unit, with how often it comes.
std::vector<std::pair<std::string, int64_t>> unit_lines(const ModelSpec& spec) {
  std::vector<std::pair<std::string, int64_t>> lines;
  const auto add = [&](const std::string& text) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == text; });
    if (found == lines.end())
      lines.emplace_back(text, 1);
    else
      ++found->second;
  };
  for (const Unit& unit : spec.units) {
    const AttentionSpec* a = attention_of(unit);
    const MlpSpec* m = mlp_of(unit);
    if (const auto* e = std::get_if<EmbedSpec>(&unit.spec))
      add(fmt::format("embedding: a row of {} numbers for each of {} tokens{}", e->width, format_with_commas(e->vocab),
                      e->positions > 0 ? fmt::format(", and for each of {} positions", e->positions) : "") +
          (e->token_types > 0 ? fmt::format(", and of {} kinds of segments", e->token_types) : ""));
    if (a)
      add(fmt::format(
          "{}attention: {} heads of {}{}{}{}: tokens look at {}{}", a->latent.present() ? "latent " : "", a->heads,
          a->head_dim,
          a->latent.present() ? fmt::format(", keys and values made from rows of {}", a->latent.kv_rank) : "",
          a->kv_heads < a->heads ? fmt::format(", sharing {} of keys and values", a->kv_heads) : "",
          a->window > 0 ? fmt::format(", the last {} only", a->window) : "",
          a->causal ? "those before them" : "all of their text", m ? ", beside the MLP and not before it" : ""));
    if (m)
      add(fmt::format("{}MLP: {} to {} and back, for each token by itself", m->gated ? "gated " : "", m->width,
                      m->hidden));
    if (const auto* x = std::get_if<MoeSpec>(&unit.spec))
      add(fmt::format("experts: {} MLPs of {}, of which each token takes {}{}", x->experts, x->hidden, x->top_k,
                      x->shared_hidden > 0 ? fmt::format(", and one of {} for all", x->shared_hidden) : ""));
    if (const auto* h = std::get_if<HeadSpec>(&unit.spec); h && spec.predicts)
      add(fmt::format("head: a score for each of {} tokens{}", format_with_commas(h->vocab),
                      h->tied ? ", by the embedding's own numbers" : ""));
  }
  return lines;
}

// What one sequence of a length takes, and the longest that fits.
struct Room {
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

Room room_of(const ModelSpec& spec, DType dtype, int64_t most, int64_t available) {
  const auto peak = [&](int64_t context) { return fit_of(spec, dtype, context).peak(); };
  Room room{dtype, peak(std::min(kShort, most)), peak(most), 0};
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

std::string room_words(const Room& r, int64_t most, int64_t available) {
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

}  // namespace

int run_inspect(const Options& options) {
  std::vector<std::string> problems;
  const ModelDescription model =
      describe_model(options.positional("MODEL"), std::nullopt, {.need_weights = false, .environment = {}}, &problems);
  const ModelSpec& spec = model.spec;
  const Parts parts = count_parts(spec);
  const int64_t total = num_parameters(spec), most = model_context(model);
  const KvShape kv = kv_shape(spec, 16, model.dtype);
  const int64_t available = read_memory_facts().available_bytes;
  const bool weights = !model.dir.weights.empty();
  const WeightsCheck check = weights ? check_weights(spec, model.dir.weights) : WeightsCheck{};
  problems.insert(problems.end(), check.problems.begin(), check.problems.end());
  const std::vector<std::string> templates = template_lines(model, problems);
  if (model.tokenizer && model.tokenizer->vocab_size() > spec.vocab)
    problems.push_back(fmt::format("the tokenizer knows {} ids, the model {}: they do not belong together",
                                   model.tokenizer->vocab_size(), spec.vocab));
  std::vector<Room> rooms;
  for (const DType dtype : {model.dtype, DType::bf16})
    if (rooms.empty() || dtype != model.dtype) rooms.push_back(room_of(spec, dtype, most, available));

  if (options.flag("json")) {
    const AttentionSpec& attention = first_attention(spec);
    const MlpSpec* mlp = first_mlp(spec);
    Json out = {{"model", options.positional("MODEL")},
                {"path", model.dir.path},
                {"format", model.dir.is_gguf() ? "gguf" : "huggingface"},
                {"family", spec.family},
                {"has_weights", weights},
                {"dtype", name_of(model.config.dtype.value_or(DType::f32))},
                {"layers", spec.layers},
                {"width", spec.width},
                {"heads", attention.heads},
                {"kv_heads", attention.kv_heads},
                {"head_dim", attention.head_dim},
                {"hidden", mlp ? Json(mlp->hidden) : Json()},
                {"vocab", spec.vocab},
                {"context", spec.context},
                {"sliding_window", attention.window},
                {"positions", rope_name(spec.rope.kind)},
                {"encoder", !spec.predicts},
                {"tied_head", spec.head().tied},
                {"parameters",
                 {{"total", total},
                  {"embedding", parts.embedding},
                  {"attention", parts.attention},
                  {"mlp", parts.mlp},
                  {"experts", parts.experts},
                  {"norms", parts.norms},
                  {"head", parts.head}}},
                {"kv_bytes_per_token", spec.predicts ? kv.bytes_per_token() : 0},
                {"inference_peak_bytes", rooms[0].full_bytes},
                {"memory_available_bytes", available}};
    for (const Room& r : rooms)
      out["fits"][std::string(name_of(r.dtype))] = {{"longest_context", r.longest}, {"peak_bytes_full", r.full_bytes}};
    out["units"] = Json::array();
    for (const auto& [text, count] : unit_lines(spec)) out["units"].push_back({{"what", text}, {"count", count}});
    out["tokenizer"] = model.tokenizer ? Json(model.tokenizer->describe()) : Json();
    out["chat_template"] = !templates.empty();
    out["templates"] = templates;
    out["weights"] = weights ? weights_json(check) : Json();
    out["notes"] = model.notes;
    out["problems"] = problems;
    print_json(out);
    require_whole(problems);
    return 0;
  }
  const auto line = [](std::string_view key, const std::string& text) {
    print_out(fmt::format("{:<12} {}\n", key, text));
  };
  const auto share = [&](int64_t part) {
    return fmt::format("{} ({:.1f} %)", format_count(static_cast<double>(part)),
                       100.0 * static_cast<double>(part) / static_cast<double>(total));
  };
  line("model", fmt::format("{}{}", model.dir.path, model.dir.is_gguf() ? " (a GGUF file)" : ""));
  line("family", fmt::format("{}: reads up to {} tokens and {}", spec.family, format_with_commas(spec.context),
                             spec.predicts ? "says which comes next" : "turns them into one vector (tern embed)"));
  line("positions", std::string(rope_name(spec.rope.kind)));
  std::string_view key = "units";
  for (const auto& [text, count] : unit_lines(spec)) {
    line(key, fmt::format("{:>3} × {}", count, text));
    key = "";
  }
  line("parameters", fmt::format("{} ({})", format_with_commas(total), format_count(static_cast<double>(total))));
  line("",
       fmt::format("attention {}, mlp {}, {}embedding {}, head {}, norms {}", share(parts.attention), share(parts.mlp),
                   parts.experts > 0 ? fmt::format("experts {}, ", share(parts.experts)) : "", share(parts.embedding),
                   !spec.predicts     ? "none (an encoder)"
                   : spec.head().tied ? "tied to the embedding"
                                      : share(parts.head),
                   share(parts.norms)));
  line("weights", !weights               ? "NONE in this directory"
                  : check.num_files == 0 ? "NOT readable, see below"
                                         : weights_words(check));
  line("tokenizer",
       model.tokenizer ? model.tokenizer->describe() : "none: generate, eval and train need one beside config.json");
  if (templates.empty() && spec.predicts) line("chat", "no chat template: it continues texts and does not converse");
  for (const std::string& t : templates) line("chat", t);
  if (spec.predicts)
    line("cache", fmt::format("{} of keys and values per token, {} at the full context",
                              format_bytes(kv.bytes_per_token()), format_bytes(kv.bytes_per_token() * spec.context)));
  key = "to run it";
  for (const Room& r : rooms) {
    line(key, room_words(r, most, available));
    key = "";
  }
  for (const std::string& note : model.notes) line("note", note);
  for (const std::string& note : check.notes) line("note", note);
  if (problems.empty()) line("broken", "nothing that was looked at");
  require_whole(problems);
  return 0;
}

}  // namespace tern
