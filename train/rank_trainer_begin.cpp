#include "train/rank_trainer.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/system.h"
#include "base/units.h"
#include "base/wide_type.h"
#include "comm/equal_facts.h"
#include "exec/stage_messages.h"
#include "formats/data/pack.h"
#include "kernels/onednn/fast_matmul.h"
#include "model/allocate_weights.h"
#include "model/linear.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"
#include "program/checksum.h"
#include "program/lower.h"
#include "program/validate.h"
#include "train/disk_fit.h"
#include "train/mesh_fit.h"
#include "train/metric_rows.h"
#include "train/nearest_fits.h"
#include "train/plan_settings.h"
#include "train/robust_settings.h"
#include "train/run_checks.h"
#include "train/settings_facts.h"
#include "train/settings_ranks.h"
#include "train/step_placement.h"
#include "train/step_trace.h"
#include "train/stored_run.h"
#include "train/tensor_groups.h"
#include "train/tensor_state.h"
#include "train/update_notes.h"
#include "train/zeroth_run.h"

namespace tern {
namespace {

// In the order of units, which is that of the passes.
std::vector<size_t> parameters_with_fields(const StoredStates& states) {
  std::vector<size_t> order;
  const std::vector<StoredParameter>& all = states.layout().parameters;
  for (size_t p = 0; p < all.size(); ++p)
    if (!all[p].fields.empty()) order.push_back(p);
  return order;
}

constexpr double kDiskProbeSeconds = 0.3;
constexpr int64_t kProbedStates = int64_t{64} << 20;  // fewer pass in no time

// Adapters that train B alone leave A as it is.
void leave_a_undecayed(std::vector<ParameterInfo>& infos) {
  for (ParameterInfo& info : infos)
    if (info.name.ends_with(".a")) info.decay = false;
}

// `run`: on the first rank.
SharedPlace place_of_first(Comm& world, const RunDirectory* run) {
  return {.checkpoints = world.broadcast(run ? run->checkpoints() : "", 0),
          .id = world.broadcast(run ? run->id() : "", 0)};
}

void add_companion(const StepCompanion::Bytes& bytes, PredictedMemory& memory) {
  memory.weights += bytes.read;
  memory.optimizer += bytes.state;
  memory.staging += bytes.state;
  if (memory.beginning > 0) memory.beginning += bytes.read + bytes.state;
}

}  // namespace

// What it would take, before anything is opened for writing or allocated.
void RankTrainer::predict() {
  in_ = load_inputs(s_);
  if (leads() && !s_.output.empty()) check_output(io_, s_.output, in_.dir);
  for (const std::string& text : in_.notes) note(text);
  check_planned_model(in_.spec, s_);
  check_expert_ranks(in_.spec, s_);  // first: its word for experts beside tensor parallelism is the better one
  check_tensor_ranks(in_.spec, s_);
  if (s_.outer)
    if (const std::string fault = outer_fault(*s_.outer, static_cast<int>(in_.spec.units.size())); !fault.empty())
      throw Error(ErrorKind::usage, "{}", fault);
  check_context_ranks(in_.spec, s_);
  part_ = part_of_rank(in_.spec, {.ranks = s_.tensor});
  if (s_.multiply == Multiply::fast) load_fast_matmul();
  const int64_t process = program_bytes() * (worker_.processes_here > 0 ? s_.ranks : 1);
  result_.predicted = predict_memory(in_.spec, s_, process);
  if (hooks_.companion) add_companion(hooks_.companion->bytes(in_.spec, s_.dtype), result_.predicted);
  result_.num_parameters = num_parameters(in_.spec);
  if (hooks_.predicted) hooks_.predicted(result_.predicted, in_.spec);
  for (const std::string& text : update_notes(in_.spec, s_)) note(text);
  if (leads()) check_room(process);
  world().barrier();  // nobody takes memory before that
  place_ = rank_place(in_.spec, s_, worker_.rank());
  if (s_.perturbation) {
    all_ = program_ = zeroth_program(in_.spec, s_);
    check_valid(all_, ProgramKind::forward);
  } else {
    const Placement placement = step_placement(in_.spec, s_, rank_batch(s_));
    all_ = lower(in_.spec, placement);
    check_valid(all_);
    program_ = all_.num_ranks == 1 ? all_ : lower(in_.spec, placement, place_.device);
  }
  arrivals_ = arrivals_of(all_, place_.device);
  result_.program_checksum = checksum(all_);
  if (const std::string text = leads() ? plan_difference(s_, result_.program_checksum) : ""; !text.empty()) note(text);
}

// All that would make ranks train unlike models, or sum unlike lists.
void RankTrainer::require_same_run() {
  Facts facts = settings_facts(s_, identify(s_, in_, *feed_));
  for (Facts::value_type& fact : made_by(s_, worker_.threads)) facts.push_back(std::move(fact));
  facts.emplace_back("program", fmt::format("{:08x}", result_.program_checksum));
  facts.emplace_back("tp-comm-overlap", s_.tensor_overlap ? "on" : "off");  // the same bits, but other messages
  require_equal_facts(world(), facts);
}

void RankTrainer::check_room(int64_t process) {
  // What is resident already is not available any more.
  int64_t budget =
      s_.memory_bytes ? *s_.memory_bytes : read_memory_facts().available_bytes + read_process_memory().resident_bytes;
  if (worker_.processes_here > 0) budget = budget / worker_.processes_here * s_.ranks;  // of machines like this one
  text_room_ = budget - process;
  require_fit(in_.spec, s_, result_.predicted, process, budget,
              s_.memory_bytes ? "allowed by --memory" : "free on this machine");
  require_disk(predict_disk(in_.spec, s_, io_), s_, io_);
  check_data_files(s_, in_);
  require_trace_place(s_.trace, io_);
}

void RankTrainer::open() {
  if (leads()) {
    run_ = std::make_unique<RunDirectory>(io_, s_.output, s_.adapter ? "adapter" : "model");
    for (const std::string& text : run_->notes()) note(text);
    phase("reading the data");
    open_feed_of_run();
    world().barrier();
  } else {
    world().barrier();  // packed by now
    open_feed_of_run();
  }
  require_same_run();
  require_loss(s_, *feed_);
  if (!leads()) return;
  note(describe_windows(*feed_, s_.seq));
  count_documents(*feed_, s_.ranks, text_room_, result_.predicted);
  if (!s_.valid_data.empty()) {
    held_out_ = std::make_unique<Feed>(
        open_feed(s_, in_, s_.valid_data, run_->data(), {.seq = s_.seq, .shuffle = false}, pack_options(), io_));
    count_documents(*held_out_, 1, text_room_, result_.predicted);
  }
  settings_ = settings_facts(s_, identify(s_, in_, *feed_));
}

void RankTrainer::open_feed_of_run() {
  const FeedConfig config{.seq = s_.seq, .seed = s_.seed, .shuffle = s_.shuffle};
  feed_ = std::make_unique<Feed>(
      open_feed(s_, in_, s_.data, RunDirectory::data_of(s_.output), config, pack_options(), io_));
}

// Rank 0 packs, and alone: what is left for a text is all that the run may take beside the program.
PackOptions RankTrainer::pack_options() {
  PackOptions pack = hooks_.pack;
  if (leads()) pack.memory_bytes = text_room_, pack.most_bytes = &result_.predicted.text;
  if (leads()) pack.tell = hooks_.note;
  return pack;
}

// Up to the checkpoint the log has every evaluation, and whatever was the best then lies in OUT/best.
void RankTrainer::resume_best() {
  best_ = best_of_log(io_, run_->logs(), state_.step);
  if (best_.step < 0) return;
  result_.best = best_;
  if (!s_.keep_best) return;
  const std::optional<ExportOf> there = run_->exported(run_->best());
  if (there && there->step == best_.step)
    result_.best_model = run_->best();
  else
    note(fmt::format(
        "--keep-best: the lowest held-out loss so far was that of step {}, and {} {}; it waits for a lower one",
        best_.step, run_->best(), there ? fmt::format("is of step {}", there->step) : "is not there"));
}

// From now on states are read ahead, in the order in which the Program updates them.
void RankTrainer::begin_stored_states() {
  StoredStates& states = *state_.stored;
  if (!s_.perturbation) update_->stored = &states;  // else PerturbedWeights takes them
  StoredStatesReport& r = result_.stored.emplace();
  r.state_bytes = states.layout().state_bytes;
  std::string disk;
  if (r.state_bytes >= kProbedStates) {
    phase("measuring the disk of the optimizer's states");
    const ProbedRate probed = states.probe(kDiskProbeSeconds);
    r.bytes_per_s = probed.bytes_per_s();
    r.disk_step_seconds = rate(2 * static_cast<double>(r.state_bytes), r.bytes_per_s);
    disk = fmt::format(", which moves {:.2f} GB/s both ways together ({} in {}): no step takes less than {}",
                       1e-9 * r.bytes_per_s, format_bytes(probed.bytes), format_seconds(probed.seconds),
                       format_seconds(r.disk_step_seconds));
  }
  states.begin(s_.perturbation ? parameters_with_fields(states) : update_order(program_, state_.optimizer.infos));
  note(fmt::format("{} of {} lie in a file on the disk of {} ({} reads and writes){}", format_bytes(r.state_bytes),
                   s_.perturbation ? "weights and states" : "optimizer states", states_directory(s_),
                   name_of(states.way()), disk));
  if (!states.note().empty()) note(states.note());
  if (read_disk_facts(states_directory(s_)).file_system == "tmpfs")
    note(fmt::format("{}: its files lie in memory (tmpfs); --states-dir names a folder on a disk",
                     states_directory(s_)));
}

void RankTrainer::prepare() {
  std::string newest;
  if (leads()) {
    const CheckpointSearch search = look_for_checkpoint(io_, *run_, s_.resume, hooks_.note);
    if (search.newest) {
      require_same_settings(*search.newest, settings_, made_by(s_, worker_.threads), hooks_.note);
      newest = search.newest->path;
    }
  }
  newest = world().broadcast(std::move(newest), 0);
  std::vector<NamedTensor> beside =
      hooks_.companion ? hooks_.companion->allocate(in_.spec, s_.dtype, state_arena_) : std::vector<NamedTensor>();
  if (!newest.empty()) {
    phase(fmt::format("reading {}", newest));
    state_ = load_state(s_, in_, io_, newest, read_manifest(io_, newest), state_arena_, shares_of(in_.spec, s_, place_),
                        place_.elsewhere, place_.tensor, std::move(beside));
    result_.checkpoint = newest;
    note(fmt::format("resumed from {}", newest));
  } else {
    phase(s_.from_scratch ? "drawing the first weights" : "reading the weights");
    state_ = fresh_state(s_, in_, state_arena_, shares_of(in_.spec, s_, place_), place_.elsewhere, place_.tensor);
    state_.beside = std::move(beside);
  }
  if (hooks_.companion) hooks_.companion->join(state_.weights);
  if (keeps_a()) leave_a_undecayed(state_.optimizer.infos);
  groups_ = rank_groups(in_.spec, place_, s_.capacity_factor, s_.tensor_overlap, world());
  if (leads() && in_stages() && !parts_alone())
    whole_ = allocate_weights(in_.spec, s_.dtype, MemoryClass::weights, state_arena_);
  if (in_.spec.rope.kind != RopeKind::none) rope_ = rope_table(in_.spec, s_.seq, s_.seq);
  predicted_ = simulate(program_).replay;
  update_.emplace(make_update_pass(part_, state_.optimizer, s_.optimizer, state_.weights, state_.gradients));
  update_->weight_dtype = s_.dtype;
  if (s_.tensor > 1) update_->tensor = tensor_norm(part_, place_, groups_, state_.optimizer.shares);
  if (s_.adapter && s_.adapter->b_rate != 1)
    for (const ParameterInfo& info : state_.optimizer.infos)
      update_->rate_factors.push_back(info.name.ends_with(".b") ? s_.adapter->b_rate : 1);
  if (in_stages() && in_.spec.head().tied && place_.has_last() && !place_.has_first())
    update_->gradients[0] = dense_rows(head_of(state_.gradients).projection);  // of its copy of the table
  begin_gradient_source();
  if (s_.robust) robust_.emplace(RobustStep{.config = *s_.robust, .state = state_.optimizer.robust});
  if (s_.outer) outer_.emplace(OuterStep{.config = *s_.outer, .state = *state_.outer});
  if (state_.stored) begin_stored_states();
  put_weights_at(*update_, WeightPoint::computing);
  std::array<int64_t, 2> states{state_arena_.current_total(), state_.beginning_bytes};
  world().all_reduce(states, Combine::sum);
  others_state_ = states[0] - state_arena_.current_total();
  result_.counted_peak_bytes = states[1];
  if (keeps_apart(s_)) writing_ = place_of_first(world(), run_.get());
  if (!leads()) return;
  // One rank's probe says nothing of several that share the cores.
  if (s_.ranks == 1) result_.peak = peak_rate(s_.dtype, s_.multiply, [&] { phase("measuring the machine's peak"); });
  run_->write_recipe(s_.recipe_toml);
  if (!newest.empty()) resume_best();
  missed_ = newest.empty() ? std::nullopt : row_without_evaluation(s_, io_, run_->logs(), state_.step);
  log_ =
      std::make_unique<MetricsLog>(io_, run_->logs(), newest.empty() ? -1 : state_.step - missed_.has_value(), clock_);
  writer_ = std::make_unique<CheckpointWriter>(
      io_, state_arena_,
      CheckpointWriter::Config{run_->checkpoints(), run_->id(), s_.keep_checkpoints, worker_.rank()});
}

}  // namespace tern
