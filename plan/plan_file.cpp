#include "plan/plan_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/hf/fields.h"
#include "plan/legality.h"
#include "plan/plan_axes.h"
#include "plan/window_mix.h"

namespace tern {
namespace {

constexpr int64_t kMaxDegree = int64_t{1} << 31;
constexpr int64_t kMaxLayers = 1 << 20;
constexpr JsonLimits kLimits{.max_bytes = size_t{64} << 20, .max_depth = 16};

Json tiers_json(const TierBytes& b) { return {{"device", b[0]}, {"host", b[1]}, {"disk", b[2]}}; }

Json job_json(const TrainJob& j) {
  Json json = {{"batch", j.batch},
               {"seq", j.seq},
               {"dtype", name_of(j.dtype)},
               {"gradients", name_of(j.gradients)},
               {"optimizer", name_of(j.optimizer)},
               {"capacity_factor", j.capacity_factor}};
  if (j.tensor_overlap) json["tp_comm_overlap"] = true;
  if (const JobLengths& l = j.lengths; l.given())
    json["lengths"] = {
        {"batching", name_of(l.batching)}, {"sequences", l.sequences}, {"tokens", l.tokens}, {"crc32c", l.crc}};
  return json;
}

// The axes of the choice, or those of a layer.
void put_axes(Json& json, const PlanPoint& point, bool of_layer) {
  for (const PlanAxis& a : plan_axes()) {
    if ((a.part == PlanAxis::Part::layer) != of_layer) continue;
    const int64_t value = a.get(point);
    json[std::string(a.key)] = a.values.empty() ? Json(value) : Json(a.text(value));
  }
}

Json choice_json(const OuterChoice& c) {
  Json json;
  put_axes(json, {c, {}}, false);
  return json;
}

Json layers_json(const PlannedLayers& l) {
  Json json{{"first", l.first}, {"count", l.count}, {"stage", l.stage}};
  put_axes(json, {{}, l.strategy}, true);
  return json;
}

Json family_json(const PlannedFamily& f) {
  return {{"feature", f.feature}, {"found", f.found},     {"fits", f.fits},
          {"choice", f.choice},   {"step_ps", f.step_ps}, {"bound_ps", f.bound_ps}};
}

// Reads one object whose keys are all required; the reader complains about the rest when it is done.
class Fields {
 public:
  Fields(const Json& object, std::string place, std::string prefix)
      : f_(checked(object, place, prefix), place, prefix) {}
  int64_t integer(std::string_view key, int64_t least, int64_t most = std::numeric_limits<int64_t>::max()) {
    const auto x = f_.integer(key);
    if (!x) f_.fail(key, "is missing");
    if (*x < least || *x > most) f_.fail(key, "{}, expected {} to {}", *x, least, most);
    return *x;
  }
  double number(std::string_view key) {
    const auto x = f_.number(key);
    if (!x) f_.fail(key, "is missing");
    if (!(*x >= 0) || !std::isfinite(*x)) f_.fail(key, "expected a number from 0 on");
    return *x;
  }
  bool boolean(std::string_view key) {
    const auto x = f_.boolean(key);
    if (!x) f_.fail(key, "is missing");
    return *x;
  }
  std::string text(std::string_view key) {
    auto x = f_.text(key);
    if (!x) f_.fail(key, "is missing");
    return *std::move(x);
  }
  template <class E, size_t N>
  E choice(std::string_view key, const std::array<E, N>& values) {
    std::vector<std::string_view> names;
    for (const E v : values) names.push_back(name_of(v));
    return values[word(key, names)];
  }
  /// The place of the text among `words`.
  size_t word(std::string_view key, const std::vector<std::string_view>& words) {
    const std::string name = text(key);
    const auto at = std::find(words.begin(), words.end(), name);
    if (at == words.end())
      f_.fail(key, "'{}' is none of {}{}", make_printable(name), fmt::join(words, ", "), did_you_mean(name, words));
    return static_cast<size_t>(at - words.begin());
  }
  /// The axes of the choice, or those of a layer.
  PlanPoint axes(bool of_layer) {
    PlanPoint point;
    for (const PlanAxis& a : plan_axes())
      if ((a.part == PlanAxis::Part::layer) == of_layer)
        a.set(point, a.values.empty() ? integer(a.key, a.least, a.most) : static_cast<int64_t>(word(a.key, a.values)));
    return point;
  }
  const Json& object(std::string_view key) { return member(key, &Json::is_object, "an object"); }
  const Json& array(std::string_view key) { return member(key, &Json::is_array, "an array"); }
  void skip(std::string_view key) { f_.take(key); }
  bool has(std::string_view key) const { return f_.has(key); }
  const Json* optional(std::string_view key) { return f_.take(key); }
  void finish() { f_.finish({}); }
  const HfFields& raw() const { return f_; }

 private:
  static const Json& checked(const Json& object, const std::string& place, const std::string& prefix) {
    if (!object.is_object()) throw Error(ErrorKind::bad_file, "{}: {}expected an object", place, prefix);
    return object;
  }
  const Json& member(std::string_view key, bool (Json::*is)() const noexcept, std::string_view word) {
    const Json* value = f_.take(key);
    if (!value) f_.fail(key, "is missing");
    if (!(value->*is)()) f_.fail(key, "expected {}", word);
    return *value;
  }
  HfFields f_;
};

constexpr std::array kDTypes{DType::f64, DType::f32, DType::bf16, DType::f16};

TierBytes read_tiers(const Json& json, const std::string& place, const std::string& prefix) {
  Fields f(json, place, prefix);
  const TierBytes b{f.integer("device", 0), f.integer("host", 0), f.integer("disk", 0)};
  f.finish();
  return b;
}

TrainJob read_job(const Json& json, const std::string& place) {
  Fields f(json, place, "job.");
  TrainJob j;
  j.batch = f.integer("batch", 1, kMaxDegree), j.seq = f.integer("seq", 1, kMaxDegree);
  j.dtype = f.choice("dtype", kDTypes), j.gradients = f.choice("gradients", kDTypes);
  j.optimizer = f.choice("optimizer", kUpdateRules);
  j.capacity_factor = f.number("capacity_factor");
  if (f.has("tp_comm_overlap")) j.tensor_overlap = f.boolean("tp_comm_overlap");
  if (const Json* lengths = f.optional("lengths")) {
    Fields l(*lengths, place, "job.lengths.");
    j.lengths = {.batching = l.choice("batching", std::array{Batching::packed, Batching::padded}),
                 .sequences = l.integer("sequences", 1),
                 .tokens = l.integer("tokens", 1),
                 .crc = static_cast<uint32_t>(l.integer("crc32c", 0, 0xffffffff))};
    l.finish();
  }
  f.finish();
  return j;
}

// Devices are counted with 64 bits: no factor may wrap round.
void check_degrees(const OuterChoice& c, const std::string& place) {
  int64_t devices = 1;
  for (const int64_t degree : {c.mesh.tensor, c.mesh.context, c.mesh.data, int64_t{c.num_stages}}) {
    if (degree > kMaxDegree / devices)
      throw Error(ErrorKind::bad_file,
                  "{}: choice: tensor {} × context {} × data {} × stages {} are more than {} devices", place,
                  c.mesh.tensor, c.mesh.context, c.mesh.data, c.num_stages, kMaxDegree);
    devices *= degree;
  }
  if (c.mesh.devices() % c.mesh.expert != 0 || c.mesh.devices() / c.mesh.expert % c.mesh.expert_tensor != 0)
    throw Error(ErrorKind::bad_file, "{}: choice.expert: {} × expert_tensor {} does not divide the {} of a stage",
                place, c.mesh.expert, c.mesh.expert_tensor, counted(c.mesh.devices(), "device"));
}

OuterChoice read_choice(const Json& json, const std::string& place) {
  Fields f(json, place, "choice.");
  const OuterChoice c = f.axes(false).choice;
  f.finish();
  check_degrees(c, place);
  if (std::string rule = why_illegal_schedule(c.schedule, c.num_stages, c.chunks_per_stage, c.num_micro); !rule.empty())
    throw Error(ErrorKind::bad_file, "{}: choice.schedule: {}", place, rule);
  if (c.num_stages == 1 && c.schedule != kOneStageSchedule)
    throw Error(ErrorKind::bad_file, "{}: choice.schedule: {} on one stage, expected {}", place, name_of(c.schedule),
                name_of(kOneStageSchedule));
  return c;
}

std::vector<PlannedLayers> read_layers(const Json& json, const std::string& place, const OuterChoice& c) {
  std::vector<PlannedLayers> out;
  int next = 0, stage = -1;
  for (const Json& row : json) {
    const std::string prefix = "layers[" + std::to_string(out.size()) + "].";
    Fields f(row, place, prefix);
    PlannedLayers l;
    l.first = static_cast<int>(f.integer("first", 0, kMaxLayers));
    l.count = static_cast<int>(f.integer("count", 1, kMaxLayers));
    l.stage = static_cast<int>(f.integer("stage", 0, kMaxLayers));
    l.strategy = f.axes(true).strategy;
    f.finish();
    if (l.first != next) f.raw().fail("first", "{}, expected {}: layers follow each other", l.first, next);
    if (l.stage < stage || l.stage > stage + 1)
      f.raw().fail("stage", "{} after {}: stages follow each other", l.stage, stage);
    next = l.first + l.count, stage = l.stage;
    out.push_back(l);
  }
  if (int64_t{stage} + 1 != int64_t{c.num_stages} * c.chunks_per_stage)
    throw Error(ErrorKind::bad_file, "{}: layers: fill {} virtual stages, choice has {} × {}", place, stage + 1,
                c.num_stages, c.chunks_per_stage);
  return out;
}

std::vector<PlannedStage> read_stages(const Json& json, const std::string& place, const OuterChoice& c) {
  std::vector<PlannedStage> stages;
  for (const Json& row : json) {
    Fields f(row, place, "predicted.stages[" + std::to_string(stages.size()) + "].");
    stages.push_back({f.integer("forward_ps", 0), f.integer("backward_ps", 0), f.integer("weight_ps", 0),
                      f.integer("send_forward_ps", 0), f.integer("send_backward_ps", 0)});
    f.finish();
  }
  if (std::ssize(stages) != int64_t{c.num_stages} * c.chunks_per_stage)
    throw Error(ErrorKind::bad_file, "{}: predicted.stages: {}, expected one per virtual stage ({} × {})", place,
                stages.size(), c.num_stages, c.chunks_per_stage);
  return stages;
}

PlannedProgram read_program(const Json& json, const std::string& place) {
  Fields f(json, place, "predicted.program.");
  const std::string hex = f.text("checksum");
  PlannedProgram p{.instructions = f.integer("instructions", 1), .step_ps = f.integer("step_ps", 0)};
  const auto [end, fault] = std::from_chars(hex.data(), hex.data() + hex.size(), p.checksum, 16);
  if (hex.size() != 8 || fault != std::errc() || end != hex.data() + hex.size())
    f.raw().fail("checksum", "'{}', expected eight hexadecimal digits", make_printable(hex));
  f.finish();
  return p;
}

}  // namespace

std::string plan_json(const Plan& p) { return plan_json(p, Json()); }

std::string plan_json(const Plan& p, const Json& report) {
  Json layers = Json::array(), ranks = Json::array(), families = Json::array(), stages = Json::array();
  for (const PlannedLayers& l : p.layers) layers.push_back(layers_json(l));
  for (const PlannedRank& r : p.ranks)
    ranks.push_back({{"node", r.node},
                     {"peak_bytes", tiers_json(r.peak)},
                     {"capacity_bytes", tiers_json(r.capacity)},
                     {"busy_ps", r.busy_ps},
                     {"begin_ps", r.begin_ps},
                     {"tail_ps", r.tail_ps}});
  for (const PlannedFamily& f : p.families) families.push_back(family_json(f));
  for (const PlannedStage& s : p.stages)
    stages.push_back({{"forward_ps", s.forward_ps},
                      {"backward_ps", s.backward_ps},
                      {"weight_ps", s.weight_ps},
                      {"send_forward_ps", s.send_forward_ps},
                      {"send_backward_ps", s.send_backward_ps}});
  Json json = {{"version", 1},
               {"model", p.model},
               {"parameters", p.parameters},
               {"hardware", p.hardware},
               {"node", p.node},
               {"job", job_json(p.job)},
               {"choice", choice_json(p.choice)},
               {"idle_devices", p.idle_devices},
               {"layers", layers},
               {"predicted",
                {{"step_ps", p.step_ps},
                 {"flops_share", p.flops_share},
                 {"price_per_hour", p.price_per_hour},
                 {"ranks", ranks},
                 {"binds", p.binds}}},
               {"proof",
                {{"bound_ps", p.bound_ps},
                 {"model_ps", p.model_ps},
                 {"model_bound_ps", p.model_bound_ps},
                 {"choices",
                  {{"legal", p.counts.legal},
                   {"by_bound", p.counts.by_bound},
                   {"by_search", p.counts.by_search},
                   {"open", p.counts.open}}},
                 {"restrictions", p.restrictions},
                 {"families", families}}}};
  if (!report.is_null()) json["report"] = report;
  if (!p.stages.empty()) json["predicted"]["stages"] = stages;
  if (p.program)
    json["predicted"]["program"] = {{"checksum", fmt::format("{:08x}", p.program->checksum)},
                                    {"instructions", p.program->instructions},
                                    {"step_ps", p.program->step_ps}};
  if (p.error)
    json["predicted"]["error"] = {{"software", p.error->software},
                                  {"rows", p.error->rows},
                                  {"low_ps", p.error->low_ps},
                                  {"high_ps", p.error->high_ps},
                                  {"median", p.error->median}};
  return dump_json(json, 2) + "\n";
}

static void read_predicted(const Json& json, const std::string& place, Plan& p) {
  Fields predicted(json, place, "predicted.");
  p.step_ps = predicted.integer("step_ps", 0);
  p.flops_share = predicted.number("flops_share"), p.price_per_hour = predicted.number("price_per_hour");
  for (const Json& row : predicted.array("ranks")) {
    const std::string prefix = "predicted.ranks[" + std::to_string(p.ranks.size()) + "].";
    Fields r(row, place, prefix);
    PlannedRank rank;
    rank.node = r.text("node");
    rank.peak = read_tiers(r.object("peak_bytes"), place, prefix + "peak_bytes.");
    rank.capacity = read_tiers(r.object("capacity_bytes"), place, prefix + "capacity_bytes.");
    rank.busy_ps = r.integer("busy_ps", 0), rank.begin_ps = r.integer("begin_ps", 0);
    rank.tail_ps = r.integer("tail_ps", 0);
    r.finish();
    p.ranks.push_back(rank);
  }
  if (static_cast<int>(p.ranks.size()) != p.choice.num_stages)
    predicted.raw().fail("ranks", "{}, expected one per stage ({})", p.ranks.size(), p.choice.num_stages);
  p.binds = predicted.text("binds");
  if (predicted.has("stages")) p.stages = read_stages(predicted.array("stages"), place, p.choice);
  if (predicted.has("program")) p.program = read_program(predicted.object("program"), place);
  if (const Json* error = predicted.optional("error")) {
    Fields e(*error, place, "predicted.error.");
    p.error = {.software = e.text("software"),
               .rows = e.integer("rows", 1),
               .low_ps = e.integer("low_ps", 0, p.step_ps),
               .high_ps = e.integer("high_ps", p.step_ps),
               .median = e.number("median")};
    e.finish();
  }
  predicted.finish();
}

static void read_proof(const Json& json, const std::string& place, Plan& p) {
  Fields proof(json, place, "proof.");
  p.bound_ps = proof.integer("bound_ps", 0);
  p.model_ps = proof.integer("model_ps", 0), p.model_bound_ps = proof.integer("model_bound_ps", 0);
  Fields counts(proof.object("choices"), place, "proof.choices.");
  p.counts = {counts.integer("legal", 0), counts.integer("by_bound", 0), counts.integer("by_search", 0),
              counts.integer("open", 0)};
  counts.finish();
  for (const Json& row : proof.array("restrictions")) {
    if (!row.is_string()) proof.raw().fail("restrictions", "expected texts");
    p.restrictions.push_back(row.get<std::string>());
  }
  for (const Json& row : proof.array("families")) {
    Fields r(row, place, "proof.families[" + std::to_string(p.families.size()) + "].");
    PlannedFamily family;
    family.feature = r.text("feature"), family.found = r.boolean("found"), family.fits = r.boolean("fits");
    family.choice = r.text("choice");
    family.step_ps = r.integer("step_ps", 0), family.bound_ps = r.integer("bound_ps", 0);
    r.finish();
    p.families.push_back(family);
  }
  proof.finish();
}

static Json parse_plan_json(std::string_view text, const std::string& place) {
  try {
    return parse_json(text, place, kLimits);
  } catch (const Error& error) {
    throw Error(error.kind(), "{}; expected a plan, the file that `tern plan --output PLAN.json` writes", error.what());
  }
}

Plan parse_plan(std::string_view text, std::string_view where) {
  const std::string place(where);
  const Json json = parse_plan_json(text, place);
  Fields f(json, place, "");
  if (const int64_t version = f.integer("version", 0); version != 1)
    f.raw().fail("version", "{}, this tern reads 1", version);
  Plan p;
  p.model = f.text("model"), p.parameters = f.integer("parameters", 0);
  p.hardware = f.text("hardware"), p.node = f.text("node");
  p.job = read_job(f.object("job"), place);
  p.choice = read_choice(f.object("choice"), place);
  p.idle_devices = f.integer("idle_devices", 0, kMaxDegree);
  p.layers = read_layers(f.array("layers"), place, p.choice);
  read_predicted(f.object("predicted"), place, p);
  read_proof(f.object("proof"), place, p);
  f.skip("report");
  f.finish();
  return p;
}

Plan read_plan(const std::string& path) { return parse_plan(real_io().read(path), path); }

}  // namespace tern
