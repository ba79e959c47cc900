// tern plan MODEL --hardware F: the best plan, its proof, what it takes, and why its rivals lost.
#include <fmt/format.h>

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
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/text.h"
#include "formats/gguf/model.h"
#include "formats/hf/config.h"
#include "hardware/machines.h"
#include "planner/judges/audit.h"
#include "planner/outer/plan_model.h"
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

// Sequences longer than what the model declares; "" if it knows them all.
std::string beyond_positions(const ModelSpec& spec, int64_t seq) {
  for (const Unit& u : spec.units)
    if (const auto* a = std::get_if<AttentionSpec>(&u.spec); a && a->relative > 0) return "";  // any distance
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

void require_question(const Options& o) {
  std::string missing;
  const bool inference = o.flag("inference");
  for (const std::string_view name : {"hardware", "batch", "seq"})
    if (!o.has(name) && !(inference && name != "hardware") && !(name == "batch" && o.has("batches")))
      missing += fmt::format("{}--{}", missing.empty() ? "" : ", ", name);
  if (!missing.empty()) throw Error(ErrorKind::usage, "plan: {} must be given; see `tern help plan`", missing);
}

// What is to be planned.
struct Question {
  ModelSpec spec;
  Cluster cluster;
  std::vector<int64_t> batches;
  std::optional<Calibration> calibration;
  PlanRequest request;
};

Question question_of(const Options& o, ModelSpec spec, Cluster cluster) {
  refuse_inference_options(o);
  Question q{.spec = std::move(spec), .cluster = priced_as_asked(o, std::move(cluster)), .batches = batches_of(o)};
  if (o.has("calibration")) {
    q.calibration = read_calibration(o.text("calibration"));
    q.cluster = calibrated(q.cluster, *q.calibration, dtype_from_name(o.text("dtype")));
    if (const std::string few = few_words(*q.calibration); !few.empty()) log_warn("{}", few);
  }
  if (o.given("capacity-factor") && std::ranges::none_of(q.spec.units, [](const Unit& u) { return moe_of(u); }))
    throw Error(ErrorKind::usage,
                "plan: --capacity-factor is of mixtures of experts; the model has none, leave it out");
  if (o.has("adapters")) q.spec = with_adapters(std::move(q.spec), o.integer("adapters"));
  q.request = {.model = o.positional("MODEL"), .space = space_of(o), .stop = &stop_flag()};
  q.request.job = {.batch = q.batches.back(),
                   .seq = o.integer("seq"),
                   .dtype = dtype_from_name(o.text("dtype")),
                   .gradients = gradients_of(o, q.calibration.has_value()),
                   .optimizer = update_rule_from_name(o.text("optimizer")),
                   .capacity_factor = o.real("capacity-factor"),
                   .lengths = job_lengths(o, q.spec)};
  if (o.has("max-seconds")) q.request.seconds = o.real("max-seconds");
  if (o.has("threads")) q.request.threads = static_cast<int>(o.integer("threads"));
  return q;
}

PlanAnswer search(const Options& o, Question& q) {
  SearchLine line;
  q.request.progress = [&](int64_t left, int64_t best_ps) { line.update(left, best_ps); };
  PlanAnswer answer = plan_model(q.spec, q.cluster, q.request);
  q.request.progress = {};
  if (!answer.found && !stop_requested())
    refuse_plan(q.spec, q.cluster, q.request, answer, space_without_pins(o), wider_spaces(o), o.flag("json"));
  return answer;
}

void print_answer(const Question& q, const PlanAnswer& answer, const PlanStory& story, const std::string& text,
                  bool json) {
  if (json) {
    print_out(text);
  } else {
    print_plan(answer, q.cluster, story.uncalibrated);
    print_out("\n" + story_words(q.spec, q.cluster, answer.plan, story));
  }
  tell_engine(q.spec, answer.plan, q.cluster, json);
}

void print_certificate(const Certificate& c, const Plan& plan, bool json) {
  if (!c.audit || !c.audit->plan_holds()) return;
  const std::string solver = c.solver.empty() ? "not asked" : c.solver;
  if (json) {
    log_info("audit: {}; no judged choice is faster than {}; {}; solver: {}", name_of(c.audit->verdict),
             step_words(c.audit->proven_ps), told(*c.audit), solver);
  } else {
    print_audit(*c.audit, plan);
    print_out(fmt::format("solver     {}\n", solver));
  }
}

}  // namespace

int run_plan(const Options& options) {
  ModelSpec spec = model_of(options.positional("MODEL"));
  require_question(options);
  Cluster cluster = find_cluster(options.text("hardware"));
  if (options.has("nodes")) cluster = with_nodes(std::move(cluster), options.integer("nodes"));
  if (options.flag("inference")) return plan_inference(options, spec, cluster);

  Question q = question_of(options, std::move(spec), std::move(cluster));
  const bool json = options.flag("json");
  const StopSignals signals;
  if (options.has("check")) {
    refuse_beside_check(options);
    if (q.batches.size() > 1) throw Error(ErrorKind::usage, "plan: --check judges one plan: give --batch");
    require_positions(q.spec, q.request.job.seq, "--seq");
    return check_plan(q.spec, q.cluster, q.request, options.text("check"), json);
  }
  require_writable(options);
  require_terms(options, q.cluster);
  refuse_other_models(options, q.spec, q.request.job);
  require_positions(q.spec, q.request.job.seq, "--seq");

  const std::vector<PlannedPoint> points = plan_range(q.spec, q.cluster, q.request, q.batches);
  PlanAnswer answer = search(options, q);
  if (!answer.found) {
    log_warn("plan: stopped before any plan was found");
    return 128 + stop_signal();
  }
  if (std::string beyond = beyond_positions(q.spec, q.request.job.seq); !beyond.empty())
    answer.plan.restrictions.push_back(std::move(beyond));
  if (q.calibration) answer.plan.error = planned_error(*q.calibration, answer.plan.step_ps);
  for (std::string& assumed : lengths_assumed(answer.plan)) answer.plan.restrictions.push_back(std::move(assumed));
  Certificate certificate;
  if (options.flag("certify")) certificate = certify(q.spec, q.cluster, q.request, answer.plan);
  PlanStory story = tell_story(options, q.spec, q.cluster, q.request, answer);
  if (!q.calibration) story.uncalibrated = uncalibrated_words(q.cluster);
  story.batches = points;

  // Files first: who reads the output may stop early.
  const std::string text = plan_json(answer.plan, story_json(q.spec, q.cluster, answer.plan, story));
  write_answer(options, text, q.spec, q.cluster, answer, story);
  print_answer(q, answer, story, text, json);
  print_certificate(certificate, answer.plan, json);
  if (q.calibration && !answer.plan.error)
    log_warn("plan: {} was not tried on rows left out, so there is no error bar", options.text("calibration"));
  if (stop_requested()) {
    log_warn("plan: stopped; this is the best plan so far, and its gap is right");
    return 128 + stop_signal();
  }
  if (!certificate.doubt.empty())
    throw Error(ErrorKind::undecided, "plan: the plan stands, but is not certified whole: {}", certificate.doubt);
  return 0;
}

}  // namespace tern
