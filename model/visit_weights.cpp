#include "model/visit_weights.h"

#include "base/error.h"
#include "model/allocate_weights.h"
#include "model/fragment.h"
#include "model/names.h"

namespace tern {

namespace {

NormSpec query_norm_of(const AttentionSpec& u) {
  NormSpec n = u.head_norm_like;
  n.width = u.query_norm_width();
  return n;
}
NormSpec key_norm_of(const AttentionSpec& u) {
  NormSpec n = u.head_norm_like;
  n.width = u.key_norm_width();
  return n;
}

// Visits the parameters of one unit, naming each.
class UnitVisitor {
 public:
  using Visit = std::function<void(const ParameterInfo&, Tensor&)>;
  using VisitLinear = std::function<void(const ParameterInfo&, Linear&)>;
  struct Visits {
    Visit parameter = {};  // none: linears may stand in any form
    Visit adapter = {};    // of branches
    Visit fixed = [](const ParameterInfo&, Tensor&) {};
    VisitLinear linear = [](const ParameterInfo&, Linear&) {};
  };
  UnitVisitor(const ModelSpec& spec, const Visits& visits, int unit)
      : spec_(spec),
        visit_(visits.parameter),
        visit_adapter_(visits.adapter),
        visit_fixed_(visits.fixed),
        visit_linear_(visits.linear),
        unit_(unit),
        layer_(spec.units[static_cast<size_t>(unit)].layer) {}

  void embed(const EmbedSpec& u, EmbedWeights& w) const {
    table("embed.tokens", &HfNames::tokens, {u.vocab, u.width}, w.tokens);
    if (u.positions) table("embed.positions", &HfNames::positions, {u.positions, u.width}, w.positions);
    if (u.token_types) table("embed.token_types", &HfNames::token_types, {u.token_types, u.width}, w.token_types);
    norm("embed.norm", &HfNames::embed_norm, u.norm, w.norm);
  }
  void head(const HeadSpec& u, HeadWeights& w) const {
    norm("head.norm", &HfNames::final_norm, u.norm, w.norm);
    if (!u.tied) linear("head.projection", &HfNames::projection, false, w.projection);
  }

  void table(const std::string& name, HfPart part, Shape shape, Tensor& at) const {
    // Tables decay like matrices, as in PyTorch's usual grouping by rank.
    if (visit_) visit_({name, shape, unit_, true, false, 0, names(part, "weight", shape)}, at);
  }
  void norm(const std::string& prefix, HfPart part, const NormSpec& n, NormWeights& at) const {
    if (!n.present() || !visit_) return;
    const Shape shape{n.width};
    visit_({prefix + ".weight", shape, unit_, false, true, 1 - n.offset, names(part, "weight", shape)}, at.weight);
    if (n.kind == NormKind::layer)
      visit_({prefix + ".bias", shape, unit_, false, false, 0, names(part, "bias", shape)}, at.bias);
  }
  void linear(const std::string& prefix, HfPart part, bool has_bias, Linear& at, int64_t expert = 0) const {
    const Shape weight{at.out, at.in}, bias{at.out};
    const ParameterInfo info{prefix + ".weight", weight, unit_, true, false, 0, names(part, "weight", weight, expert)};
    visit_linear_(info, at);
    if (visit_) visit_(info, dense_rows(at));
    if (has_bias && visit_)
      visit_({prefix + ".bias", bias, unit_, false, false, 0, names(part, "bias", bias, expert)}, at.bias);
    if (visit_adapter_) branches(prefix, at);
  }
  void branches(const std::string& prefix, Linear& at) const {
    for (Branch& b : at.branches) {
      const std::string name = prefix + ".branches." + std::string(name_of(b.module));
      visit_adapter_({name + ".a", {b.rank, at.in / b.pool}, unit_, true, false, 0, {}}, b.a);
      visit_adapter_({name + ".b", {(b.row_end - b.row_begin) / b.repeat, b.rank}, unit_, true, false, 0, {}}, b.b);
      if (b.has_magnitude)
        visit_adapter_({name + ".magnitude", {b.row_end - b.row_begin}, unit_, false, false, 0, {}}, b.magnitude);
      if (b.is_elastic) visit_adapter_({name + ".elastic", {2}, unit_, false, false, 0, {}}, b.elastic);
    }
  }
  void attention(const std::string& prefix, const AttentionSpec& u, AttentionWeights& w) const {
    norm(prefix + ".norm", &HfNames::attention_norm, u.norm, w.norm);
    if (u.latent.present())
      latent(prefix, u, w.latent);
    else
      linear(prefix + ".qkv", &HfNames::qkv, u.qkv_bias, w.qkv);
    if (u.head_norm != HeadNormKind::none) {
      norm(prefix + ".query_norm", &HfNames::query_norm, query_norm_of(u), w.query_norm);
      norm(prefix + ".key_norm", &HfNames::key_norm, key_norm_of(u), w.key_norm);
    }
    if (u.sinks && visit_) {
      const Shape shape{u.heads};
      visit_({prefix + ".sinks", shape, unit_, false, false, 0, names(&HfNames::sinks, "", shape)}, w.sinks);
    }
    linear(prefix + ".out", &HfNames::attention_out, u.out_bias, w.out);
    norm(prefix + ".join_norm", &HfNames::attention_post_norm, u.join.norm, w.join_norm);
  }
  void latent(const std::string& prefix, const AttentionSpec& u, LatentWeights& w) const {
    const LatentSpec& l = u.latent;
    if (l.query_rank > 0) {
      linear(prefix + ".query_down", &HfNames::query_down, u.qkv_bias, w.query_down);
      norm(prefix + ".query_norm", &HfNames::query_norm, l.norm(l.query_rank), w.query_norm);
    }
    linear(prefix + ".query_up", l.query_rank > 0 ? &HfNames::query_up : &HfNames::query, false, w.query_up);
    linear(prefix + ".kv_down", &HfNames::kv_down, u.qkv_bias, w.kv_down);
    norm(prefix + ".kv_norm", &HfNames::kv_norm, l.norm(l.kv_rank), w.kv_norm);
    linear(prefix + ".kv_up", &HfNames::kv_up, false, w.kv_up);
  }
  void mlp(const std::string& prefix, const MlpSpec& u, bool own_norm, MlpWeights& w) const {
    if (own_norm) norm(prefix + ".norm", &HfNames::mlp_norm, u.norm, w.norm);
    linear(prefix + ".up", &HfNames::up, u.bias, w.up);
    linear(prefix + ".down", &HfNames::down, u.bias, w.down);
    norm(prefix + ".join_norm", &HfNames::mlp_post_norm, u.join.norm, w.join_norm);
  }

  void moe(const std::string& prefix, const MoeSpec& u, MoeWeights& w) const {
    norm(prefix + ".norm", &HfNames::mlp_norm, u.norm, w.norm);
    linear(prefix + ".router", &HfNames::router, u.router_bias, w.router);
    if (u.choice_bias) {
      const Shape shape{u.experts};
      visit_fixed_({prefix + ".choice_bias", shape, unit_, false, false, 0,
                    names(&HfNames::router, "e_score_correction_bias", shape)},
                   w.choice_bias);
    }
    for (size_t e = 0; e < w.up.size(); ++e) {
      const std::string expert = prefix + ".experts." + std::to_string(e);
      linear(expert + ".up", &HfNames::expert_up, u.expert_bias, w.up[e], static_cast<int64_t>(e));
      linear(expert + ".down", &HfNames::expert_down, u.expert_bias, w.down[e], static_cast<int64_t>(e));
    }
    if (u.shared_hidden == 0) return;
    linear(prefix + ".shared.up", &HfNames::shared_up, false, w.shared_up);
    linear(prefix + ".shared.down", &HfNames::shared_down, false, w.shared_down);
    if (u.shared_gate) linear(prefix + ".shared_gate", &HfNames::shared_gate, false, w.shared_gate);
  }

 private:
  std::vector<Fragment> names(HfPart part, std::string_view suffix, const Shape& shape, int64_t expert = 0) const {
    return file_names(spec_, layer_, part, suffix, shape[0], expert);
  }
  const ModelSpec& spec_;
  const Visit &visit_, &visit_adapter_, &visit_fixed_;
  const VisitLinear& visit_linear_;
  int unit_, layer_;
};

void visit_unit(const ModelSpec& spec, int index, UnitWeights& w, const UnitVisitor::Visits& visits) {
  const Unit& unit = spec.units.at(static_cast<size_t>(index));
  const UnitVisitor v(spec, visits, index);
  const std::string layer = "layers." + std::to_string(unit.layer);
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec)) v.embed(*u, std::get<EmbedWeights>(w));
  if (const auto* u = std::get_if<HeadSpec>(&unit.spec)) v.head(*u, std::get<HeadWeights>(w));
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec))
    v.attention(layer + ".attention", *u, std::get<AttentionWeights>(w));
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec)) v.mlp(layer + ".mlp", *u, true, std::get<MlpWeights>(w));
  if (const auto* u = std::get_if<MoeSpec>(&unit.spec)) v.moe(layer + ".moe", *u, std::get<MoeWeights>(w));
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec)) {
    auto& both = std::get<ParallelWeights>(w);
    v.attention(layer + ".attention", u->attention, both.attention);
    v.mlp(layer + ".mlp", u->mlp, !u->shared_norm, both.mlp);
  }
}

void visit_units(const ModelSpec& spec, ModelWeights& w, const UnitVisitor::Visits& visits) {
  TERN_CHECK(w.units.size() == spec.units.size(), "weights of {} units, the model has {}", w.units.size(),
             spec.units.size());
  for (size_t i = 0; i < w.units.size(); ++i) visit_unit(spec, static_cast<int>(i), w.units[i], visits);
}

}  // namespace

void for_each_parameter(const ModelSpec& spec, ModelWeights& w,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  visit_units(spec, w, {.parameter = visit});
}

void for_each_parameter(const ModelSpec& spec, int unit, UnitWeights& w,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  visit_unit(spec, unit, w, {.parameter = visit});
}

void for_each_fixed(const ModelSpec& spec, ModelWeights& w,
                    const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  visit_units(spec, w, {.fixed = visit});
}

void for_each_linear(const ModelSpec& spec, ModelWeights& w,
                     const std::function<void(const ParameterInfo&, Linear&)>& visit) {
  visit_units(spec, w, {.linear = visit});
  if (!spec.head().tied) return;
  const ParameterInfo table = parameters(spec).front();
  visit(table, head_of(w).projection);
}

std::vector<ParameterInfo> parameters(const ModelSpec& spec) {
  std::vector<ParameterInfo> infos;
  ModelWeights none = empty_weights(spec);
  for_each_parameter(spec, none, [&](const ParameterInfo& info, Tensor&) { infos.push_back(info); });
  return infos;
}

void for_each_adapter(const ModelSpec& spec, ModelWeights& w,
                      const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  visit_units(spec, w, {.adapter = visit});
}

void for_each_trained(const ModelSpec& spec, ModelWeights& w,
                      const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  const std::function<void(const ParameterInfo&, Tensor&)> none;
  for (size_t i = 0; i < w.units.size(); ++i)
    visit_unit(spec, static_cast<int>(i), w.units[i],
               {.parameter = spec.units.at(i).frozen ? none : visit, .adapter = visit});
}

std::vector<ParameterInfo> trained_parameters(const ModelSpec& spec) {
  std::vector<ParameterInfo> infos;
  ModelWeights none = empty_weights(spec);
  for_each_trained(spec, none, [&](const ParameterInfo& info, Tensor&) { infos.push_back(info); });
  return infos;
}

std::vector<Tensor*> trained_tensors(const ModelSpec& spec, ModelWeights& weights) {
  std::vector<Tensor*> all;
  for_each_trained(spec, weights, [&](const ParameterInfo&, Tensor& t) { all.push_back(&t); });
  return all;
}

std::vector<Tensor*> tensors(const ModelSpec& spec, ModelWeights& weights) {
  std::vector<Tensor*> all;
  for_each_parameter(spec, weights, [&](const ParameterInfo&, Tensor& t) { all.push_back(&t); });
  return all;
}

}  // namespace tern
