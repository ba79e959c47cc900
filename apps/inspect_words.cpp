#include "apps/inspect_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

Parts count_parts(const ModelSpec& spec) {
  Parts parts;
  for (const ParameterInfo& p : parameters(spec)) {
    const auto& unit = spec.units[static_cast<size_t>(p.unit)].spec;
    int64_t& part = p.is_norm_weight || p.name.find("norm") != std::string::npos ? parts.norms
                    : std::holds_alternative<EmbedSpec>(unit)                    ? parts.embedding
                    : std::holds_alternative<HeadSpec>(unit)                     ? parts.head
                    : p.name.find(".attention.") != std::string::npos            ? parts.attention
                    : std::holds_alternative<MoeSpec>(unit)                      ? parts.experts
                                                                                 : parts.mlp;
    part += p.shape.count();
  }
  return parts;
}

std::string position_words(const ModelSpec& spec) {
  switch (spec.rope.kind) {
    case RopeKind::none:
      break;
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
  if (first_attention(spec).alibi != AlibiKind::none) return "ALiBi: scores sink with distance";
  if (const int64_t rows = spec.embed().positions; rows > 0)
    return fmt::format("learned: a row for each of {}", format_with_commas(rows));
  return "none";
}

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
          "{}attention: {} heads of {}{}{}{}{}: tokens look at {}{}", a->latent.present() ? "latent " : "", a->heads,
          a->head_dim,
          a->latent.present() ? fmt::format(", keys and values made from rows of {}", a->latent.kv_rank) : "",
          a->kv_heads < a->heads ? fmt::format(", sharing {} of keys and values", a->kv_heads) : "",
          a->sinks ? ", each with a sink" : "", a->window > 0 ? fmt::format(", the last {} only", a->window) : "",
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

}  // namespace tern
