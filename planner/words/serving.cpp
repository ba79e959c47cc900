#include "planner/words/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

std::string role_words(const ServingRole& r) {
  const std::string mesh = fmt::format("tp {}, pp {}", r.layout.tensor, r.layout.stages);
  return fmt::format("{} of {}", counted(r.copies, r.copies == 1 ? "copy" : "copie"), mesh);
}

std::string memory_text(const ServingRole& r, const Machine& m, const std::string& title) {
  const ServingMemory& x = r.memory;
  std::string text = fmt::format("\n{:<28}{:>12} {:>12} {:>12} {:>12}\n", title, "in all", "device", "host", "disk");
  const auto row = [&](std::string_view name, int64_t all, const TierBytes& on) {
    text += fmt::format("  {:<26}{:>12} {:>12} {:>12} {:>12}\n", name, format_bytes(all), format_bytes(on[0]),
                        format_bytes(on[1]), format_bytes(on[2]));
  };
  row("weights", x.weights, x.weights_on);
  row("keys and values", x.kv, x.kv_on);
  row("activations", x.activations, {x.activations, 0, 0});
  row("logits", x.logits, {x.logits, 0, 0});
  TierBytes used{x.activations + x.logits, 0, 0};
  for (size_t t = 0; t < kTiers; ++t) used[t] += x.weights_on[t] + x.kv_on[t];
  row("together", x.total(), used);
  return text + fmt::format("  {:<26}{:>12} {:>12} {:>12} {:>12}\n", "room", "", format_bytes(m.device_capacity()),
                            format_bytes(m.host_capacity()), format_bytes(m.disk_capacity()));
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
std::string room_text(const ServingPlan& p, const InferenceJob& job) {
  const RequestLengths& l = *job.lengths;
  const int64_t users = p.decode.users, room = l.room(users, job.page);
  std::string text = labelled(
      "room", fmt::format("{} tokens of keys and values for {} of a copy: at 99 of 100 moments at least they need no "
                          "more, answers written whole",
                          format_with_commas(room), counted(users, "user")));
  text += labelled(
      "", fmt::format("on average {} ({:.4g} each: who writes long answers is there longer); {} if all were longest",
                      format_with_commas(std::llround(l.mean_context() * static_cast<double>(users))), l.mean_context(),
                      format_with_commas(users * job.context())));
  text += labelled(
      "",
      fmt::format("throughput is by means (a token is decoded after {:.4g} others), prompts and answers taken to be "
                  "independent",
                  l.decode_context()));
  return text;
}

Json json_of(const SequenceLengths& l) {
  return {{"sequences", l.sequences},
          {"mean", l.mean()},
          {"quantile_length", l.quantile(RequestLengths::kHigh)},
          {"longest", l.longest()},
          {"crc32c", l.crc()}};
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

}  // namespace

std::string serving_text(const ServingQuestion& q, const ServingAnswer& a) {
  const InferenceJob& job = q.job;
  std::string text;
  const auto line = [&](std::string_view key, const std::string& words) { text += labelled(key, words); };
  const ServingPlan& p = a.plan;
  const Machine m = machine_named(q.cluster, p.node);
  const int64_t used = p.decode.devices() + (p.split ? p.prefill.devices() : 0);
  line("model", fmt::format("{}, {} parameters", q.model, format_count(static_cast<double>(num_parameters(q.spec)))));
  line("hardware", fmt::format("{}: {} of {} devices", q.cluster.name, format_with_commas(used),
                               format_with_commas(q.cluster.num_devices())));
  const auto stored = [&](auto type) -> std::string_view {  // bf16 stands for any 16 bits
    return name_of(type) == "bf16" && job.dtype == DType::f16 ? "16 bits" : name_of(type);
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
  if (job.lengths) text += room_text(p, job);
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
  line("limited by",
       fmt::format("{}; a decoding alone {}: products {}, reading weights {}, keys and values {}, links {}{}", t.binds,
                   seconds_of(t.decode_ps), seconds_of(t.compute_ps), seconds_of(t.weights_ps), seconds_of(t.kv_ps),
                   seconds_of(t.links_ps),
                   t.spilled_ps > 0 ? ", beside them other tiers " + seconds_of(t.spilled_ps) : ""));
  if (m.host_capacity() > 0)
    line("switch",
         fmt::format("{} for one user's keys and values to the host, and as long back", seconds_of(t.swap_ps)));
  if (a.other) line("or", summary(*a.other));
  text += memory_text(p.decode, m, p.split ? "memory per decoding device" : "memory per device");
  if (p.split) text += memory_text(p.prefill, m, "memory per prompt device");
  return text;
}

Json serving_json(const ServingQuestion& q, const ServingAnswer& a) {
  const InferenceJob& job = q.job;
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

}  // namespace tern
