#include "apps/weights_options.h"

#include "base/error.h"
#include "base/options.h"
#include "base/system.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "kernels/dispatch.h"

namespace tern {

bool copy_pays(int64_t tokens, const MemoryFacts& memory, const InferenceFit& fit) {
  // What the copy costs and gains: --weights in benchmarks/reports/inference_xeon2_2026-11-22.md.
  const bool pages = memory.transparent_huge_pages == "always" || memory.transparent_huge_pages == "madvise";
  return tokens >= kTokensToCopyFor && pages && memory.available_bytes - fit.total() >= fit.weights;
}

namespace {

std::string text_or(const Options& options, std::string_view name, std::string_view otherwise) {
  return options.knows(name) ? options.text(name) : std::string(otherwise);
}

}  // namespace

std::string weights_option(const Options& options) { return text_or(options, "weights", "auto"); }
bool in_integers(const Options& options) { return text_or(options, "arithmetic", "kept") == "int8"; }

CodedBytes coded_for_integers(const ModelDescription& model) {
  if (!holds_coded(model.spec, model.dir.path))
    throw Error(ErrorKind::usage,
                "--arithmetic int8: multiplies coded weights, {} holds none; tern quantize writes some",
                model.dir.path);
  CodedBytes coded = coded_bytes(model.spec, model.dir.path, model.dtype, WeightsIn::coded_int8);
  if (coded.empty())
    throw Error(ErrorKind::usage,
                "--arithmetic int8: no matrix of {} stays as it is coded there, computed in {} by {}; --dtype f32, or "
                "leave it out",
                model.dir.path, name_of(model.dtype), name_of(active_isa()));
  return coded;
}

CodedBytes stays_coded(const Options& options, const ModelDescription& model, const InferenceNeeds& needs,
                       const MemoryBudget& budget) {
  const std::string how = weights_option(options);
  if (in_integers(options)) {
    if (how == "copied")
      throw Error(ErrorKind::usage,
                  "--weights copied: decodes what --arithmetic int8 multiplies as it is coded; leave one of them out");
    return coded_for_integers(model);
  }
  if (how == "copied") return {};
  if (how == "auto") return coded_to_fit(model, needs, budget);
  CodedBytes coded = coded_bytes(model.spec, model.dir.path, model.dtype);
  if (coded.empty() && holds_coded(model.spec, model.dir.path))
    throw Error(ErrorKind::usage,
                "--weights mapped: no matrix of this file can stay as it is coded there, computed in {} by {}: none is "
                "shorter than its numbers in {}, or the kernels read only those; leave --weights out",
                name_of(model.dtype), name_of(active_isa()), name_of(model.dtype));
  return coded;
}

WeightsPlace weights_in(const Options& options, const ModelDescription& model, const InferenceFit& fit, int64_t tokens,
                        const CodedBytes& coded) {
  if (!coded.empty()) return {in_integers(options) ? WeightsIn::coded_int8 : WeightsIn::coded_file, "coded"};
  constexpr WeightsPlace kMapped{WeightsIn::mapped_file, "mapped"}, kCopied{WeightsIn::own_memory, "copied"};
  const std::string how = weights_option(options);
  if (holds_coded(model.spec, model.dir.path)) return {WeightsIn::own_memory, "packed"};
  if (!reads_in_place(model.spec, model.dir.path, model.dtype)) {
    if (how != "auto")
      throw Error(ErrorKind::usage,
                  "--weights {}: the weights are packed here: only bf16 kernels on tiles (amx_bf16) read them as they "
                  "lie, from safetensors in bf16; computed in {} by {}; leave --weights out",
                  how, name_of(model.dtype), name_of(active_isa()));
    return {WeightsIn::own_memory, "packed"};
  }
  if (how != "auto") return how == "mapped" ? kMapped : kCopied;
  return copy_pays(tokens, read_memory_facts(), fit) ? kCopied : kMapped;
}

}  // namespace tern
