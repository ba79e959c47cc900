#include "infer/memory_fit.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "base/units.h"
#include "infer/kv_on_disk.h"
#include "kernels/cpu/matmul.h"
#include "model/allocate_weights.h"
#include "model/rope_table.h"
#include "model/thread_memory.h"
#include "model/visit_weights.h"
#include "spec/unit_cost.h"

namespace tern {

KvShape kv_shape(const ModelSpec& spec, DType computed, const InferenceNeeds& needs) {
  return kv_shape(spec, needs.page_tokens, needs.kv.value_or(kv_type_of(computed)));
}

int64_t kv_pages(const InferenceNeeds& needs) {
  return needs.sequences * ((needs.context + needs.page_tokens - 1) / needs.page_tokens);
}

int64_t iteration_tokens(int64_t prompt, int64_t chunk, int64_t sequences) {
  return std::min(prompt, chunk) + (sequences == 1 ? 0 : sequences);
}

CodedBytes coded_to_fit(const ModelDescription& model, const InferenceNeeds& needs, const MemoryBudget& budget) {
  if (inference_fit(model.spec, model.dtype, needs).total() <= budget.bytes) return {};
  return coded_bytes(model.spec, model.dir.path, model.dtype);
}

namespace {

// Of products with an adapter's matrices, which are not packed beforehand.
ScratchBytes adapter_scratch(const Unit& unit, DType dtype) {
  if (unit.adapters.empty() || dtype == DType::f64 || reads_plain_weights(dtype)) return {};
  return [&unit, dtype](ProductKind, int64_t, int64_t n, int64_t k) -> int64_t {
    const bool is_adapter =
        std::ranges::any_of(unit.adapters, [&](const ModuleAdapter& a) { return a.rank == n || a.rank == k; });
    return is_adapter ? packed_bytes(dtype, n, k) : 0;
  };
}

// The weights of all of them; a forward needs most where all its rows are of one.
void add_adapters_beside(InferenceFit& fit, DType dtype, const InferenceNeeds& needs, const CodedBytes& coded) {
  InferenceNeeds alone = needs;
  alone.adapters = {};
  const InferenceFit base = fit;
  for (const NamedAdapter& adapter : needs.adapters) {
    const InferenceFit with = inference_fit(adapter.spec, dtype, alone, coded);
    fit.adapters += with.weights - base.weights;
    fit.activations = std::max(fit.activations, with.activations);
    fit.last = std::max(fit.last, with.last);
    fit.beside = std::max(fit.beside, with.beside);
  }
  fit.weights += fit.adapters;
  fit.loading_peak = std::max(fit.loading_peak, fit.weights);
}

}  // namespace

InferenceFit inference_fit(const ModelSpec& spec, DType dtype, const InferenceNeeds& needs, const CodedBytes& coded) {
  InferenceFit fit;
  const int64_t size = size_of(dtype);
  // Where weights are packed, both copies of the one at hand exist for a moment, and a tied table stays plain.
  fit.weights = num_parameters(spec) * size + num_fixed_numbers(spec) * std::max<int64_t>(size, 4);
  if (!coded.empty())
    for (const ParameterInfo& info : parameters(spec))
      if (const auto at = coded.find(info.name); at != coded.end())
        fit.weights += at->second - info.shape[0] * info.shape[1] * size;
  fit.loading_peak = fit.weights;
  if (dtype != DType::f64 && !reads_plain_weights(dtype)) {
    ModelWeights shapes = empty_weights(spec);
    for_each_linear(spec, shapes, [&](const ParameterInfo& info, const Linear& linear) {
      if (coded.contains(info.name)) return;
      const int64_t packed = packed_bytes(dtype, linear.out, linear.in);
      const bool stays = spec.head().tied && &linear == &head_of(shapes).projection;
      fit.loading_peak = std::max(fit.loading_peak, fit.weights + packed);
      fit.weights += packed - (stays ? 0 : linear.out * linear.in * size);
    });
  }
  fit.kv_cache = kv_memory_bytes(kv_shape(spec, dtype, needs), kv_pages(needs), needs.kv_on_disk);
  const bool evaluates = needs.sequences == 0;
  int64_t input = 0;
  for (const Unit& unit : spec.units) {
    const UnitCost cost = unit_cost(unit, {.tokens = needs.iteration_tokens,
                                           .attended_pairs = 0,  // of FLOPs, not of bytes
                                           .dtype = dtype,
                                           .scratch = adapter_scratch(unit, dtype)});
    if (!std::holds_alternative<HeadSpec>(unit.spec)) {
      fit.activations = std::max(fit.activations, input + cost.output_bytes + cost.unsaved_workspace);
      fit.last = input = cost.output_bytes;
    } else if (evaluates) {
      fit.logits = cost.unsaved_workspace;  // a tile of them at a time
      if (needs.vectors) fit.logits = spec.head().norm.present() ? needs.iteration_tokens * spec.width * size : 0;
    }
  }
  if (!evaluates) {
    fit.logits = needs.logit_rows * spec.vocab * (dtype == DType::f64 ? 8 : 4);
    fit.last += 2 * needs.logit_rows * spec.head().width * size;  // gathered, and normed (head_logits)
    // By each thread that draws: a row rounded, with penalties; its candidates, and a sorted copy.
    fit.sampler = std::min<int64_t>(num_compute_threads(), needs.logit_rows) * spec.vocab * (2 * 4 + 2 * 16);
  }
  const ThreadWork work{
      .dtype = dtype, .tokens = needs.iteration_tokens, .sequence = needs.context, .in_integers = needs.in_integers};
  fit.beside =
      thread_memory(spec, work).total() + rope_table_bytes(spec, needs.positions > 0 ? needs.positions : needs.context);
  if (needs.kv_on_disk > 0) fit.beside += kv_thread_bytes();
  add_adapters_beside(fit, dtype, needs, coded);
  return fit;
}

std::string memory_remedy(const MemoryBudget& budget, int64_t needed) {
  if (budget.program < 0 || needed > read_memory_facts().available_bytes) return "";
  constexpr int64_t kMiB = int64_t{1} << 20;  // one more: the program's own share is an estimate
  const double least = static_cast<double>(needed + budget.program) / (1 - budget.elsewhere);
  return fmt::format("--memory {}MiB", static_cast<int64_t>(least) / kMiB + 2);
}

namespace {

// The nearest settings that fit, a line each.
std::vector<std::string> settings_that_fit(const ModelSpec& spec, DType dtype, const InferenceNeeds& needs,
                                           int64_t memory_bytes, const CodedBytes& coded) {
  std::vector<std::string> fits;
  const auto consider = [&](const InferenceNeeds& other, DType type, const std::string& flags) {
    const InferenceFit f = inference_fit(spec, type, other, type == dtype ? coded : CodedBytes{});
    if (f.total() <= memory_bytes && fits.size() < 3)
      fits.push_back(fmt::format("  {} ({})", flags, format_bytes(f.total())));
  };
  const bool evaluates = needs.sequences == 0;  // windows without a cache: --batch of them at a time
  InferenceNeeds one = needs;
  if (evaluates) {
    one.iteration_tokens = needs.context;
    if (one.iteration_tokens < needs.iteration_tokens) consider(one, dtype, "--batch 1");
  } else {
    one.sequences = one.logit_rows = 1;
    if (needs.sequences > 1) consider(one, dtype, "--samples 1");
  }
  for (InferenceNeeds shorter = one; shorter.context > 64;) {
    shorter.context /= 2;
    if (evaluates) shorter.iteration_tokens = shorter.context;
    if (inference_fit(spec, dtype, shorter, coded).total() > memory_bytes) continue;
    consider(shorter, dtype,
             evaluates ? fmt::format("--batch 1 --window {}: another measure, not comparable", shorter.context)
                       : fmt::format("--context {}{} (shorter prompt and --max-tokens)", shorter.context,
                                     needs.sequences > 1 ? " --samples 1" : ""));
    break;
  }
  if (size_of(dtype) > 2) {
    consider(needs, DType::bf16, "--dtype bf16");
    if (evaluates)
      consider(one, DType::bf16, "--dtype bf16 --batch 1");
    else if (needs.sequences > 1)
      consider(one, DType::bf16, "--dtype bf16 --samples 1");
  }
  if (!needs.kv && !evaluates) {
    InferenceNeeds narrow = needs;
    narrow.kv = KvType::q8;
    consider(narrow, dtype, "--kv-dtype q8");
  }
  return fits;
}

}  // namespace

void check_fit(const ModelSpec& spec, DType dtype, const InferenceNeeds& needs, const MemoryBudget& budget,
               const CodedBytes& coded) {
  const int64_t memory_bytes = budget.bytes;
  // The closed forms are of 64 bits; a configuration or an option may ask for more than they count.
  if (static_cast<double>(kv_pages(needs)) * static_cast<double>(kv_shape(spec, dtype, needs).bytes_per_page()) >
      0x1p62)
    throw Error(ErrorKind::does_not_fit,
                "the key-value cache of {} sequences of {} tokens has more bytes than tern can count; lower --samples "
                "or --context",
                needs.sequences, needs.context);
  const InferenceFit fit = inference_fit(spec, dtype, needs, coded);
  if (fit.total() <= memory_bytes) return;
  std::string what = fmt::format(
      "the model does not fit: it needs {}, there are {} ({})\n  weights {}{}, key-value cache {} ({} sequences of {} "
      "tokens), "
      "activations and logits {}; while loading {}; threads and tables {}\n",
      format_bytes(fit.total()), format_bytes(memory_bytes), budget.source, format_bytes(fit.weights),
      fit.adapters > 0 ? fmt::format(" ({} of adapters)", format_bytes(fit.adapters)) : "", format_bytes(fit.kv_cache),
      needs.sequences, needs.context, format_bytes(fit.running() + fit.sampler), format_bytes(fit.loading_peak),
      format_bytes(fit.beside));
  std::vector<std::string> fits = settings_that_fit(spec, dtype, needs, memory_bytes, coded);
  if (const std::string more = memory_remedy(budget, fit.total()); !more.empty())
    fits.push_back(fmt::format("  {} or more", more));
  if (fits.empty())
    what += "  no setting of this model fits here; take a smaller model or a machine with more memory";
  else
    what += fmt::format("  what would fit:\n{}", fmt::join(fits, "\n"));
  throw Error(ErrorKind::does_not_fit, "{}", what);
}

}  // namespace tern
