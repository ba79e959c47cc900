#include "eval/gated_losses.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "eval/batch_rows.h"
#include "eval/task_run.h"
#include "model/not_finite.h"

namespace tern {
namespace {

bool any_scored(std::span<const int32_t> targets) {
  return std::ranges::any_of(targets, [](int32_t target) { return target >= 0; });
}

// What the forwards of one text have in common.
struct TextForward {
  const ModelSpec& spec;
  const RopeTable* rope;
  std::optional<KvType> kv;
  const Compute& compute;
};

Tensor hidden_rows(const TextForward& f, const ModelWeights& weights, std::span<const int32_t> tokens) {
  Rows rows = make_rows(tokens, {0, std::ssize(tokens)}, f.rope);
  rows.kv = f.kv;
  return model_forward(f.spec, weights, rows, nullptr, f.compute);
}

// Σ −log p of the scored targets of one text; nothing runs without one.
double text_loss(const TextForward& f, const ModelWeights& weights, std::span<const int32_t> tokens,
                 std::span<const int32_t> targets) {
  if (!any_scored(targets)) return 0;
  const Tensor hidden = hidden_rows(f, weights, tokens);
  double sum = 0;
  for (const double loss : head_losses(f.spec, weights, hidden, targets, f.compute)) sum += loss;
  return sum;
}

// Tokens of a text that set its gates; all before the last of them are predicted without gates.
size_t prompt_length(const GatedAdapter& gated, std::span<const int32_t> tokens) {
  return std::min(tokens.size(), static_cast<size_t>(gated.prompt_tokens));
}

std::span<const int32_t> before_scored(const Window& w) {
  return std::span(w.tokens).first(static_cast<size_t>(w.first_scored));
}

}  // namespace

std::vector<double> gated_window_losses(size_t first, const ModelSpec& spec, const ModelWeights& weights,
                                        const GatedAdapter& gated, const std::vector<Window>& windows,
                                        const std::vector<std::vector<uint8_t>>& masks, Arena& arena,
                                        const OnLosses& on_losses, std::optional<KvType> kv) {
  const WindowBatches batches(windows, masks, 1);
  batches.check(spec);
  const RopeTable table = batches.rope(spec);
  const Compute compute{arena, Multiply::exact};
  const TextForward forward{spec, spec.rope.kind == RopeKind::none ? nullptr : &table, kv, compute};
  ModelWeights strong = weights;  // handles; their branches act on every row, `weights`' own on none
  const GatedBranches branches(spec, strong, 0);
  std::vector<double> losses;
  for (; first < windows.size(); ++first) {
    BatchRows b = batches.rows(first);
    const std::span<const int32_t> tokens(b.tokens);
    const size_t prompt = prompt_length(gated, tokens), alone = prompt - 1;
    double sum = text_loss(forward, weights, tokens.first(alone), std::span(b.targets).first(alone));
    std::fill_n(b.targets.begin(), alone, -1);
    if (any_scored(b.targets)) {
      branches.set(gates_of(gated, spec, weights, tokens.first(prompt)));
      sum += text_loss(forward, strong, tokens, b.targets);
    }
    if (!std::isfinite(sum))
      throw NotFinite(
          "eval: the loss of window {} is not finite, though the model's weights may be: its scores leave the range "
          "of the type it computes in; try --dtype f32",
          first + 1);
    losses.push_back(sum);
    if (!on_losses(first, std::span(losses).last(1)))
      throw Error(ErrorKind::interrupted, "eval: stopped on request after {} of {} windows", first + 1, windows.size());
  }
  return losses;
}

std::vector<double> gated_choice_losses(const ModelSpec& spec, const ModelWeights& weights, const GatedAdapter& gated,
                                        const std::vector<Window>& windows, int64_t batch, Arena& arena,
                                        std::optional<KvType> kv) {
  ModelWeights strong = weights;
  const GatedBranches branches(spec, strong, 0);
  std::vector<double> losses;
  for (auto begin = windows.begin(); begin != windows.end();) {
    const std::span<const int32_t> prompt = before_scored(*begin);
    const auto end = std::find_if(begin, windows.end(),
                                  [&](const Window& w) { return !std::ranges::equal(before_scored(w), prompt); });
    branches.set(gates_of(gated, spec, weights, prompt));
    const std::vector<double> part = ragged_losses(spec, strong, {begin, end}, batch, arena, kv);
    losses.insert(losses.end(), part.begin(), part.end());
    begin = end;
  }
  return losses;
}

GatedTexts::GatedTexts(const ModelSpec& spec, const ModelWeights& weights, const GatedAdapter& gated)
    : spec_(spec), weights_(weights), gated_(gated), strong_(weights), branches_(spec, strong_, 0) {}

Tensor GatedTexts::forward(std::span<const int32_t> tokens, const RopeTable* rope, std::optional<KvType> kv,
                           const Compute& compute) const {
  const TextForward f{spec_, rope, kv, compute};
  const size_t prompt = prompt_length(gated_, tokens), alone = prompt - 1;
  branches_.set(gates_of(gated_, spec_, weights_, tokens.first(prompt)));
  Tensor hidden = hidden_rows(f, strong_, tokens);
  if (alone == 0) return hidden;
  const Tensor as_it_came = hidden_rows(f, weights_, tokens.first(alone));
  std::memcpy(hidden.data(), as_it_came.data(), static_cast<size_t>(as_it_came.bytes()));
  return hidden;
}

}  // namespace tern
