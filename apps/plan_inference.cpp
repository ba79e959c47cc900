#include "apps/plan_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "apps/common.h"
#include "apps/given_options.h"
#include "apps/outputs.h"
#include "apps/plan_engine.h"
#include "apps/plan_keys.h"
#include "apps/plan_lines.h"
#include "apps/plan_question.h"
#include "apps/weights_options.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "infer/memory_fit.h"
#include "model/model_files.h"
#include "plan/emit.h"
#include "plan/emit_serving.h"
#include "planner/words/serving_refusal.h"

namespace tern {
namespace {

// Bytes as `tern generate` counts them on this machine: packed weights, the loading's peak.
InferenceFit engine_fit(const ModelSpec& spec, const InferenceJob& job, int64_t users) {
  return inference_fit(spec, job.dtype, engine_needs(job, users));
}

Json json_of(const InferenceFit& f) {
  return {{"weights", f.weights},           {"kv_cache", f.kv_cache},
          {"activations", f.activations},   {"logits", f.logits},
          {"loading_peak", f.loading_peak}, {"sampler", f.sampler},
          {"predicted_bytes", f.tensors()}, {"beside_bytes", f.beside}};
}

// --prompt-lengths and --output-lengths; what is not given as a file has one length.
std::shared_ptr<const RequestLengths> request_lengths(const Options& o) {
  if (!o.has("prompt-lengths") && !o.has("output-lengths")) return nullptr;
  const auto lengths = [&](std::string_view file, std::string_view number) {
    if (!o.has(file)) return sequence_lengths({{o.integer(number), 1}});
    if (o.given(number)) throw Error(ErrorKind::usage, "plan: --{} and --{}: give one of them", file, number);
    return read_sequence_lengths(o.text(file));
  };
  return std::make_shared<RequestLengths>(lengths("prompt-lengths", "prompt-tokens"),
                                          lengths("output-lengths", "max-tokens"));
}

StoredType stored_named(const std::string& name) {
  for (const StoredType t : {StoredType::f32, StoredType::bf16, StoredType::q8, StoredType::q4})
    if (name_of(t) == name) return t;
  return StoredType::bf16;
}

EmittedPlan emit_for_vllm(const ServingQuestion& q, const ServingPlan& plan, const std::string& path) {
  for (const NodeType& n : q.cluster.nodes) {
    if (n.name != plan.node) continue;
    EmittedPlan e = emit_serving(q.model, q.job, plan, q.cluster.devices[static_cast<size_t>(n.device)], n.num_devices);
    if (!path.empty()) {
      write_file_atomically(real_io(), path, e.text);
      log_info("wrote {}", path);
    }
    return e;
  }
  TERN_CHECK(false, "plan: no node '{}'", plan.node);
  return {};
}

// Whether `tern generate` reads the model's weights from its file there, as `--weights auto` has it: not where they are
// packed (a profile then has no rate of mapped ones), nor of another type, nor copied because the tokens pay for it.
bool reads_mapped(const ModelSpec& spec, const std::string& model, const Cluster& cluster, const InferenceJob& job) {
  const auto mapped = [&](const ReadRate& r) { return r.dtype == job.dtype && r.mapped > 0; };
  if (std::ranges::none_of(cluster.devices, [&](const DeviceType& d) { return std::ranges::any_of(d.reads, mapped); }))
    return false;
  if (job.answer * std::max<int64_t>(job.users, 1) >= kTokensToCopyFor) return false;
  const auto holds = [&](const char* name) { return real_io().stat(join_path(model, name)).has_value(); };
  if (holds("model.safetensors") || holds("model.safetensors.index.json"))
    return reads_in_place(spec, model, job.dtype);
  return !model.ends_with(".gguf");
}

void warn_of(const ServingQuestion& q, const ServingPlan& plan) {
  const InferenceJob& job = q.job;
  if (q.spec.context > 0 && job.context() > q.spec.context)
    log_warn("plan: {} tokens are beyond the {} positions that the model declares", format_with_commas(job.context()),
             format_with_commas(q.spec.context));
  if (job.ttft_s > 0 && job.tpot_s == 0 && plan.tpot_s > 1)
    log_warn("plan: without --tpot as many users are taken as memory holds, and each waits {} for a token; give --tpot",
             format_seconds(plan.tpot_s));
}

Json emitted_json(const EmittedPlan& e) {
  return {{"framework", "vllm"},        {"file", e.file},  {"text", e.text}, {"command", e.command},
          {"rank_order", e.rank_order}, {"notes", e.notes}};
}

std::string emitted_text(const EmittedPlan& e) {
  std::string text = fmt::format("\nvllm: {}\n{}ranks      {}\n", e.file, e.text, e.rank_order);
  for (const std::string& n : e.notes) text += fmt::format("note       {}\n", n);
  return text;
}

std::string fit_text(const InferenceFit& fit, const InferenceJob& job) {
  return fmt::format(
      "\nas `{} generate` counts it here{}: {} at most (weights {} as its kernels keep them, key-value "
      "cache {}, activations and logits {}; while loading {}), and {} for the sampler\n",
      program_name(), job.lengths ? ", every request as long as the longest" : "", format_bytes(fit.tensors()),
      format_bytes(fit.weights), format_bytes(fit.kv_cache), format_bytes(fit.running()),
      format_bytes(fit.loading_peak), format_bytes(fit.sampler));
}

// Errors: does_not_fit, with why keys and values on the disk would not do either.
[[noreturn]] void refuse_serving(const ServingQuestion& q, const ServingAnswer& answer, const std::string& why_not_disk,
                                 bool json) {
  const ServingRefusal refusal = serving_refusal(q, answer);
  if (why_not_disk.empty()) {
    if (json) print_out(refusal.json);
    throw refusal.error;
  }
  if (json) {
    Json told = parse_json(refusal.json, "refusal");
    told["keys_on_disk"] = why_not_disk;
    print_json(told);
  }
  throw Error(refusal.error.kind(), "{} Nor with keys and values on the disk: {}", refusal.error.what(), why_not_disk);
}

// The answer that is told, with the plan that has keys and values on the disk.
ServingAnswer told_answer(ServingAnswer answer, const PlannedKeys& keys) {
  answer.found = true, answer.plan = keys.plan, answer.most_users = keys.most_in_memory;
  answer.other.reset();
  return answer;
}

}  // namespace

InferenceJob inference_job(const Options& o, bool engine) {
  constexpr std::string_view kAllowed[]{"inference",    "hardware",   "nodes",          "prompt-tokens",  "max-tokens",
                                        "users",        "ttft",       "tpot",           "dtype",          "kv-dtype",
                                        "weight-dtype", "max-tensor", "max-stages",     "offload",        "emit",
                                        "emit-output",  "json",       "prompt-lengths", "output-lengths", "kv-place"};
  for (const auto& [training, instead] :
       {std::pair{"batch", "--users: sequences at once"}, std::pair{"seq", "--prompt-tokens and --max-tokens"},
        std::pair{"lengths", "--prompt-lengths and --output-lengths"}})
    if (o.given(training))
      throw Error(ErrorKind::usage, "plan: --{} is of training and says nothing about --inference; leave it out ({})",
                  training, instead);
  refuse_given_but(o, kAllowed, "is of training and says nothing about --inference; leave it out");
  if (!o.has("emit") && o.has("emit-output"))
    throw Error(ErrorKind::usage, "plan: --emit-output without --emit says nothing to write");
  const bool all_on_device = engine || o.text("emit") == "vllm";
  const std::string offload = o.given("offload") ? o.text("offload") : all_on_device ? "none" : "all";
  if (engine && offload != "none")
    throw Error(ErrorKind::usage,
                "plan: the cluster file has tern's own rates, and of this engine --kv-place says what may lie on the "
                "disk; leave "
                "--offload out");
  const Options::Value& place = o.value("kv-place");  // of the environment it is for other commands too
  const bool place_given = place.origin == Origin::command_line || place.origin == Origin::recipe;
  if (place_given && (!engine || o.has("emit")))
    throw Error(
        ErrorKind::usage,
        "plan: --kv-place is of tern's own engine, whose rates `tern profile` writes into a cluster file; leave it "
        "out{}",
        engine ? " or leave --emit out" : ": --offload says what may leave the device");
  if (offload != "none" && offload != "all")
    throw Error(ErrorKind::usage, "--offload {}: of training; with --inference all (weights, keys and values) or none",
                offload);
  const std::shared_ptr<const RequestLengths> lengths = request_lengths(o);
  InferenceJob job{.prompt = lengths ? lengths->prompts().longest() : o.integer("prompt-tokens"),
                   .answer = lengths ? lengths->answers().longest() : o.integer("max-tokens"),
                   .dtype = dtype_from_name(o.text("dtype")),
                   .spill = offload == "all",
                   .latent_cache = !engine,
                   .lengths = lengths};
  if (o.given("max-tensor")) job.most_tensor = o.integer("max-tensor");
  if (o.given("max-stages")) job.most_stages = o.integer("max-stages");
  job.weights = o.has("weight-dtype") ? stored_named(o.text("weight-dtype")) : stored_as(job.dtype);
  job.kv = o.has("kv-dtype") ? kv_type_from_name(o.text("kv-dtype")).value() : kv_kept_as(job.dtype);
  if (engine) kv_option(o, job.dtype);  // throws what tern generate would
  if (engine && job.weights != stored_as(job.dtype))
    throw Error(
        ErrorKind::usage,
        "plan: the cluster file has tern's own rates, and this engine keeps weights in the type it computes in; leave "
        "--weight-dtype out, or choose --dtype f32 or bf16");
  if (o.has("ttft")) job.ttft_s = o.real("ttft");
  if (o.has("tpot")) job.tpot_s = o.real("tpot");
  if (o.has("users"))
    job.users = o.integer("users");
  else if (job.ttft_s == 0 && job.tpot_s == 0)
    job.users = 1;
  return job;
}

void refuse_inference_options(const Options& o) {
  for (const char* name : {"prompt-tokens", "max-tokens", "prompt-lengths", "output-lengths", "users", "ttft", "tpot",
                           "kv-dtype", "weight-dtype", "kv-place"})
    if (o.given(name)) throw Error(ErrorKind::usage, "plan: --{} is of --inference; add that, or leave it out", name);
}

ServingCommand serving_command(const Options& o, ModelSpec spec, Cluster cluster) {
  ServingCommand c;
  ServingQuestion& q = c.question;
  q.spec = std::move(spec), q.cluster = std::move(cluster), q.model = o.positional("MODEL");
  q.tern = std::any_of(q.cluster.devices.begin(), q.cluster.devices.end(),
                       [](const DeviceType& d) { return d.engine == "tern"; });
  q.job = inference_job(o, q.tern);
  c.json = o.flag("json");
  c.kv_place = o.text("kv-place");
  q.vllm = o.has("emit");
  if (q.vllm && o.text("emit") != "vllm")
    throw Error(ErrorKind::usage, "--emit {}: it trains; with --inference there is vllm", o.text("emit"));
  c.emit_output = o.text("emit-output");
  q.job.mapped_weights = q.tern && reads_mapped(q.spec, q.model, q.cluster, q.job);
  require_writable(o);
  require_positions(q.spec, q.job.context(),
                    q.job.lengths ? "the longest prompt and answer" : "--prompt-tokens and --max-tokens together");
  return c;
}

int plan_inference(const ServingCommand& c) {
  const ServingQuestion& q = c.question;
  ServingAnswer answer = plan_serving(q.spec, q.cluster, q.job);
  if (q.vllm && answer.plan.split && answer.other) std::swap(answer.plan, *answer.other);  // one command
  const KeysAnswer disk = plan_keys(q, c.kv_place, answer);
  if (disk.keys) answer = told_answer(std::move(answer), *disk.keys);
  if (!answer.found) refuse_serving(q, answer, disk.reason, c.json);
  warn_of(q, answer.plan);
  InferenceFit fit;
  if (q.tern) fit = disk.keys ? disk.keys->fit : engine_fit(q.spec, q.job, answer.plan.decode.users);
  std::optional<EmittedPlan> emitted;
  if (q.vllm) emitted = emit_for_vllm(q, answer.plan, c.emit_output);
  if (c.json) {
    Json out = serving_json(q, answer);
    if (emitted) out["emit"] = emitted_json(*emitted);
    if (q.tern) out["engine"] = json_of(fit), out["engine"]["mapped_weights"] = q.job.mapped_weights;
    if (disk.keys) out["keys_on_disk"] = keys_json(q, *disk.keys);
    print_json(out);
    return 0;
  }
  print_lines(serving_text(q, answer));
  if (disk.keys) print_lines(keys_text(q, *disk.keys));
  print_lines(noise_of(q.cluster));
  if (emitted) print_out(emitted_text(*emitted));
  if (q.tern) print_lines(fit_text(fit, q.job));
  return 0;
}

}  // namespace tern
