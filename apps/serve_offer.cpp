#include "apps/serve_offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/utf8.h"
#include "infer/constrain/constraint.h"
#include "infer/load.h"

namespace tern {
namespace {

// Where a request says nothing: what the model's makers say, else what OpenAI's documents say (temperature 1, no filters).
SamplingOptions usual_sampling(const GenerationConfig& file) {
  SamplingOptions s;
  s.temperature = 1;
  s.repetition_penalty = file.repetition_penalty.value_or(1);
  if (!file.do_sample.value_or(false)) return s;
  s.temperature = file.temperature.value_or(1);
  s.top_k = file.top_k.value_or(0);
  s.top_p = file.top_p.value_or(1);
  s.min_p = file.min_p.value_or(0);
  check_sampling(s);
  return s;
}

// Of a model that writes: how it draws, where it ends, and how one converses with it.
void offer_texts(const ModelDescription& model, const std::string& template_file, ServedModel& served,
                 std::optional<ChatPrompt>& chat) {
  served.sampling = usual_sampling(model.generation);
  served.ends = end_tokens(model);
  try {
    served.texts = std::make_shared<const TokenTexts>(token_texts(*model.tokenizer, model.spec.vocab));
  } catch (const Error& error) { served.why_no_texts = error.what(); }
  served.stops = model.generation.stop_strings;
  if (!template_file.empty() || model.tokenizer->has_chat_template()) {
    chat.emplace(model.dir.path, template_file, *model.tokenizer);
    served.chat = &*chat;
    served.turn_ends = chat->turn_ends();
    take_tool_marks(served);
  } else {
    served.why_no_chat = fmt::format(
        "{} brings no chat template: it continues texts (/v1/completions) and was not taught to converse; "
        "--chat-template "
        "gives it one",
        quote_json(served.name));
  }
}

}  // namespace

OfferedVectors offered_vectors(const Options& options, const ModelDescription& model) {
  OfferedVectors v;
  v.own = embed_defaults(model);
  v.settings = {.pooling = v.own.pooling, .normalize = v.own.normalize, .batch = 1};
  v.longest = std::min(options.integer("embed-tokens"), v.own.max_tokens);
  if (v.longest == 0) v.why_none = "this server makes no vectors (--embed-tokens 0)";
  if (!v.own.include_prompt && !v.own.prefix.empty()) {
    v.longest = 0;
    v.why_none = "include_prompt is false: tern does not leave the prompt's rows out of a vector";
  }
  return v;
}

std::string offered_name(const Options& options) {
  if (options.has("model-name")) {
    if (!is_valid_utf8(options.text("model-name")))
      throw Error(ErrorKind::usage, "--model-name {}: is not UTF-8, and answers in JSON could not name it",
                  make_printable(options.text("model-name")));
    return options.text("model-name");
  }
  const std::filesystem::path path = std::filesystem::path(options.positional("MODEL")).lexically_normal();
  return make_valid_utf8(path.has_filename() ? path.filename().string() : path.parent_path().filename().string());
}

ServedModel offered_model(const std::string& name, const ModelDescription& model, const OfferedVectors& vectors,
                          const std::string& template_file, std::optional<ChatPrompt>& chat) {
  ServedModel served{.name = name, .created_s = real_clock().wall_ns() / 1'000'000'000, .tokenizer = &*model.tokenizer};
  for (const OfferedAdapter& adapter : model.offered) served.adapters.push_back(adapter.name);
  served.vocab = model.spec.vocab, served.width = model.spec.width, served.writes = model.spec.predicts;
  served.longest_text = vectors.longest, served.why_no_embeddings = vectors.why_none;
  served.text_prefix = vectors.own.prefix;
  if (served.writes) offer_texts(model, template_file, served, chat);
  return served;
}

}  // namespace tern
