#include "apps/embed_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/units.h"
#include "formats/hf/sentence_config.h"
#include "infer/load.h"

namespace tern {

EmbedDefaults embed_defaults(const ModelDescription& model) {
  EmbedDefaults d;
  d.pooling = model.spec.predicts ? Pooling::last : Pooling::mean;
  d.origin = model.spec.predicts ? "the default of a decoder" : "the default of an encoder";
  d.max_tokens = model_context(model);
  if (model.dir.is_gguf()) return d;
  const std::optional<SentenceConfig> said = read_sentence_config(model.dir.path);
  if (!said) return d;
  d.said = true;
  d.pooling = said->pooling, d.normalize = said->normalize;
  d.prefix = said->prefix, d.include_prompt = said->include_prompt, d.origin = "the model's own", d.notes = said->notes;
  d.max_tokens = std::min(d.max_tokens, said->max_tokens.value_or(d.max_tokens));
  return d;
}

std::string describe(const EmbedDefaults& d) {
  return fmt::format("pooling {} ({}), {}{}, up to {} tokens", name_of(d.pooling), d.origin,
                     d.normalize ? "vectors of length 1" : "vectors as they come",
                     d.prefix.empty() ? "" : fmt::format(", {} in front of every text", quote_json(d.prefix)),
                     format_with_commas(d.max_tokens));
}

}  // namespace tern
