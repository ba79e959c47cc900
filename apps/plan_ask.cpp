#include "apps/plan_ask.h"

#include <algorithm>
#include <charconv>

#include "apps/common.h"
#include "apps/given_options.h"
#include "apps/plan_page.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"

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

void write(const Options& o, std::string_view option, const std::string& text) {
  const std::string& path = o.text(option);
  if (path.empty()) return;
  const bool replaces = real_io().stat(path).has_value();
  write_file_atomically(real_io(), path, text);
  log_info("wrote {}{}", path, replaces ? " (in place of the file that was there)" : "");
}

}  // namespace

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

void refuse_other_models(const Options& o, const ModelSpec& spec, const TrainJob& job) {
  if (!o.has("emit") && o.has("emit-output"))
    throw Error(ErrorKind::usage, "plan: --emit-output without --emit says nothing to write");
  if (o.text("emit") == "vllm")
    throw Error(ErrorKind::usage, "--emit vllm: it serves and does not train; give --inference");
  for (const Framework f : kFrameworks)
    if (const std::string why = o.text("emit") == name_of(f) ? why_no_model(f, spec, job) : ""; !why.empty())
      throw Error(ErrorKind::usage, "--emit {}", why);
}

void require_positions(const ModelSpec& spec, int64_t tokens, std::string_view what) {
  if (const int64_t learned = learned_positions(spec); learned > 0 && tokens > learned)
    throw Error(ErrorKind::usage, "plan: {}: {} tokens, the model has {} learned positions; give at most that", what,
                format_with_commas(tokens), format_with_commas(learned));
}

Cluster priced_as_asked(const Options& o, Cluster cluster) {
  if (!o.has("price-per-hour")) return cluster;
  for (DeviceType& d : cluster.devices) d.price_per_hour = o.real("price-per-hour");
  for (NodeType& n : cluster.nodes) n.price_per_hour = 0;
  return cluster;
}

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

void refuse_beside_check(const Options& o) {
  constexpr std::string_view kJudged[]{"check",
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

PlanStory tell_story(const Options& o, const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                     const PlanAnswer& answer) {
  const Plan& plan = answer.plan;
  PlanStory story;
  story.memory = answer.memory;
  if (o.has("tokens")) {
    story.terms.tokens = o.real("tokens"), story.terms.mtbf_s = o.real("mtbf");
    story.terms.restart_s = o.real("restart-time");
    if (o.has("checkpoint-time")) story.terms.checkpoint_s = o.real("checkpoint-time");
    story.run = run_cost(spec, cluster, plan, story.terms);
  }
  if (o.flag("explain")) story.shadow = shadow_prices(spec, cluster, request, plan);
  if (o.flag("pareto")) story.nodes = plan_node_counts(spec, cluster, request, answer);
  if (const auto f = request.space.pinned.framework) {
    story.framework = f;
    const auto node = std::find_if(cluster.nodes.begin(), cluster.nodes.end(),
                                   [&](const NodeType& n) { return n.name == plan.ranks.front().node; });
    TERN_CHECK(node != cluster.nodes.end(), "plan: no node '{}'", plan.ranks.front().node);
    story.emitted = emit_plan(*f, spec, plan, node->num_devices);
  }
  return story;
}

void write_answer(const Options& o, const std::string& plan, const ModelSpec& spec, const Cluster& cluster,
                  const PlanAnswer& answer, const PlanStory& story) {
  write(o, "output", plan);
  write(o, "emit-output", story.emitted.text);
  if (!o.text("html").empty()) write(o, "html", plan_page(spec, cluster, answer, story));
  if (!o.text("picture").empty()) write(o, "picture", plan_picture(answer));
}

}  // namespace tern
