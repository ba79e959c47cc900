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
#include "apps/plan_ask.h"
#include "apps/plan_engine.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "infer/load.h"
#include "model/model_files.h"
#include "plan/emit.h"
#include "plan/strategy.h"

namespace tern {
namespace {

constexpr size_t kMostAdvice = 4;

std::string role_words(const ServingRole& r) {
  const std::string mesh = fmt::format("tp {}, pp {}", r.layout.tensor, r.layout.stages);
  return fmt::format("{} of {}", counted(r.copies, r.copies == 1 ? "copy" : "copie"), mesh);
}

void line(std::string_view key, const std::string& text) { print_out(labelled(key, text)); }

void print_memory(const ServingRole& r, const Machine& m, const std::string& title) {
  const ServingMemory& x = r.memory;
  print_out(fmt::format("\n{:<28}{:>12} {:>12} {:>12} {:>12}\n", title, "in all", "device", "host", "disk"));
  const auto row = [&](std::string_view name, int64_t all, const TierBytes& on) {
    print_out(fmt::format("  {:<26}{:>12} {:>12} {:>12} {:>12}\n", name, format_bytes(all), format_bytes(on[0]),
                          format_bytes(on[1]), format_bytes(on[2])));
  };
  row("weights", x.weights, x.weights_on);
  row("keys and values", x.kv, x.kv_on);
  row("activations", x.activations, {x.activations, 0, 0});
  row("logits", x.logits, {x.logits, 0, 0});
  TierBytes used{x.activations + x.logits, 0, 0};
  for (size_t t = 0; t < kTiers; ++t) used[t] += x.weights_on[t] + x.kv_on[t];
  row("together", x.total(), used);
  print_out(fmt::format("  {:<26}{:>12} {:>12} {:>12} {:>12}\n", "room", "", format_bytes(m.device_capacity()),
                        format_bytes(m.host_capacity()), format_bytes(m.disk_capacity())));
}

std::string seconds_of(int64_t ps) { return format_seconds(static_cast<double>(ps) * 1e-12); }

Machine machine_named(const Cluster& c, const std::string& node) {
  for (int g = 0; g < static_cast<int>(c.groups.size()); ++g)
    if (Machine m = machine_of(c, g); m.node.name == node) return m;
  return machine_of(c, 0);
}

std::string summary(const ServingPlan& p) {
  const std::string where =
      p.split ? fmt::format("prompts on {}, decoding on {}", role_words(p.prefill), role_words(p.decode))
              : role_words(p.decode);
  return fmt::format("{}: {}, first token {}, then {}", where, counted(p.users, "user"), format_seconds(p.ttft_s),
                     format_seconds(p.tpot_s));
}

std::string lengths_of(const SequenceLengths& l) {
  return l.rows.size() == 1
             ? format_with_commas(l.longest())
             : fmt::format("{:.4g} on average (99 of 100 up to {}, longest {})", l.mean(),
                           format_with_commas(l.quantile(RequestLengths::kHigh)), format_with_commas(l.longest()));
}

// What the users of a copy keep, against its mean and the longest.
void tell_room(const ServingPlan& p, const InferenceJob& job) {
  const RequestLengths& l = *job.lengths;
  const int64_t users = p.decode.users, room = l.room(users, job.page);
  line("room", fmt::format("{} tokens of keys and values for {} of a copy: at 99 of 100 moments at least they need no "
                           "more, answers written whole",
                           format_with_commas(room), counted(users, "user")));
  line("", fmt::format("on average {} ({:.4g} each: who writes long answers is there longer); {} if all were longest",
                       format_with_commas(std::llround(l.mean_context() * static_cast<double>(users))),
                       l.mean_context(), format_with_commas(users * job.context())));
  line("",
       fmt::format("throughput is by means (a token is decoded after {:.4g} others), prompts and answers taken to be "
                   "independent",
                   l.decode_context()));
}

void print_serving(const ServingAnswer& a, const InferenceJob& job, const ModelSpec& spec, const std::string& model,
                   const Cluster& cluster) {
  const ServingPlan& p = a.plan;
  const Machine m = machine_named(cluster, p.node);
  const int64_t used = p.decode.devices() + (p.split ? p.prefill.devices() : 0);
  line("model", fmt::format("{}, {} parameters", model, format_count(static_cast<double>(num_parameters(spec)))));
  line("hardware", fmt::format("{}: {} of {} devices", cluster.name, format_with_commas(used),
                               format_with_commas(cluster.num_devices())));
  const auto stored = [&](StoredType type) {  // bf16 stands for any 16 bits
    return type == StoredType::bf16 && job.dtype == DType::f16 ? "16 bits" : name_of(type);
  };
  const std::string prompts = job.lengths ? lengths_of(job.lengths->prompts()) : format_with_commas(job.prompt);
  const std::string answers = job.lengths ? lengths_of(job.lengths->answers()) : format_with_commas(job.answer);
  line("asked", fmt::format("prompts of {}, answers of {} tokens; computed in {}, weights in {}, keys and values in {}",
                            prompts, answers, name_of(job.dtype), stored(job.weights), stored(job.kv)));
  if (p.split) {
    line("plan", fmt::format("prompts on {}", role_words(p.prefill)));
    line("", fmt::format("decoding on {}, {} each at most", role_words(p.decode), counted(p.decode.users, "user")));
  } else {
    line("plan", fmt::format("{}, {} each at most; prompts and decoding in turns", role_words(p.decode),
                             counted(p.decode.users, "user")));
  }
  line("users", fmt::format("{} at once; room for {} with all on the devices", format_with_commas(p.users),
                            format_with_commas(a.most_users)));
  if (job.lengths) tell_room(p, job);
  line("first",
       fmt::format("{} to the first token{}{}; a prompt takes {}{} ({} tokens/s)", format_seconds(p.ttft_s),
                   job.lengths ? fmt::format(" of a prompt of {} (99 of 100 take no longer), {} on average",
                                             format_with_commas(job.high_prompt()), format_seconds(p.mean_ttft_s))
                               : "",
                   job.ttft_s > 0 ? fmt::format(" (target {})", format_seconds(job.ttft_s)) : "",
                   seconds_of(p.prefill.times.prefill_ps), job.lengths ? " on average" : "",
                   format_count(job.mean_prompt() * 1e12 /
                                static_cast<double>(std::max<int64_t>(p.prefill.times.prefill_ps, 1)))));
  line("token", fmt::format("{} each after it{}: {} tokens/s a user, {} tokens/s in all, {:.3g} requests/s",
                            format_seconds(p.tpot_s),
                            job.tpot_s > 0 ? fmt::format(" (target {})", format_seconds(job.tpot_s)) : "",
                            format_count(1 / p.tpot_s), format_count(p.tokens_per_s()), p.requests_per_s));
  const ServingTimes& t = p.decode.times;
  line("binds", fmt::format("{}; a decoding alone {}: products {}, reading weights {}, keys and values {}, links {}{}",
                            t.binds, seconds_of(t.decode_ps), seconds_of(t.compute_ps), seconds_of(t.weights_ps),
                            seconds_of(t.kv_ps), seconds_of(t.links_ps),
                            t.spilled_ps > 0 ? ", beside them other tiers " + seconds_of(t.spilled_ps) : ""));
  if (m.host_capacity() > 0)
    line("switch",
         fmt::format("{} for one user's keys and values to the host, and as long back", seconds_of(t.swap_ps)));
  if (a.other) line("or", summary(*a.other));
  print_memory(p.decode, m, p.split ? "memory per decoding device" : "memory per device");
  if (p.split) print_memory(p.prefill, m, "memory per prompt device");
}

// Bytes as `tern generate` counts them on this machine: packed weights, the loading's peak.
InferenceFit engine_fit(const ModelSpec& spec, const InferenceJob& job, int64_t users) {
  const InferenceNeeds needs{.context = job.context(),
                             .sequences = users,
                             .page_tokens = job.page,
                             .iteration_tokens = iteration_tokens(job.prompt, job.chunk, users),
                             .logit_rows = users};
  return inference_fit(spec, job.dtype, needs);
}

Json json_of(const InferenceFit& f) {
  return {{"weights", f.weights},           {"kv_cache", f.kv_cache},
          {"activations", f.activations},   {"logits", f.logits},
          {"loading_peak", f.loading_peak}, {"sampler", f.sampler},
          {"predicted_bytes", f.tensors()}, {"beside_bytes", f.beside}};
}

// What is to serve: tern at its measured rates, or vLLM; neither has anything off the devices or in blocks.
struct Engine {
  bool tern = false, vllm = false;
  bool any() const { return tern || vllm; }
};

// What near the request would do, the least intrusive first.
std::vector<std::string> advice(const ModelSpec& spec, const Cluster& cluster, const InferenceJob& job, Engine engine) {
  std::vector<std::string> out;
  const auto attempt = [&](const std::string& words, const InferenceJob& changed, const Cluster& machines) {
    if (out.size() >= kMostAdvice || !plan_serving(spec, machines, changed).found) return false;
    out.push_back(words);
    return true;
  };
  if (!job.spill && !engine.any()) {
    InferenceJob j = job;
    j.spill = true;
    attempt("--offload all (slower: weights, keys or values from the host or disk)", j, cluster);
  }
  for (const StoredType kv : {StoredType::q8, StoredType::q4}) {
    InferenceJob j = job;
    j.kv = kv;
    if (!engine.any() && kv > job.kv && attempt(fmt::format("--kv-dtype {}", name_of(kv)), j, cluster)) break;
  }
  for (const StoredType weights : {StoredType::q8, StoredType::q4}) {
    InferenceJob j = job;
    j.weights = weights;
    if (!engine.any() && weights > job.weights &&
        attempt(fmt::format("--weight-dtype {}", name_of(weights)), j, cluster))
      break;
  }
  if (engine.any() && job.dtype == DType::f32) {
    InferenceJob j = job;
    j.dtype = DType::bf16, j.weights = j.kv = StoredType::bf16;
    attempt("--dtype bf16", j, cluster);
  }
  // The most that serve: more than half of a number that does not.
  const auto serves = [&](int64_t users) {
    InferenceJob j = job;
    j.users = users;
    return plan_serving(spec, cluster, j).found;
  };
  int64_t some = job.users / 2, too_many = job.users;
  while (some > 0 && !serves(some)) too_many = some, some /= 2;
  while (some > 0 && too_many - some > 1) {
    const int64_t middle = some + (too_many - some) / 2;
    (serves(middle) ? some : too_many) = middle;
  }
  if (some > 0 && out.size() < kMostAdvice) out.push_back(fmt::format("--users {}", some));
  for (InferenceJob j = job; !j.lengths && j.prompt >= 64;) {
    j.prompt /= 2;
    if (attempt(fmt::format("--prompt-tokens {}", j.prompt), j, cluster)) break;
  }
  if (cluster.groups.size() == 1 && !engine.tern) {
    const int64_t joined = cluster.network.empty() ? 1 : cluster.network.back().nodes;
    for (Cluster larger = cluster; larger.groups[0].count * 2 <= joined;) {
      larger.groups[0].count *= 2;
      if (attempt(fmt::format("--nodes {}", larger.groups[0].count), job, larger)) break;
    }
  }
  return out;
}

[[noreturn]] void refuse(const ServingAnswer& a, const InferenceJob& job, const ModelSpec& spec,
                         const std::string& model, const Cluster& cluster, Engine engine, bool json) {
  const std::vector<std::string> fits = advice(spec, cluster, job, engine);
  const std::string what =
      fits.empty() ? "Nothing near it was found." : "What would do: " + join({fits.begin(), fits.end()}, "; ") + ".";
  const std::string nearest = fmt::format("tp {}, pp {}", a.nearest_layout.tensor, a.nearest_layout.stages);
  if (json) {
    Json out = {{"fits", !a.memory}, {"what_would_do", fits}, {"layouts", a.layouts}};
    if (a.memory) {
      out["tier"] = name_of(a.nearest.tier);
      out["missing_bytes"] = a.nearest.missing_bytes;
      out["wanted_bytes"] = a.nearest.total();
      out["nearest"] = nearest;
    } else {
      out["best_ttft_s"] = a.best_ttft_s;
      out["best_tpot_s"] = a.best_tpot_s;
    }
    print_json(out);
  }
  if (a.memory)
    throw Error(
        ErrorKind::does_not_fit,
        "plan: {} for {} of {}{} tokens does not fit on '{}': {} of weights, {} of keys and values, {} of working "
        "memory on each device of the nearest layout ({}); the {} memory lacks {}. {}",
        model, counted(std::max<int64_t>(job.users, 1), "user"), job.lengths ? "up to " : "",
        format_with_commas(job.context()), cluster.name, format_bytes(a.nearest.weights), format_bytes(a.nearest.kv),
        format_bytes(a.nearest.activations + a.nearest.logits), nearest, name_of(a.nearest.tier),
        format_bytes(a.nearest.missing_bytes), what);
  throw Error(ErrorKind::does_not_fit,
              "plan: {} fits on '{}' and is too slow there: the first token takes {} at best{}, each after it {}{}. {}",
              model, cluster.name, format_seconds(a.best_ttft_s),
              job.ttft_s > 0 ? fmt::format(" (--ttft {})", format_seconds(job.ttft_s)) : "",
              format_seconds(a.best_tpot_s),
              job.tpot_s > 0 ? fmt::format(" (--tpot {})", format_seconds(job.tpot_s)) : "", what);
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

Json json_of(const SequenceLengths& l) {
  return {{"sequences", l.sequences},
          {"mean", l.mean()},
          {"quantile_length", l.quantile(RequestLengths::kHigh)},
          {"longest", l.longest()},
          {"crc32c", l.crc()}};
}

StoredType stored_named(const std::string& name) {
  for (const StoredType t : {StoredType::f32, StoredType::bf16, StoredType::q8, StoredType::q4})
    if (name_of(t) == name) return t;
  return StoredType::bf16;
}

Json json_of(const ServingRole& r) {
  const ServingMemory& m = r.memory;
  const ServingTimes& t = r.times;
  return {{"tensor", r.layout.tensor},
          {"stages", r.layout.stages},
          {"copies", r.copies},
          {"users_per_copy", r.users},
          {"bytes",
           {{"weights", m.weights},
            {"kv", m.kv},
            {"kv_per_user", m.kv_per_user},
            {"activations", m.activations},
            {"logits", m.logits},
            {"weights_on", m.weights_on},
            {"kv_on", m.kv_on}}},
          {"prefill_s", static_cast<double>(t.prefill_ps) * 1e-12},
          {"decode_s", static_cast<double>(t.decode_ps) * 1e-12},
          {"decode_parts_s",
           {{"products", static_cast<double>(t.compute_ps) * 1e-12},
            {"weights", static_cast<double>(t.weights_ps) * 1e-12},
            {"kv", static_cast<double>(t.kv_ps) * 1e-12},
            {"links", static_cast<double>(t.links_ps) * 1e-12},
            {"other_tiers", static_cast<double>(t.spilled_ps) * 1e-12}}},
          {"binds", t.binds},
          {"swap_s", static_cast<double>(t.swap_ps) * 1e-12}};
}

Json json_of(const ServingPlan& p) {
  Json out = {{"node", p.node},
              {"split", p.split},
              {"users", p.users},
              {"ttft_s", p.ttft_s},
              {"tpot_s", p.tpot_s},
              {"tokens_per_s", p.tokens_per_s()},
              {"requests_per_s", p.requests_per_s},
              {"decode", json_of(p.decode)}};
  if (p.split) out["prefill"] = json_of(p.prefill);
  return out;
}

EmittedPlan emit_for_vllm(const Options& o, const Cluster& cluster, const InferenceJob& job, const ServingPlan& plan) {
  for (const NodeType& n : cluster.nodes) {
    if (n.name != plan.node) continue;
    EmittedPlan e =
        emit_serving(o.positional("MODEL"), job, plan, cluster.devices[static_cast<size_t>(n.device)], n.num_devices);
    if (const std::string& path = o.text("emit-output"); !path.empty()) {
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

}  // namespace

InferenceJob inference_job(const Options& o, bool engine) {
  constexpr std::string_view kAllowed[]{"inference",    "hardware",   "nodes",          "prompt-tokens", "max-tokens",
                                        "users",        "ttft",       "tpot",           "dtype",         "kv-dtype",
                                        "weight-dtype", "max-tensor", "max-stages",     "offload",       "emit",
                                        "emit-output",  "json",       "prompt-lengths", "output-lengths"};
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
    throw Error(
        ErrorKind::usage,
        "plan: the cluster file has tern's own rates, and this engine keeps weights, keys and values in memory; "
        "leave --offload out");
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
  job.kv = o.has("kv-dtype") ? stored_named(o.text("kv-dtype")) : stored_as(job.dtype);
  if (engine && (job.weights != stored_as(job.dtype) || job.kv != stored_as(job.dtype)))
    throw Error(
        ErrorKind::usage,
        "plan: the cluster file has tern's own rates, and this engine keeps weights, keys and values in the type it "
        "computes in; leave --{} out, or choose --dtype f32 or bf16",
        job.weights != stored_as(job.dtype) ? "weight-dtype" : "kv-dtype");
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
                           "kv-dtype", "weight-dtype"})
    if (o.given(name)) throw Error(ErrorKind::usage, "plan: --{} is of --inference; add that, or leave it out", name);
}

Json serving_json(const ServingAnswer& a, const InferenceJob& job) {
  Json out = json_of(a.plan);
  out["fits"] = true;
  out["asked"] = {{"prompt_tokens", job.prompt},
                  {"max_tokens", job.answer},
                  {"users", job.users},
                  {"dtype", name_of(job.dtype)},
                  {"weight_dtype", name_of(job.weights)},
                  {"kv_dtype", name_of(job.kv)},
                  {"ttft_s", job.ttft_s},
                  {"tpot_s", job.tpot_s}};
  if (const auto& l = job.lengths)
    out["lengths"] = {{"prompts", json_of(l->prompts())},
                      {"answers", json_of(l->answers())},
                      {"quantile", RequestLengths::kHigh},
                      {"mean_context_in_flight", l->mean_context()},
                      {"context_of_a_decoded_token", l->decode_context()},
                      {"room_tokens_per_copy", l->room(a.plan.decode.users, job.page)},
                      {"longest_tokens_per_copy", a.plan.decode.users * job.context()},
                      {"high_prompt", l->high_prompt()},
                      {"high_prefill_s", static_cast<double>(a.plan.prefill.times.high_prefill_ps) * 1e-12},
                      {"mean_ttft_s", a.plan.mean_ttft_s}};
  out["most_users"] = a.most_users;
  if (a.other) out["other"] = json_of(*a.other);
  return out;
}

int plan_inference(const Options& options, const ModelSpec& spec, const Cluster& cluster) {
  const bool engine = std::any_of(cluster.devices.begin(), cluster.devices.end(),
                                  [](const DeviceType& d) { return d.engine == "tern"; });
  InferenceJob job = inference_job(options, engine);
  const bool json = options.flag("json");
  const std::string& model = options.positional("MODEL");
  if (options.has("emit") && options.text("emit") != "vllm")
    throw Error(ErrorKind::usage, "--emit {}: it trains; with --inference there is vllm", options.text("emit"));
  job.mapped_weights = engine && reads_mapped(spec, model, cluster, job);
  require_writable(options);
  require_positions(spec, job.context(),
                    job.lengths ? "the longest prompt and answer" : "--prompt-tokens and --max-tokens together");
  ServingAnswer answer = plan_serving(spec, cluster, job);
  if (options.has("emit") && answer.plan.split && answer.other) std::swap(answer.plan, *answer.other);  // one command
  if (!answer.found) refuse(answer, job, spec, model, cluster, {engine, options.has("emit")}, json);
  if (spec.context > 0 && job.context() > spec.context)
    log_warn("plan: {} tokens are beyond the {} positions that the model declares", format_with_commas(job.context()),
             format_with_commas(spec.context));
  if (job.ttft_s > 0 && job.tpot_s == 0 && answer.plan.tpot_s > 1)
    log_warn("plan: without --tpot as many users are taken as memory holds, and each waits {} for a token; give --tpot",
             format_seconds(answer.plan.tpot_s));
  const InferenceFit fit = engine ? engine_fit(spec, job, answer.plan.decode.users) : InferenceFit{};
  std::optional<EmittedPlan> emitted;
  if (options.has("emit")) emitted = emit_for_vllm(options, cluster, job, answer.plan);
  if (json) {
    Json out = serving_json(answer, job);
    if (emitted)
      out["emit"] = {{"framework", "vllm"},
                     {"file", emitted->file},
                     {"text", emitted->text},
                     {"command", emitted->command},
                     {"rank_order", emitted->rank_order},
                     {"notes", emitted->notes}};
    if (engine) out["engine"] = json_of(fit), out["engine"]["mapped_weights"] = job.mapped_weights;
    print_json(out);
    return 0;
  }
  print_serving(answer, job, spec, model, cluster);
  print_out(noise_of(cluster));
  if (emitted) {
    print_out(fmt::format("\nvllm: {}\n{}ranks      {}\n", emitted->file, emitted->text, emitted->rank_order));
    for (const std::string& n : emitted->notes) print_out(fmt::format("note       {}\n", n));
  }
  if (engine)
    print_out(
        fmt::format("\nas `{} generate` counts it here{}: {} at most (weights {} as its kernels keep them, key-value "
                    "cache {}, activations and logits {}; while loading {}), and {} for the sampler\n",
                    program_name(), job.lengths ? ", every request as long as the longest" : "",
                    format_bytes(fit.tensors()), format_bytes(fit.weights), format_bytes(fit.kv_cache),
                    format_bytes(fit.running()), format_bytes(fit.loading_peak), format_bytes(fit.sampler)));
  return 0;
}

}  // namespace tern
