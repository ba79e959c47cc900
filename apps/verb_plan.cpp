// tern plan MODEL --hardware F: the best plan, its proof, what it takes, and why its rivals lost.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/calibration_report.h"
#include "apps/common.h"
#include "apps/outputs.h"
#include "apps/plan_advice.h"
#include "apps/plan_ask.h"
#include "apps/plan_engine.h"
#include "apps/plan_inference.h"
#include "apps/plan_lengths.h"
#include "apps/plan_report.h"
#include "apps/plan_solver.h"
#include "apps/plan_space.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
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

// Sequences longer than what the model knows of positions; "" if it knows them all.
std::string beyond_positions(const ModelSpec& spec, int64_t seq) {
  int64_t learned = 0;
  for (const Unit& u : spec.units) {
    if (const auto* e = std::get_if<EmbedSpec>(&u.spec); e && e->positions > 0)
      learned = e->positions - e->position_offset;
    if (const auto* a = std::get_if<AttentionSpec>(&u.spec); a && a->relative > 0) return "";  // any distance
  }
  if (learned > 0 && seq > learned)
    return fmt::format("--seq {}: the model has {} learned positions and cannot be trained so", seq, learned);
  if (spec.context > 0 && seq > spec.context)
    return fmt::format("--seq {}: the model declares {} positions", seq, spec.context);
  return "";
}

// On standard error, once a search takes more than a second.
class SearchLine {
 public:
  void update(int64_t left, int64_t best_ps) {
    if (real_clock().now_ns() - begin_ns_ < 1'000'000'000) return;
    if (!line_) line_ = std::make_unique<Progress>("plan", 0, real_clock(), ProgressOptions{}, "choices to look at");
    line_->update(left, best_ps > 0 ? fmt::format("best so far {}", step_words(best_ps)) : "no plan yet");
  }

 private:
  int64_t begin_ns_ = real_clock().now_ns();
  std::unique_ptr<Progress> line_;
};

// --check: a plan file, judged.
int check_plan(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request, const std::string& path,
               bool json) {
  const Plan plan = read_plan(path);
  const PlanAudit a = audit_plan(spec, cluster, request, plan);
  const auto unjudged = unjudged_keys();
  if (json)
    print_json(Json{{"verdict", name_of(a.verdict)},
                    {"accepted", a.accepted()},
                    {"reason", a.reason},
                    {"plan_holds", a.plan_holds()},
                    {"step_ps", plan.step_ps},
                    {"claimed_bound_ps", plan.bound_ps},
                    {"proven_bound_ps", a.proven_ps},
                    {"choices", a.choices},
                    {"by_memory", a.count(AuditedBy::memory)},
                    {"by_work", a.count(AuditedBy::work)},
                    {"by_paths", a.count(AuditedBy::paths)},
                    {"by_labels", a.count(AuditedBy::labels)},
                    {"open", a.count(AuditedBy::open)},
                    {"unlike_nodes_left", a.unlike_left},
                    {"not_judged", std::vector<std::string>(unjudged.begin(), unjudged.end())}});
  else if (a.plan_holds())
    print_audit(a, plan);
  switch (a.verdict) {
    case Verdict::accepted:
      return 0;
    case Verdict::in_part:
      throw Error(ErrorKind::undecided, "{}: the plan holds, and its bound on nodes of one type; {}", path, a.reason);
    case Verdict::unproven:
      if (stop_requested()) return 128 + stop_signal();
      throw Error(ErrorKind::undecided,
                  "{}: the plan holds; its bound claims more than the audit proves: {}; what is proven is {}; {}", path,
                  a.reason, step_words(a.proven_ps), a.late ? "give --max-seconds more" : "plan again with --certify");
    case Verdict::not_judged:
      throw Error(ErrorKind::undecided, "{}: {}", path, a.reason);
    case Verdict::rejected:
      break;
  }
  throw Error(ErrorKind::bad_file, "{}: the plan does not hold: {}", path, a.reason);
}

// Options that ask for a search, or for what follows from its plan.
constexpr std::array<std::string_view, 11> kOfASearch{"output",  "certify",        "emit",           "emit-output",
                                                      "tokens",  "explain",        "pareto",         "html",
                                                      "picture", "price-per-hour", "checkpoint-time"};

// Of several batches the one with most tokens/s is planned; all are told.
std::vector<PlannedPoint> plan_range(const ModelSpec& spec, const Cluster& cluster, PlanRequest& request,
                                     const std::vector<int64_t>& batches) {
  if (batches.size() < 2) return {};
  std::vector<PlannedPoint> points = plan_batches(spec, cluster, request, batches);
  double most = 0;
  for (const PlannedPoint& p : points)
    if (p.found && p.tokens_per_second > most) most = p.tokens_per_second, request.job.batch = p.asked;
  return points;
}

struct Certificate {
  std::optional<PlanAudit> audit;
  std::string solver, doubt;  // doubt: why the plan is not certified; "" if it is
};

// What is certified claims no more than the audit proves.
Certificate certify(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request, Plan& plan) {
  Certificate c{.audit = audit_plan(spec, cluster, request, plan)};
  PlanAudit& a = *c.audit;
  // A search that was cut short may not know every choice.
  const bool cut = request.seconds < std::numeric_limits<double>::infinity() || stop_requested();
  TERN_CHECK(a.verdict != Verdict::rejected || cut, "plan: the audit disagrees with the search: {}", a.reason);
  if (!a.plan_holds() || a.late) {
    c.doubt = a.late ? "the audit had no time for every choice; give --max-seconds more" : a.reason;
    return c;
  }
  plan.bound_ps = a.proven_ps;
  a.verdict = a.unlike_left ? Verdict::in_part : Verdict::accepted, a.reason.clear();
  if (a.unlike_left) {
    a.reason = "pipelines over nodes of several types were not judged";
    c.doubt = "its bound is certified for nodes of one type alone; " + a.reason;
    plan.restrictions.push_back(c.doubt);
  }
  SolverVerdict solver = solver_verdict(spec, cluster, request, plan);
  c.solver = std::move(solver.words);
  if (solver.differs) c.doubt = c.solver;
  return c;
}

// Runs of a table in f16 keep f16 gradients (calibrate/run_table.h): what their calibration is asked about does too.
DType gradients_of(const Options& options, bool calibrated_runs) {
  const bool f16 = dtype_from_name(options.text("dtype")) == DType::f16;
  const DType asked = dtype_from_name(options.text("gradients"));
  if (asked == DType::f16 && !f16)
    throw Error(ErrorKind::usage, "plan: --gradients f16 goes with --dtype f16 alone, here it is {}",
                options.text("dtype"));
  if (!calibrated_runs || !f16 || options.given("gradients")) return asked;
  log_info("gradients are kept in f16, as in the runs of the calibration; --gradients f32 asks for others");
  return DType::f16;
}

}  // namespace

int run_plan(const Options& options) {
  ModelSpec spec = model_of(options.positional("MODEL"));
  std::string missing;
  const bool inference = options.flag("inference");
  for (const std::string_view name : {"hardware", "batch", "seq"})
    if (!options.has(name) && !(inference && name != "hardware") && !(name == "batch" && options.has("batches")))
      missing += fmt::format("{}--{}", missing.empty() ? "" : ", ", name);
  if (!missing.empty()) throw Error(ErrorKind::usage, "plan: {} must be given; see `tern help plan`", missing);
  const std::string& output = options.text("output");
  Cluster cluster = find_cluster(options.text("hardware"));
  if (options.has("nodes")) cluster = with_nodes(std::move(cluster), options.integer("nodes"));
  if (inference && options.has("calibration"))
    throw Error(ErrorKind::usage, "plan: --calibration is of training runs; it does not go with --inference");
  if (inference) return plan_inference(options, spec, cluster);
  refuse_inference_options(options);
  const std::vector<int64_t> batches = batches_of(options);
  std::optional<Calibration> calibration;
  if (options.has("calibration")) {
    calibration = read_calibration(options.text("calibration"));
    cluster = calibrated(cluster, *calibration, dtype_from_name(options.text("dtype")));
    if (const std::string few = few_words(*calibration); !few.empty()) log_warn("{}", few);
  }
  if (options.has("adapters")) spec = with_adapters(std::move(spec), options.integer("adapters"));
  PlanRequest request{.model = options.positional("MODEL"), .space = space_of(options), .stop = &stop_flag()};
  request.job = {.batch = batches.back(),
                 .seq = options.integer("seq"),
                 .dtype = dtype_from_name(options.text("dtype")),
                 .gradients = gradients_of(options, calibration.has_value()),
                 .optimizer = options.text("optimizer") == "sgd" ? Optimizer::sgd : Optimizer::adamw,
                 .capacity_factor = options.real("capacity-factor"),
                 .lengths = job_lengths(options, spec)};
  if (options.has("max-seconds")) request.seconds = options.real("max-seconds");
  if (options.has("threads")) request.threads = static_cast<int>(options.integer("threads"));
  const bool json = options.flag("json");
  const StopSignals signals;
  if (options.has("check")) {
    for (const std::string_view other : kOfASearch)
      if (options.given(other))
        throw Error(ErrorKind::usage, "plan: --check searches nothing; it does not go with --{}", other);
    if (batches.size() > 1) throw Error(ErrorKind::usage, "plan: --check judges one plan: give --batch");
    return check_plan(spec, cluster, request, options.text("check"), json);
  }
  require_writable(options);
  refuse_other_models(options, spec, request.job);
  const std::vector<PlannedPoint> points = plan_range(spec, cluster, request, batches);
  PlanAnswer answer;
  {
    SearchLine line;
    request.progress = [&](int64_t left, int64_t best_ps) { line.update(left, best_ps); };
    answer = plan_model(spec, cluster, request);
    request.progress = {};
  }
  if (!answer.found && stop_requested()) {
    log_warn("plan: stopped before any plan was found");
    return 128 + stop_signal();
  }
  if (!answer.found)
    refuse_plan(spec, cluster, request, answer, space_without_pins(options), wider_spaces(options), json);
  if (std::string beyond = beyond_positions(spec, request.job.seq); !beyond.empty())
    answer.plan.restrictions.push_back(std::move(beyond));
  if (calibration) answer.plan.error = planned_error(*calibration, answer.plan.step_ps);
  for (std::string& assumed : lengths_assumed(answer.plan)) answer.plan.restrictions.push_back(std::move(assumed));
  Certificate certificate;
  if (options.flag("certify")) certificate = certify(spec, cluster, request, answer.plan);
  PlanStory story = tell_story(options, spec, cluster, request, answer.plan);
  story.batches = points;
  const std::string text = plan_json(answer.plan, story_json(spec, cluster, answer.plan, story));
  if (json) {
    print_out(text);
  } else {
    print_plan(answer, cluster);
    print_out("\n" + story_words(spec, cluster, answer.plan, story));
  }
  tell_engine(spec, answer.plan, cluster, json);
  if (calibration && !answer.plan.error)
    log_warn("plan: {} was not tried on rows left out, so there is no error bar", options.text("calibration"));
  if (const auto& audit = certificate.audit; audit && audit->plan_holds()) {
    const std::string solver = certificate.solver.empty() ? "not asked" : certificate.solver;
    if (json) {
      log_info("audit: {}; no judged choice is faster than {}; {}; solver: {}", name_of(audit->verdict),
               step_words(audit->proven_ps), told(*audit), solver);
    } else {
      print_audit(*audit, answer.plan);
      print_out(fmt::format("solver     {}\n", solver));
    }
  }
  if (!output.empty()) {
    const bool replaces = real_io().stat(output).has_value();
    write_file_atomically(real_io(), output, text);
    log_info("wrote {}{}", output, replaces ? " (in place of the file that was there)" : "");
  }
  write_story(options, spec, cluster, answer, story);
  if (stop_requested()) {
    log_warn("plan: stopped; this is the best plan so far, and its gap is right");
    return 128 + stop_signal();
  }
  if (!certificate.doubt.empty())
    throw Error(ErrorKind::undecided, "plan: the plan stands, but is not certified whole: {}", certificate.doubt);
  return 0;
}

}  // namespace tern
