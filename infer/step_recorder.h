#pragma once
// What steps of inference did, instruction by instruction of their Program: when, and in how many bytes. A model_executor tells a StepRecorder
// of each step; recorded_steps then puts the records beside the list.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "infer/step_program.h"
#include "program/simulate.h"
#include "program/trace.h"
#include "store/extent_ring.h"
#include "store/image_ring.h"
#include "tensor/arena.h"

namespace tern {

/// One unit's FORWARD.
struct RecordedUnit {
  int unit = 0;
  int64_t begin_ns = 0, end_ns = 0;  // begin: its keys are there
  // Of the arena, beside what was alive before the step; without what the step gives its caller.
  InstructionBytes bytes;
};
struct RecordedStep {
  StepBatch batch;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t keys_pass = 0;  // ImageMove::pass of its keys
  std::vector<RecordedUnit> units;
  std::vector<RingLease> leases;
  std::vector<ExtentCache::Event> routing;  // of experts that are read as the router chooses them
  std::vector<RingLease> expert_leases;
};

struct RecorderSettings {
  int64_t first = 0;  // how many steps are left out first
  int64_t count = 1;  // how many are recorded then
  // Steps that do more than decode one token of each sequence are neither counted nor recorded: with tokens of a prompt, or with guesses.
  bool only_single_tokens = false;
};

/// Records the steps of one executor. Rings are recorded from its first step on, so that reads ahead of the first recorded step are known.
class StepRecorder {
 public:
  explicit StepRecorder(const RecorderSettings& settings, Clock& clock = real_clock())
      : settings_(settings), clock_(clock) {}
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Whether as many steps as wanted are recorded. Nothing is recorded after that.
  bool complete() const { return std::ssize(steps_) == settings_.count; }
  std::span<const RecordedStep> steps() const { return steps_; }
  const StepWeights& weights() const { return weights_; }
  std::span<const RingRead> reads() const { return reads_; }
  std::span<const ImageMove> moves() const { return moves_; }
  /// What the first recorded step found; none: no experts are read.
  const std::optional<CacheDecisions>& experts() const { return experts_; }
  std::span<const RingRead> expert_reads() const { return expert_reads_; }

  /// Called by the executor, in this order. A step that is begun and not ended, because it threw, is forgotten and not counted; where
  /// experts are read, so are the steps that were recorded before it, as it may have left other experts than they did. `on_disk`: may be null.
  void begin_step(const StepBatch&, bool only_single_tokens, const StepWeights&, KvOnDisk* on_disk, Arena&);
  void begin_unit(int unit);
  /// `given_bytes`: of the step's last unit, those of its output, which belongs to the caller from here on and which the list frees here.
  void end_unit(int64_t given_bytes);
  void end_step();

 private:
  int64_t now(MemoryClass c) const { return arena_->current()[static_cast<size_t>(c)]; }

  RecorderSettings settings_;
  Clock& clock_;
  StepWeights weights_;
  KvOnDisk* on_disk_ = nullptr;
  Arena* arena_ = nullptr;
  int64_t seen_ = 0;       // steps that counted and have ended
  bool counts_ = false;    // the step at hand counts
  bool wanted_ = false;    // the step at hand is recorded
  RecordedStep step_;      // at hand
  int64_t before_ = 0;     // activations before the step
  int64_t workspace_ = 0;  // before the unit
  std::optional<PeakScope> scope_;
  std::vector<RecordedStep> steps_;
  std::vector<RingRead> reads_;
  std::vector<ImageMove> moves_;
  bool open_ = false;  // a step was begun and has not ended
  std::optional<CacheDecisions> experts_;
  std::vector<RingRead> expert_reads_;
};

/// Recorded steps beside their Program.
struct RecordedSteps {
  Program program;
  // One for each instruction, in seconds from the begin of the first recorded step: reads ahead of it begin before 0.
  std::vector<TraceEvent> events;
  std::vector<int64_t> moved;           // bytes counted of each LOAD and STORE; −1: not recorded, and of others
  std::vector<InstructionBytes> bytes;  // of each FORWARD: counted in its unit; all parts have the unit's peaks
  std::vector<std::string> mismatches;  // each count that is not what the Program says
  std::vector<std::string> notes;       // what was not recorded
};
/// A LOAD lasts as long as its read. A part with an extent begins when the extent is there, and ends when it is given back if a part without extent
/// follows, else when the next extent is asked for; a part without extent, and part 0, end when the next extent is asked for, or with the unit.
/// The Program's replay says the device bytes: compared are those before part 0, those after the last part, and both peaks. Of units whose
/// experts are read the workspace of a step of several tokens may be less than the list's.
/// Experts: the list has those that the decisions (store/cache_decisions.h) give for the recorded routing, and beside them what the cache did.
/// Notes say of how many LOADs no record is there, because they ended before the first step was recorded.
/// `pool`: of the executor's batches. Errors: TERN_CHECK: leases that the list does not have, or has and which are missing.
RecordedSteps recorded_steps(const ModelSpec&, const StepRecorder&, const KvPool& pool);

/// What the simulator predicts of steps such as the recorded ones, once the ring has filled: events of the same instructions, in seconds from the begin of the
/// first one's first FORWARD. Times: step_times. Experts: those of the recorded routing; in the steps before, an expectation.
std::vector<TraceEvent> predicted_steps(const ModelSpec&, const StreamPlan&, const StreamRates&, const StepRecorder&,
                                        const KvPool& pool);
/// Moves both runs by the same time, so that neither begins before 0.
void begin_at_zero(std::vector<TraceEvent>& one, std::vector<TraceEvent>& other);

}  // namespace tern
