// tern plan MODEL --hardware F: the best plan, its proof, what it takes, and why its rivals lost.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/calibration_report.h"
#include "apps/common.h"
#include "apps/model_of.h"
#include "apps/plan_certify.h"
#include "apps/plan_engine.h"
#include "apps/plan_inference.h"
#include "apps/plan_lines.h"
#include "apps/plan_question.h"
#include "apps/signals.h"
#include "apps/threads.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/units.h"
#include "hardware/cluster.h"
#include "hardware/machines.h"
#include "plan/plan_file.h"
#include "planner/words/lengths_text.h"
#include "planner/words/page.h"
#include "planner/words/plan_text.h"
#include "planner/words/planned_points.h"
#include "planner/words/refusal.h"
#include "program/plan_program.h"
#include "spec/update_rule.h"

namespace tern {
namespace {

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

// Of several batches the one with most tokens/s is planned; the answer names all.
std::vector<PlannedPoint> plan_range(PlanQuestion& q) {
  if (q.batches.size() < 2) return {};
  std::vector<PlannedPoint> points = plan_batches(q.spec, q.cluster, q.request, q.batches);
  double most = 0;
  for (const PlannedPoint& p : points)
    if (p.found && p.tokens_per_second > most) most = p.tokens_per_second, q.request.job.batch = p.asked;
  return points;
}

void require_question(const Options& o) {
  std::string missing;
  const bool inference = o.flag("inference");
  for (const std::string_view name : {"hardware", "batch", "seq"})
    if (!o.has(name) && !(inference && name != "hardware") && !(name == "batch" && o.has("batches")))
      missing += fmt::format("{}--{}", missing.empty() ? "" : ", ", name);
  if (!missing.empty()) throw Error(ErrorKind::usage, "plan: {} must be given; see `tern help plan`", missing);
}

// tern train does not run every mixture of ZeRO stages over the layers. Of the plans without ZeRO 3 and those with it in all layers, the best that
// runs takes the answer's place, and the question's space is narrowed to its own.
void prefer_what_runs(PlanQuestion& q, PlanAnswer& answer) {
  if (!answer.found || stop_requested() || runs_here(q.spec, q.cluster, answer.plan)) return;
  const SearchSpace whole = q.request.space;
  for (const bool three : {false, true}) {
    PlanRequest request = q.request;
    std::erase_if(request.space.zero, [&](int zero) { return (zero == 3) != three; });
    if (request.space.zero.empty() || request.space.zero == whole.zero) continue;
    PlanAnswer other = plan_model(q.spec, q.cluster, request);
    if (!other.found || !runs_here(q.spec, q.cluster, other.plan)) continue;
    if (q.request.space.zero != whole.zero && other.plan.step_ps >= answer.plan.step_ps) continue;
    answer = std::move(other), q.request.space = request.space;
  }
}

PlanAnswer search(PlanQuestion& q, bool json) {
  SearchLine line;
  q.request.progress = [&](int64_t left, int64_t best_ps) { line.update(left, best_ps); };
  PlanAnswer answer = plan_model(q.spec, q.cluster, q.request);
  const int64_t best_ps = answer.found ? answer.plan.step_ps : 0;
  prefer_what_runs(q, answer);
  q.request.progress = {};
  if (answer.found && answer.plan.step_ps != best_ps)
    log_info(
        "plan: a step {:.1f} % shorter needs ZeRO 3 in some layers alone, which tern train does not run for this model",
        100 - 100 * static_cast<double>(best_ps) / static_cast<double>(answer.plan.step_ps));
  if (!answer.found && !stop_requested()) {
    const Refusal refusal = refusal_of(q, answer);
    if (json) print_out(refusal.json);
    throw refusal.error;
  }
  return answer;
}

void write(const std::string& path, const std::string& text) {
  const bool replaces = real_io().stat(path).has_value();
  write_file_atomically(real_io(), path, text);
  log_info("wrote {}{}", path, replaces ? " (in place of the file that was there)" : "");
}

void write_answer(const PlanOutputs& to, const std::string& plan, const PlanQuestion& q, const PlanAnswer& answer,
                  const PlanStory& story) {
  if (!to.plan.empty()) write(to.plan, plan);
  if (!to.emitted.empty()) write(to.emitted, story.emitted.text);
  if (!to.html.empty()) write(to.html, plan_page(q.spec, q.cluster, answer, story));
  if (!to.picture.empty()) write(to.picture, plan_picture(answer));
}

void print_answer(const PlanQuestion& q, const PlanAnswer& answer, const PlanStory& story, const std::string& text,
                  const std::vector<std::string>& notes, const PlanOutputs& to) {
  if (to.json) {
    print_out(text);
  } else {
    print_lines(
        plan_text(answer, q.cluster, {.uncalibrated = story.uncalibrated, .notes = notes, .details = to.details}));
    const std::string told = story_words(q.spec, q.cluster, answer.plan, story, to.details);
    // What another framework reads stays as it is.
    const std::string& emitted = story.emitted.text;
    const size_t at = emitted.empty() ? std::string::npos : told.find(emitted);
    if (!told.empty()) print_lines("\n" + told.substr(0, at));
    if (at != std::string::npos) print_out(emitted), print_lines(told.substr(at + emitted.size()));
  }
  tell_engine(q.spec, answer.plan, q.cluster, to.plan, to.json);
}

int answer_question(PlanCommand c) {
  PlanQuestion& q = c.question;
  const bool json = c.outputs.json;
  const std::vector<PlannedPoint> points = plan_range(q);
  PlanAnswer answer = search(q, json);
  if (!answer.found) {
    log_warn("plan: stopped before any plan was found");
    return 128 + stop_signal();
  }
  std::vector<std::string> notes;
  if (std::string beyond = beyond_positions(q.spec, q.request.job.seq); !beyond.empty())
    notes.push_back(std::move(beyond));
  if (c.calibration) answer.plan.error = planned_error(*c.calibration, answer.plan.step_ps);
  for (std::string& assumed : lengths_assumed(answer.plan)) notes.push_back(std::move(assumed));
  answer.plan.restrictions.insert(answer.plan.restrictions.end(), notes.begin(), notes.end());
  {
    const ShareOfThreads threads(answer.plan.choice.devices());  // scratch of products may depend on them
    answer.plan.program =
        program_of_plan(q.spec, q.cluster, answer.plan, engine_placement(q.cluster, q.request.job.dtype));
  }
  if (!answer.plan.program)
    answer.plan.restrictions.push_back(
        fmt::format("its Program would have more than {} instructions and was not made: the step is the stage model's",
                    format_with_commas(kMostPlannedInstructions)));
  Certificate certificate;
  if (c.certify) {
    PlanQuestion judged = q;
    judged.request.seconds = c.judging_seconds;
    certificate = certify(judged, answer.plan, answer.interrupted);
  }
  PlanStory story = story_of(q, answer);
  if (!c.calibration) story.uncalibrated = uncalibrated_words(q.cluster);
  story.batches = points;

  // Files first: who reads the output may stop early.
  const std::string text = plan_json(answer.plan, story_json(q.spec, q.cluster, answer.plan, story));
  write_answer(c.outputs, text, q, answer, story);
  print_answer(q, answer, story, text, notes, c.outputs);
  print_certificate(certificate, answer.plan, json);
  if (c.calibration && !answer.plan.error)
    log_warn("plan: {} was not tried on rows left out, so there is no error bar", c.calibration_path);
  if (stop_requested()) {
    log_warn("plan: stopped; this is the best plan so far, and its gap is right");
    return 128 + stop_signal();
  }
  if (!certificate.doubt.empty())
    throw Error(ErrorKind::undecided, "plan: the plan stands, but is not certified whole: {}", certificate.doubt);
  return 0;
}

}  // namespace

int run_plan(const Options& options) {
  keep_freed_blocks();
  ModelSpec spec = model_of(options.positional("MODEL"));
  require_question(options);
  Cluster cluster = find_cluster(options.text("hardware"));
  if (options.has("nodes")) cluster = with_nodes(std::move(cluster), options.integer("nodes"));
  if (options.flag("inference")) return plan_inference(serving_command(options, std::move(spec), std::move(cluster)));
  PlanCommand command = plan_command(options, std::move(spec), std::move(cluster));
  const StopSignals signals;
  if (!command.check.empty()) return check_plan(command.question, command.check, command.outputs.json);
  return answer_question(std::move(command));
}

}  // namespace tern
