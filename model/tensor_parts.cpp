#include "model/tensor_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "model/held_runs.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// The dim of a parameter that is shared out, and the sections it stacks; dim −1: whole on each rank.
struct Cut {
  int dim = -1;
  std::vector<int64_t> sections{};
  bool stacks_heads = false;  // queries, keys and values
  bool is_table = false;
};

Cut cut_of(const ModelSpec& whole, const ParameterInfo& info) {
  const Unit& unit = whole.units[static_cast<size_t>(info.unit)];
  const auto is = [&](std::string_view end) { return info.name.ends_with(end); };
  if (is("embed.tokens") || is("head.projection.weight"))
    return {.dim = 0, .sections = {info.shape[0]}, .is_table = true};
  if (const AttentionSpec* a = attention_of(unit); a && info.name.find(".attention.") != std::string::npos) {
    const int64_t queries = a->heads * a->head_dim, keys = a->kv_heads * a->head_dim;
    if (is(".qkv.weight") || is(".qkv.bias"))
      return {.dim = 0, .sections = {queries, keys, keys}, .stacks_heads = true};
    if (is(".sinks")) return {.dim = 0, .sections = {a->heads}};
    if (is(".out.weight")) return {.dim = 1, .sections = {info.shape[1]}};
    return {};
  }
  const MlpSpec* m = mlp_of(unit);
  if (!m) return {};
  if (is(".mlp.up.weight") || is(".mlp.up.bias"))
    return {.dim = 0, .sections = std::vector<int64_t>(m->gated ? 2 : 1, m->hidden)};
  if (is(".mlp.down.weight")) return {.dim = 1, .sections = {info.shape[1]}};
  return {};
}

// Key/value heads of a rank.
Interval heads_of(int64_t heads, int rank, int ranks) {
  if (heads >= ranks) return part_of(heads, rank, ranks);
  const int64_t one = rank * heads / ranks;
  return {one, one + 1};
}

std::string unit_fault(const Unit& unit, int64_t ranks) {
  if (unit.frozen || !unit.adapters.empty()) return "is frozen or has adapters";
  if (moe_of(unit)) return "has experts";
  if (std::holds_alternative<BridgeSpec>(unit.spec)) return "joins an encoder and a decoder";
  if (const AttentionSpec* a = attention_of(unit)) {
    if (a->latent.present()) return "has latent attention";
    if (a->head_norm == HeadNormKind::row) return "norms all queries of a row together";
    if (a->alibi != AlibiKind::none) return "has slopes by head";
    if (a->heads % ranks) return fmt::format("has {} heads", a->heads);
    if (a->kv_heads % ranks && ranks % a->kv_heads) return fmt::format("has {} key/value heads", a->kv_heads);
  }
  if (const MlpSpec* m = mlp_of(unit); m && m->hidden % ranks)
    return fmt::format("has a hidden width of {}", m->hidden);
  return "";
}

void cut_attention(AttentionSpec& u, int ranks) {
  u.heads /= ranks;
  u.kv_heads = std::max<int64_t>(1, u.kv_heads / ranks);
}

template <class Copy>
void each_bytes(const Holding& held, const Tensor& whole, const Tensor& part, Copy copy) {
  TERN_CHECK(whole.dtype() == part.dtype() && part.count() >= local_count(held), "tensor parts: {} elements of {} {}",
             local_count(held), part.count(), name_of(part.dtype()));
  const int64_t size = size_of(whole.dtype());
  auto* const all = static_cast<std::byte*>(whole.data());
  auto* const own = static_cast<std::byte*>(part.data());
  for_each_held_run(held, whole.shape(), [&](int64_t from, int64_t at, int64_t count) {
    copy(all + from * size, own + at * size, static_cast<size_t>(count * size));
  });
}

}  // namespace

std::string why_not_in_parts(const ModelSpec& spec, int ranks) {
  if (!spec.predicts) return "it is an encoder";
  if (spec.vocab < ranks) return fmt::format("its vocabulary is {}", spec.vocab);
  for (size_t u = 0; u < spec.units.size(); ++u)
    if (const std::string fault = unit_fault(spec.units[u], ranks); !fault.empty())
      return fmt::format("unit {} {}", u, fault);
  return "";
}

Interval tokens_of(int64_t vocab, int rank, int ranks) {
  const int64_t each = (vocab + ranks - 1) / ranks;
  return {std::min(vocab, rank * each), std::min(vocab, (rank + 1) * each)};
}

ModelSpec tensor_part(const ModelSpec& whole, int ranks) {
  if (const std::string fault = why_not_in_parts(whole, ranks); !fault.empty())
    throw Error(ErrorKind::usage, "matrices cannot be shared out to {} ranks: {}; choose another number, or 1", ranks,
                fault);
  ModelSpec part = whole;
  const int64_t vocab = (whole.vocab + ranks - 1) / ranks;
  for (Unit& unit : part.units) {
    if (auto* u = std::get_if<EmbedSpec>(&unit.spec)) u->vocab = vocab;
    if (auto* u = std::get_if<HeadSpec>(&unit.spec)) u->vocab = vocab;
    if (auto* u = std::get_if<AttentionSpec>(&unit.spec)) cut_attention(*u, ranks);
    if (auto* u = std::get_if<MlpSpec>(&unit.spec)) u->hidden /= ranks;
    if (auto* u = std::get_if<ParallelSpec>(&unit.spec)) cut_attention(u->attention, ranks), u->mlp.hidden /= ranks;
  }
  return part;
}

Holding tensor_holding(const ModelSpec& whole, const ParameterInfo& info, int rank, int ranks) {
  const Cut cut = cut_of(whole, info);
  Holding held;
  for (int dim = 0; dim < info.shape.rank; ++dim) {
    std::vector<Interval>& own = held.emplace_back();
    if (dim != cut.dim) {
      own.push_back({0, info.shape[dim]});
      continue;
    }
    int64_t begin = 0;
    for (size_t s = 0; s < cut.sections.size(); ++s) {
      Interval part = cut.is_table ? tokens_of(cut.sections[s], rank, ranks) : part_of(cut.sections[s], rank, ranks);
      if (cut.stacks_heads && s > 0) {
        const AttentionSpec& a = *attention_of(whole.units[static_cast<size_t>(info.unit)]);
        const Interval heads = heads_of(a.kv_heads, rank, ranks);
        part = {heads.begin * a.head_dim, heads.end * a.head_dim};
      }
      own.push_back({begin + part.begin, begin + part.end});
      begin += cut.sections[s];
    }
  }
  return held;
}

void take_part(const Holding& held, const Tensor& whole, const Tensor& part) {
  if (part.count() > local_count(held)) part.fill_zero();
  each_bytes(held, whole, part, [](std::byte* all, std::byte* own, size_t n) { std::memcpy(own, all, n); });
}

void put_part(const Holding& held, const Tensor& part, const Tensor& whole) {
  each_bytes(held, whole, part, [](std::byte* all, std::byte* own, size_t n) { std::memcpy(all, own, n); });
}

AlikeRows alike_rows(const ModelSpec& part, const ParameterInfo& info, bool keys_alike) {
  const Cut cut = cut_of(part, info);
  if (cut.dim < 0) return {0, true};
  if (!cut.stacks_heads || !keys_alike) return {info.shape[0], false};
  return {info.shape[0] - 2 * attention_of(part.units[static_cast<size_t>(info.unit)])->head_dim, false};
}

std::vector<int> ranks_of_same_keys(const ModelSpec& whole, int rank, int ranks) {
  const int64_t heads = first_attention(whole).kv_heads;
  const int each = heads >= ranks ? 1 : static_cast<int>(ranks / heads);
  std::vector<int> same;
  for (int r = rank / each * each; r < (rank / each + 1) * each; ++r) same.push_back(r);
  return same;
}

}  // namespace tern
