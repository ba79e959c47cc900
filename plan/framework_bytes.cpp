#include "plan/framework_bytes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rounding.h"

namespace tern {
namespace {

// cuBLAS's and Transformer Engine's own, on an H100: 32 MiB each, for two streams of the one and one of the other.
constexpr int64_t kLibraryWorkspace = int64_t{96} << 20;
// TorchTitan reports what PyTorch's allocator reserves. Holes in it: chosen once, so that FSDP over 8 devices with
// 32,768 tokens takes the 83.9 GiB that were published (docs/framework-memory.md).
constexpr double kReserved = 1.18;

// One rank's view: T rows, of which a tensor rank has N outside attention and MLP.
struct Rows {
  const CostQuery& query;
  const FrameworkRun& run;
  int64_t s() const { return size_of(query.dtype); }
  int64_t T() const { return query.tokens; }
  int64_t t() const { return query.tensor; }
  int64_t N() const { return run.sequence_parallel ? ceil_div(T(), t()) : T(); }
  bool gathers() const { return run.sequence_parallel && t() > 1; }
  int64_t part(int64_t width) const { return ceil_div(width, t()); }
  int64_t mask(int64_t width) const { return run.dropout ? N() * width : 0; }  // a byte a number
};

// Of a token: queries, keys and values on a rank; as many rows of keys as of queries where they are repeated.
int64_t queries(const Rows& r, const AttentionSpec& a) { return r.part(a.heads) * a.head_dim; }
int64_t keys(const Rows& r, const AttentionSpec& a) { return r.part(a.kv_heads) * a.head_dim; }
int64_t values_out(const Rows& r, const AttentionSpec& a) { return r.part(a.heads) * (a.value_rows() / a.heads); }
// Of fused attention: the logarithm of each row's sum, f32. Else the probabilities, those after dropout and its mask.
int64_t scores(const Rows& r, const AttentionSpec& a) {
  const int64_t rows = r.T() * r.part(a.heads);
  if (r.run.fused_attention) return 4 * rows;
  const int64_t pairs = a.causal ? 2 * r.query.attended_pairs : r.query.attended_pairs;  // the whole square is kept
  return pairs * r.part(a.heads) * (r.run.dropout ? 2 * r.s() + 1 : r.s());
}

// x is its input. Kept beside it: norm(x), queries, keys, values, what attention gives, a mask of dropout.
// Its backward has the gradients of these on its way, and rows that were gathered.
FrameworkUnit megatron_attention(const Rows& r, const AttentionSpec& a) {
  const int64_t s = r.s(), q = queries(r, a), kv = 2 * keys(r, a), o = values_out(r, a);
  FrameworkUnit u{.output = r.N() * a.width * s};
  u.saved = r.N() * a.width * s + r.T() * (q + kv + o) * s + scores(r, a) + r.mask(a.width);
  u.workspace = r.T() * (q + kv + o + (r.gathers() ? a.width : 0)) * s;
  return u;
}

// norm(x), both halves of a gated product or what a plain one gives, the activation's result, a mask.
FrameworkUnit megatron_mlp(const Rows& r, const MlpSpec& m) {
  const int64_t s = r.s(), hidden = r.part(m.hidden), first = m.gated ? 2 * hidden : hidden;
  FrameworkUnit u{.output = r.N() * m.width * s};
  u.saved = r.N() * m.width * s + r.T() * (first + hidden) * s + r.mask(m.width);
  u.workspace = r.T() * (first + hidden + (r.gathers() ? m.width : 0)) * s;
  return u;
}

// Rows that experts of this rank compute, sorted by expert: as they came, both products, the activation's result.
FrameworkUnit megatron_experts(const Rows& r, const MoeSpec& e) {
  const int64_t s = r.s(), rows = expert_rows(e, r.query);
  const int64_t hidden = ceil_div(e.hidden, r.query.expert_tensor), first = e.gated ? 2 * hidden : hidden;
  FrameworkUnit u{.output = r.N() * e.width * s};
  u.saved = r.N() * (e.width * s + e.experts * 4) + rows * (2 * e.width + first + hidden) * s;
  u.workspace = rows * (e.width + first + hidden) * s;
  if (e.shared_hidden > 0) {
    const FrameworkUnit shared = megatron_mlp(r, e.shared());
    u.saved += shared.saved - r.N() * e.width * s, u.workspace += shared.workspace;
  }
  return u;
}

// Logits in the type of the weights while they are made and while their gradient is; in f32 from loss to backward.
FrameworkUnit megatron_head(const Rows& r, const HeadSpec& h) {
  const int64_t s = r.s(), logits = r.T() * r.part(h.vocab);
  return {.saved = r.N() * h.width * s + 4 * logits, .workspace = logits * s + (r.gathers() ? r.T() * h.width * s : 0)};
}

// Numbers of a token in whole rows, where ranks of a tensor group work on them: the gathered gradient of what a block
// gives, and of several products that read one input the gradients on their way to be summed.
int64_t titan_whole_rows(const Rows& r, int64_t width) { return r.t() > 1 ? 3 * width : width; }

// A column split of a product keeps the gathered rows, on every rank.
FrameworkUnit titan_attention(const Rows& r, const AttentionSpec& a) {
  const int64_t s = r.s(), q = queries(r, a), o = values_out(r, a);  // keys and values are repeated for every query
  FrameworkUnit u{.output = r.N() * a.width * s};
  u.saved = r.T() * (a.width + 3 * q + o) * s + scores(r, a);
  u.workspace = r.T() * (3 * q + o + titan_whole_rows(r, a.width)) * s;
  return u;
}
// norm(x), gate, up, the gate's activation, and its product with up.
FrameworkUnit titan_mlp(const Rows& r, const MlpSpec& m) {
  const int64_t s = r.s(), hidden = r.part(m.hidden);
  FrameworkUnit u{.output = r.N() * m.width * s};
  u.saved = r.T() * (m.width + 4 * hidden) * s;
  u.workspace = r.T() * (3 * hidden + titan_whole_rows(r, m.width)) * s;
  return u;
}
// Logits in the weights' type, in f32, their log-softmax, and at its backward a gradient of either type.
FrameworkUnit titan_head(const Rows& r, const HeadSpec& h) {
  const int64_t s = r.s(), logits = r.T() * r.part(h.vocab);
  return {.saved = r.T() * h.width * s + logits * (s + 4), .workspace = logits * (4 + s)};
}

FrameworkUnit unit_of(Framework f, const Unit& unit, const Rows& r) {
  const bool titan = f == Framework::torchtitan;
  if (const auto* a = std::get_if<AttentionSpec>(&unit.spec))
    return titan ? titan_attention(r, *a) : megatron_attention(r, *a);
  if (const auto* m = std::get_if<MlpSpec>(&unit.spec)) return titan ? titan_mlp(r, *m) : megatron_mlp(r, *m);
  if (const auto* e = std::get_if<MoeSpec>(&unit.spec)) return megatron_experts(r, *e);
  if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) return titan ? titan_head(r, *h) : megatron_head(r, *h);
  if (const auto* e = std::get_if<EmbedSpec>(&unit.spec))
    return {.saved = r.mask(e->width), .output = r.N() * e->width * r.s()};
  TERN_CHECK(false, "framework_unit: {} runs no such unit", name_of(f));
  return {};
}

}  // namespace

bool has_own_bytes(Framework f) { return f == Framework::megatron || f == Framework::torchtitan; }

FrameworkUnit framework_unit(Framework f, const Unit& unit, const CostQuery& query, const FrameworkRun& run) {
  FrameworkUnit u = unit_of(f, unit, {query, run});
  u.workspace += kLibraryWorkspace;
  if (f != Framework::torchtitan) return u;
  const auto reserved = [](int64_t& bytes) {
    bytes = static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * kReserved));
  };
  reserved(u.saved), reserved(u.workspace);
  return u;
}

SharedBytes framework_states(Framework f, const TrainJob& job, const SharedBytes& ours, int64_t parameters, int zero) {
  // FSDP's weights are its masters: f32, shared out, cast when they are gathered. Kept gathered: beside these.
  if (f != Framework::torchtitan || zero < 2 || size_of(job.dtype) == 4) return ours;
  SharedBytes b = ours;
  b.states -= 4 * b.shard;
  b.weights = 4 * b.shard + (zero == 2 ? parameters * size_of(job.dtype) : 0);
  return b;
}

}  // namespace tern
