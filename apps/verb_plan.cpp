// tern plan MODEL --hardware F: the best plan, its proof, what it takes, and why its rivals lost.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/plan_solver.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/gguf_model.h"
#include "formats/hf_config.h"
#include "hardware/machines.h"
#include "planner/audit.h"
#include "planner/plan_model.h"
#include "spec/presets.h"

namespace tern {
namespace {

// A preset's name, a model directory, or its config.json.
ModelSpec model_of(const std::string& name) {
  if (const std::optional<ModelSpec> preset = preset_model(name)) return *preset;
  const std::filesystem::path path(name);
  if (std::filesystem::is_directory(path)) return model_spec(read_hf_config((path / "config.json").string()));
  if (is_gguf_path(name) && std::filesystem::exists(path)) return model_spec(gguf_config(Gguf(name)));
  if (std::filesystem::exists(path)) return model_spec(read_hf_config(name));
  const std::vector<std::string_view> presets = preset_names();
  throw Error(ErrorKind::bad_file, "{}: neither a model directory, nor a config.json, nor one of the presets ({}){}",
              name, join({presets.begin(), presets.end()}, ", "), did_you_mean(name, presets));
}

std::vector<std::string_view> words(const Options& o, std::string_view name) {
  std::vector<std::string_view> out;
  for (const std::string_view w : split(o.text(name), ',')) out.push_back(trim(w));
  return out;
}

// "0,1,3" as a subset of `all`, in its order.
template <class T, class Name>
std::vector<T> subset(const Options& o, std::string_view option, const std::vector<T>& all, const Name& name) {
  std::vector<std::string> names;
  for (const T& t : all) names.push_back(std::string(name(t)));
  std::vector<bool> wanted(all.size(), false);
  for (const std::string_view w : words(o, option)) {
    const auto at = std::find(names.begin(), names.end(), w);
    if (at == names.end())
      throw Error(ErrorKind::usage, "--{}: '{}' is none of {}{}", option, make_printable(w), join(names, ", "),
                  did_you_mean(w, {names.begin(), names.end()}));
    wanted[static_cast<size_t>(at - names.begin())] = true;
  }
  std::vector<T> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (wanted[i]) out.push_back(all[i]);
  return out;
}

SearchSpace space_of(const Options& o) {
  SearchSpace s;
  const auto limit = [&](std::string_view name, auto& at) {
    if (o.has(name)) at = static_cast<std::decay_t<decltype(at)>>(o.integer(name));
  };
  limit("max-tensor", s.max_tensor), limit("max-context", s.max_context), limit("max-stages", s.max_stages);
  limit("max-chunks", s.max_chunks), limit("max-micro-batch", s.max_micro_batch);
  s.ulysses = o.flag("ulysses");
  if (o.has("schedules"))
    s.schedules = subset(o, "schedules", s.schedules, [](Schedule x) { return schedule_name(x); });
  if (o.has("zero")) s.zero = subset(o, "zero", s.zero, [](int z) { return std::to_string(z); });
  if (o.has("allow-recompute"))
    s.recompute = subset(o, "allow-recompute", s.recompute, [](Recompute r) { return name_of(r); });
  const std::string& offload = o.text("offload");
  if (offload == "none" || offload == "activations") s.states = {Tier::device};
  if (offload == "none" || offload == "states") s.activations = {Tier::device};
  return s;
}

std::string seconds(int64_t ps) { return format_seconds(static_cast<double>(ps) * 1e-12); }
std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

void print_layers(const Plan& p) {
  print_out("\nlayers\n");
  for (const PlannedLayers& l : p.layers)
    print_out(
        fmt::format("  {:>9}  stage {:<4} {}\n",
                    l.count == 1 ? fmt::format("{}", l.first) : fmt::format("{}-{}", l.first, l.first + l.count - 1),
                    l.stage, to_string(l.strategy)));
}

void print_memory(const Plan& p) {
  const bool mixed =
      std::any_of(p.ranks.begin(), p.ranks.end(), [&](const auto& r) { return r.node != p.ranks[0].node; });
  print_out(fmt::format("\nmemory per device{:>17} {:>12} {:>12} {:>9}\n", "device", "host", "disk", "busy"));
  for (size_t r = 0; r < p.ranks.size(); ++r) {
    if (p.ranks.size() > 12 && r >= 6 && r + 6 < p.ranks.size()) {
      if (r == 6) print_out("  …\n");
      continue;
    }
    const PlannedRank& rank = p.ranks[r];
    print_out(fmt::format(
        "  {:<21} {:>12} {:>12} {:>12} {:>9}\n", fmt::format("rank {}{}", r, mixed ? ", " + rank.node : ""),
        format_bytes(rank.peak[0]), format_bytes(rank.peak[1]), format_bytes(rank.peak[2]),
        fmt::format("{:.1f} %", 100.0 * static_cast<double>(rank.busy_ps) / static_cast<double>(p.step_ps))));
  }
  std::vector<std::string> told;
  for (const PlannedRank& r : p.ranks) {
    if (std::find(told.begin(), told.end(), r.node) != told.end()) continue;
    told.push_back(r.node);
    print_out(fmt::format("  {:<21} {:>12} {:>12} {:>12}\n", mixed ? "there is, " + r.node : "there is",
                          format_bytes(r.capacity[0]), format_bytes(r.capacity[1]), format_bytes(r.capacity[2])));
  }
}

void print_plan(const PlanAnswer& a, const Cluster& cluster) {
  const Plan& p = a.plan;
  const auto line = [](std::string_view key, const std::string& text) {
    print_out(fmt::format("{:<10} {}\n", key, text));
  };
  line("model", fmt::format("{}, {} parameters", p.model, format_count(static_cast<double>(p.parameters))));
  line("hardware", fmt::format("{}: {} of {} devices{}", p.hardware, format_with_commas(p.choice.devices()),
                               format_with_commas(cluster.num_devices()),
                               p.idle_devices ? fmt::format(", {} idle", format_with_commas(p.idle_devices)) : ""));
  line("plan", to_string(p.choice));
  if (cluster.groups.size() > 1) line("", "on " + p.node);
  line("step", fmt::format("{}, {} tokens/s, {} of the devices' peak for the model's own work", seconds(p.step_ps),
                           format_count(p.tokens_per_second()), percent(p.flops_share)));
  if (p.price_per_hour > 0)
    line("price", fmt::format("{:.2f} per hour, {:.4f} per million tokens", p.price_per_hour,
                              p.price_per_hour / 3600 / p.tokens_per_second() * 1e6));
  line("binds", p.binds);
  line("proof", fmt::format("model gap {}, simulator gap {}: no choice is faster than {}", percent(p.model_gap()),
                            percent(p.simulator_gap()), seconds(p.bound_ps)));
  line("",
       fmt::format("{} outer choices: {} closed by a bound, {} by search, {} open; {} searches, {} simulations in {}",
                   format_with_commas(p.counts.legal), format_with_commas(p.counts.by_bound),
                   format_with_commas(p.counts.by_search), format_with_commas(p.counts.open),
                   format_with_commas(a.searches), format_with_commas(a.simulated), format_seconds(a.seconds)));
  for (const std::string& r : p.restrictions) line("within", r);
  print_layers(p);
  print_memory(p);
  print_out("\nrivals     at least   a plan of it\n");
  for (const PlannedFamily& f : p.families)
    print_out(fmt::format("  {:<22} {:>10} {:>10}  {}\n", f.feature, f.fits ? seconds(f.bound_ps) : "no room",
                          f.found ? seconds(f.step_ps) : "", f.choice));
}

constexpr double kLooking = 1.5;  // seconds that what would fit is looked for

// Settings near the request for which some plan fits, the least intrusive first.
std::vector<std::string> what_fits(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  std::vector<std::string> out;
  const auto started = std::chrono::steady_clock::now();
  const auto attempt = [&](const std::string& words_for, const ModelSpec& model, const Cluster& machines,
                           PlanRequest r) {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (out.size() >= 3 || spent > kLooking) return false;
    r.any_fit = true, r.seconds = kLooking - spent;
    try {
      if (!plan_model(model, machines, r).found) return false;
    } catch (const Error&) {
      return false;  // no legal mesh under it
    }
    out.push_back(words_for);
    return true;
  };
  PlanRequest all = request;
  all.space = {};
  attempt("--offload all, with every schedule, ZeRO stage and recomputation allowed", spec, cluster, all);
  for (PlanRequest r = request; r.job.seq >= 256;) {
    r.job.seq /= 2;
    if (attempt(fmt::format("--seq {}", r.job.seq), spec, cluster, r)) break;
  }
  attempt("--adapters 16 (train low-rank products alone)", with_adapters(spec, 16), cluster, request);
  Cluster larger = cluster;
  for (int64_t times = 2; times <= 4096; times *= 2) {
    for (size_t g = 0; g < larger.groups.size(); ++g) larger.groups[g].count = cluster.groups[g].count * times;
    if (larger.network.empty()) larger.network.push_back({"assumed", 1, cluster.nodes[0].link.latency_ps, 1});
    larger.network.back().nodes = std::max<int64_t>(larger.network.back().nodes, times * 4096);
    if (attempt(fmt::format("{} times the nodes", times), spec, larger, request)) break;
  }
  return out;
}

[[noreturn]] void refuse(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                         const PlanAnswer& a) {
  const NoFit& n = a.no_fit;
  if (!a.proven_infeasible)
    throw Error(ErrorKind::does_not_fit, "plan: no plan was found within {}; give --max-seconds more",
                format_seconds(request.seconds));
  const std::vector<std::string> fits = what_fits(spec, cluster, request);
  throw Error(ErrorKind::does_not_fit,
              "plan: {} with --batch {} --seq {} does not fit on '{}': the {} memory of each device lacks {} of {} at "
              "least (nearest: {}). {}{}",
              request.model, request.job.batch, request.job.seq, cluster.name, name_of(n.tier),
              format_bytes(n.missing_bytes), format_bytes(n.missing_bytes + n.capacity_bytes), n.choice,
              fits.empty() ? "Nothing near it fits." : "What would fit: ", join(fits, "; "));
}

std::string told(const PlanAudit& a) {
  const auto count = [&](AuditedBy by) { return format_with_commas(a.by[static_cast<int>(by)]); };
  return fmt::format("{} choices bounded anew in {}: {} without room, {} by work, {} by paths, {} by labels, {} open{}",
                     format_with_commas(a.choices), format_seconds(a.seconds), count(AuditedBy::memory),
                     count(AuditedBy::work), count(AuditedBy::paths), count(AuditedBy::labels), count(AuditedBy::open),
                     a.unlike_left ? "; pipelines over nodes of several types were not judged" : "");
}

void print_audit(const PlanAudit& a, const Plan& p) {
  print_out(fmt::format("\naudit      the plan fits and takes {}; no choice is faster than {} ({:.2f} % below it)\n",
                        seconds(p.step_ps), seconds(a.proven_ps),
                        100 * (1 - static_cast<double>(a.proven_ps) / static_cast<double>(p.step_ps))));
  print_out(fmt::format("           {}\n", told(a)));
}

// --check: a plan file, judged.
int check_plan(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request, const std::string& path,
               bool json) {
  const Plan plan = read_plan(path);
  const PlanAudit a = audit_plan(spec, cluster, request, plan);
  if (json)
    print_out(nlohmann::ordered_json{{"accepted", a.accepted},
                                     {"reason", a.reason},
                                     {"plan_holds", a.plan_holds},
                                     {"step_ps", plan.step_ps},
                                     {"claimed_bound_ps", plan.bound_ps},
                                     {"proven_bound_ps", a.proven_ps},
                                     {"choices", a.choices},
                                     {"by_memory", a.by[static_cast<int>(AuditedBy::memory)]},
                                     {"by_work", a.by[static_cast<int>(AuditedBy::work)]},
                                     {"by_paths", a.by[static_cast<int>(AuditedBy::paths)]},
                                     {"by_labels", a.by[static_cast<int>(AuditedBy::labels)]},
                                     {"open", a.by[static_cast<int>(AuditedBy::open)]},
                                     {"unlike_nodes_left", a.unlike_left}}
                  .dump(2) +
              "\n");
  if (!a.judged) throw Error(ErrorKind::usage, "{}: {}", path, a.reason);
  if (!a.plan_holds) throw Error(ErrorKind::bad_file, "{}: the plan does not hold: {}", path, a.reason);
  if (!json) print_audit(a, plan);
  if (!a.accepted)
    throw Error(ErrorKind::bad_file, "{}: the plan holds, its claim does not: {}; what is proven is {}", path, a.reason,
                seconds(a.proven_ps));
  if (!json) print_out("           accepted\n");
  return 0;
}

}  // namespace

int run_plan(const Options& options) {
  std::string missing;
  for (const std::string_view name : {"hardware", "batch", "seq"})
    if (!options.has(name)) missing += fmt::format("{}--{}", missing.empty() ? "" : ", ", name);
  if (!missing.empty()) throw Error(ErrorKind::usage, "plan: {} must be given; see `tern help plan`", missing);
  if (options.has("output")) refuse_same_file("output", options.text("output"), options.text("hardware"));
  ModelSpec spec = model_of(options.positional("MODEL"));
  Cluster cluster = find_cluster(options.text("hardware"));
  if (options.has("nodes")) cluster = with_nodes(std::move(cluster), options.integer("nodes"));
  if (options.has("adapters")) spec = with_adapters(std::move(spec), options.integer("adapters"));
  PlanRequest request{.model = options.positional("MODEL"), .space = space_of(options)};
  request.job = {.batch = options.integer("batch"),
                 .seq = options.integer("seq"),
                 .dtype = dtype_from_name(options.text("dtype")),
                 .gradients = dtype_from_name(options.text("gradients")),
                 .optimizer = options.text("optimizer") == "sgd" ? Optimizer::sgd : Optimizer::adamw,
                 .capacity_factor = options.real("capacity-factor")};
  if (options.has("max-seconds")) request.seconds = options.real("max-seconds");
  if (options.has("threads")) request.threads = static_cast<int>(options.integer("threads"));
  if (options.has("check")) {
    if (options.has("output") || options.flag("certify"))
      throw Error(ErrorKind::usage, "plan: --check searches nothing; it goes with neither --output nor --certify");
    return check_plan(spec, cluster, request, options.text("check"), options.flag("json"));
  }
  PlanAnswer answer = plan_model(spec, cluster, request);
  if (!answer.found) refuse(spec, cluster, request, answer);
  // What is certified claims no more than the audit proves.
  std::optional<PlanAudit> audit;
  std::string solver;
  if (options.flag("certify")) {
    audit = audit_plan(spec, cluster, request, answer.plan);
    TERN_CHECK(audit->plan_holds || !audit->judged, "plan: the audit disagrees with the search: {}", audit->reason);
    if (audit->judged) {
      solver = solver_verdict(spec, cluster, request, answer.plan);
      answer.plan.bound_ps = audit->proven_ps;
    } else {
      log_warn("audit: not made: {}", audit->reason);
      audit.reset();
    }
  }
  const std::string text = plan_json(answer.plan);
  if (options.has("output")) {
    const bool replaces = real_io().stat(options.text("output")).has_value();
    write_file_atomically(real_io(), options.text("output"), text);
    log_info("wrote {}{}", options.text("output"), replaces ? " (in place of the file that was there)" : "");
  }
  if (options.flag("json"))
    print_out(text);
  else
    print_plan(answer, cluster);
  if (audit && options.flag("json")) {
    log_info("audit: no choice is faster than {}; {}; solver: {}", seconds(audit->proven_ps), told(*audit), solver);
  } else if (audit) {
    print_audit(*audit, answer.plan);
    print_out(fmt::format("solver     {}\n", solver));
  }
  return 0;
}

}  // namespace tern
