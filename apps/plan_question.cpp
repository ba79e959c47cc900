#include "apps/plan_question.h"

#include <algorithm>
#include <charconv>

#include "apps/calibration_report.h"
#include "apps/given_options.h"
#include "apps/outputs.h"
#include "apps/plan_inference.h"
#include "apps/plan_lengths.h"
#include "apps/plan_space.h"
#include "apps/signals.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "planner/words/planned_points.h"

namespace tern {
namespace {

constexpr size_t kMostBatches = 64;
constexpr int64_t kMostBatch = int64_t{1} << 31;

int64_t sequences(std::string_view text, std::string_view whole) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 1 || n > kMostBatch)
    throw Error(ErrorKind::usage, "--batches {}: expected a range of sequences per step, 256:2048 or 256:2048:256",
                make_printable(whole));
  return n;
}

// --batch alone; --batches A:B (A, 2A, 4A, … and B) or A:B:STEP. Rising.
std::vector<int64_t> batches_of(const Options& o) {
  if (!o.has("batches")) return {o.integer("batch")};
  if (o.has("batch")) throw Error(ErrorKind::usage, "plan: --batch and --batches: give one of them");
  const std::string& text = o.text("batches");
  std::vector<int64_t> parts;
  for (const std::string_view part : split(text, ':')) parts.push_back(sequences(trim(part), text));
  if (parts.size() < 2 || parts.size() > 3 || parts[1] < parts[0])
    throw Error(ErrorKind::usage, "--batches {}: expected FIRST:LAST or FIRST:LAST:STEP, rising", make_printable(text));
  if (parts.size() == 2) return doubling(parts[0], parts[1]);
  if ((parts[1] - parts[0]) / parts[2] >= static_cast<int64_t>(kMostBatches))
    throw Error(ErrorKind::usage, "--batches {}: more than {} batches to plan", make_printable(text), kMostBatches);
  std::vector<int64_t> out;
  for (int64_t b = parts[0]; b <= parts[1]; b += parts[2]) out.push_back(b);
  return out;
}

// --emit: what the framework has not of this model and job is named.
void refuse_other_models(const Options& o, const ModelSpec& spec, const TrainJob& job) {
  if (!o.has("emit") && o.has("emit-output"))
    throw Error(ErrorKind::usage, "plan: --emit-output without --emit says nothing to write");
  if (o.text("emit") == "vllm")
    throw Error(ErrorKind::usage, "--emit vllm: it serves and does not train; give --inference");
  for (const Framework f : kFrameworks)
    if (const std::string why = o.text("emit") == name_of(f) ? why_no_model(f, spec, job) : ""; !why.empty())
      throw Error(ErrorKind::usage, "--emit {}", why);
}

// The cluster with --price-per-hour for each of its devices, if that was given.
Cluster priced_as_asked(const Options& o, Cluster cluster) {
  if (!o.has("price-per-hour")) return cluster;
  for (DeviceType& d : cluster.devices) d.price_per_hour = o.real("price-per-hour");
  for (NodeType& n : cluster.nodes) n.price_per_hour = 0;
  return cluster;
}

// Terms of a run want --tokens; --tokens wants a disk on every node, or --checkpoint-time; --pareto one type of node.
void require_terms(const Options& o, const Cluster& cluster) {
  if (!o.has("tokens"))
    for (const std::string_view name : {"checkpoint-time", "mtbf", "restart-time"})
      if (o.given(name)) throw Error(ErrorKind::usage, "plan: --{} is of a whole run: give --tokens too", name);
  if (o.has("tokens") && !o.has("checkpoint-time"))
    for (const NodeGroup& g : cluster.groups)
      if (const NodeType& n = cluster.nodes[static_cast<size_t>(g.node)]; n.disk_write <= 0)
        throw Error(ErrorKind::usage,
                    "--tokens: the nodes '{}' of '{}' have no disk to write checkpoints to; give --checkpoint-time",
                    n.name, cluster.name);
  if (o.flag("pareto") && cluster.groups.size() != 1)
    throw Error(ErrorKind::usage, "plan: --pareto takes fewer and fewer nodes of one type; '{}' has several",
                cluster.name);
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

std::optional<RunTerms> terms_of(const Options& o) {
  if (!o.has("tokens")) return std::nullopt;
  RunTerms terms{.tokens = o.real("tokens"), .mtbf_s = o.real("mtbf"), .restart_s = o.real("restart-time")};
  if (o.has("checkpoint-time")) terms.checkpoint_s = o.real("checkpoint-time");
  return terms;
}

TrainJob job_of(const Options& o, const ModelSpec& spec, int64_t batch, bool calibrated) {
  return {.batch = batch,
          .seq = o.integer("seq"),
          .dtype = dtype_from_name(o.text("dtype")),
          .gradients = gradients_of(o, calibrated),
          .optimizer = update_rule_from_name(o.text("optimizer")),
          .capacity_factor = o.real("capacity-factor"),
          .tensor_overlap = o.flag("tp-comm-overlap"),
          .lengths = job_lengths(o, spec)};
}

int64_t widest_tensor(const SearchSpace& space) { return space.pinned.tensor.value_or(space.max_tensor); }

PlanQuestion question_of(const Options& o, ModelSpec spec, Cluster cluster, std::vector<int64_t> batches,
                         bool calibrated) {
  PlanQuestion q{.spec = std::move(spec), .cluster = std::move(cluster)};
  q.batches = std::move(batches);
  q.request = {.model = o.positional("MODEL"), .space = space_of(o), .stop = &stop_flag()};
  q.request.job = job_of(o, q.spec, q.batches.back(), calibrated);
  q.request.effort = *effort_from_name(o.text("effort"));
  if (o.has("threads")) q.request.threads = static_cast<int>(o.integer("threads"));
  q.run = terms_of(o), q.what_if = o.flag("explain"), q.node_counts = o.flag("pareto");
  q.unpinned = space_without_pins(o), q.wider = wider_spaces(o);
  return q;
}

}  // namespace

PlanCommand plan_command(const Options& o, ModelSpec spec, Cluster cluster) {
  refuse_inference_options(o);
  cluster = priced_as_asked(o, std::move(cluster));
  std::vector<int64_t> batches = batches_of(o);
  PlanCommand c;
  if (o.has("calibration")) {
    c.calibration_path = o.text("calibration");
    c.calibration = read_calibration(c.calibration_path);
    cluster = calibrated(cluster, *c.calibration, dtype_from_name(o.text("dtype")));
    if (const std::string few = few_words(*c.calibration); !few.empty()) log_warn("{}", few);
    if (const std::string unlike = unlike_words(*c.calibration); !unlike.empty()) log_warn("{}", unlike);
  }
  if (o.given("capacity-factor") && std::ranges::none_of(spec.units, [](const Unit& u) { return moe_of(u); }))
    throw Error(ErrorKind::usage,
                "plan: --capacity-factor is of mixtures of experts; the model has none, leave it out");
  if (o.has("adapters")) spec = with_adapters(std::move(spec), o.integer("adapters"));
  c.question = question_of(o, std::move(spec), std::move(cluster), std::move(batches), c.calibration.has_value());
  const PlanQuestion& q = c.question;
  c.outputs.json = o.flag("json"), c.outputs.details = o.flag("details");
  if (o.has("max-seconds")) c.judging_seconds = o.real("max-seconds");
  c.question.request.seconds =
      o.has("max-seconds") || o.has("check") ? c.judging_seconds : limits_of(c.question.request.effort).seconds;
  if (o.has("check")) {
    refuse_beside_check(o);
    refuse_other_models(o, q.spec, q.request.job);
    if (q.batches.size() > 1) throw Error(ErrorKind::usage, "plan: --check judges one plan: give --batch");
    c.check = o.text("check");
  } else {
    require_writable(o);
    require_terms(o, q.cluster);
    refuse_other_models(o, q.spec, q.request.job);
    c.certify = o.flag("certify");
    c.outputs.plan = o.text("output"), c.outputs.emitted = o.text("emit-output");
    c.outputs.html = o.text("html"), c.outputs.picture = o.text("picture");
  }
  require_positions(q.spec, q.request.job.seq, "--seq");
  if (const SearchSpace& space = q.request.space; q.request.job.tensor_overlap && widest_tensor(space) == 1)
    throw Error(ErrorKind::usage,
                "plan: --tp-comm-overlap is of tensor parallelism, which --{} excludes; leave one of the two out",
                space.pinned.tensor ? "fix tp=1" : "max-tensor 1");
  if (q.request.job.tensor_overlap && o.has("adapters"))
    throw Error(ErrorKind::usage,
                "plan: --tp-comm-overlap: products with --adapters are not cut; leave one of the two out");
  return c;
}

void require_positions(const ModelSpec& spec, int64_t tokens, std::string_view what) {
  if (const int64_t learned = learned_positions(spec); learned > 0 && tokens > learned)
    throw Error(ErrorKind::usage, "plan: {}: {} tokens, the model has {} learned positions; give at most that", what,
                format_with_commas(tokens), format_with_commas(learned));
}

void refuse_beside_check(const Options& o) {
  constexpr std::string_view kJudged[]{"check",
                                       "emit",
                                       "hardware",
                                       "nodes",
                                       "batch",
                                       "batches",
                                       "seq",
                                       "dtype",
                                       "gradients",
                                       "optimizer",
                                       "fix",
                                       "adapters",
                                       "schedules",
                                       "zero",
                                       "allow-recompute",
                                       "capacity-factor",
                                       "tp-comm-overlap",
                                       "max-micro-batch",
                                       "offload",
                                       "max-tensor",
                                       "max-context",
                                       "max-stages",
                                       "max-chunks",
                                       "ulysses",
                                       "calibration",
                                       "threads",
                                       "json",
                                       "max-seconds",
                                       "price-per-hour",
                                       "lengths",
                                       "batching"};
  refuse_given_but(o, kJudged, "does not go with --check, which judges a plan and searches nothing; leave it out");
}

}  // namespace tern
