#pragma once
// An optimizer's state that lies in a file: what UPDATE changes of it passes through memory subgroup by subgroup, read ahead and
// written behind. Weights and gradients stay in memory, and results have the same bits.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spec/update_rule.h"
#include "store/exchange_ring.h"
#include "store/read_probe.h"
#include "store/scratch_file.h"
#include "update/pass.h"

namespace tern {

inline constexpr int kMasterField = -1;

/// One tensor of a parameter's state: the master, or a slot, by its index in UpdateRuleRow::slots.
struct StoredField {
  int slot = kMasterField;
  DType type = DType::f32;
  int64_t elements = 0;
  int64_t bytes() const { return elements * size_of(type); }
};
struct StoredParameter {
  std::vector<StoredField> fields;
  std::vector<Interval> parts;  // of its elements: a subgroup each; the whole where the rule needs it
  size_t first_record = 0;      // the index in StoredLayout::records of its first part; its other parts follow
};

/// How the states of some parameters lie in a file, and in what parts they are changed. A part's fields lie side by side, each
/// from a multiple of kStoredAlignment on, so that the part is read and written in one go.
struct StoredLayout {
  std::vector<StoredParameter> parameters;
  std::vector<ExchangedRecord> records;  // of all parts; an extent for each field of the parameter
  int64_t state_bytes = 0;               // of all fields; without weights_too: spec/update_rule.h's state_bytes
  int64_t file_bytes = 0;                // with what lies between them
};
inline constexpr int64_t kStoredAlignment = 4096;

/// `subgroup`: elements, a multiple of kUpdateBlock. weights_too: empty, or for each parameter whether its master lies in the
/// file even where the master is the weight. Errors  TERN_CHECK: another `subgroup`; a rule that why_not_stored refuses.
StoredLayout stored_layout(const std::vector<ParameterForm>&, const UpdateConfig&, DType weights, int64_t subgroup,
                           const std::vector<bool>& weights_too = {});
/// Why states of this rule cannot lie in a file; empty: they can.
std::string why_not_stored(const UpdateConfig&);

/// The passage through memory.
struct StoredPassage {
  int64_t subgroup = 4 * kUpdateBlock;  // elements
  RingSettings ring{.slots = 4, .threads = 4};
};
/// A passage that takes a sixteenth of the states at most, in subgroups of 256 Ki to 4 Mi elements; the smallest where none does.
StoredPassage stored_passage(const std::vector<ParameterForm>&, const UpdateConfig&, DType weights,
                             const std::vector<bool>& weights_too = {});
/// Bytes of memory that the passage takes: its slots, a block to copy through, and the alignment of both.
int64_t passage_bytes(const StoredLayout&, const StoredPassage&);

/// masters and slots are empty tensors, except masters that are the weights. Slots begin as the zeros of a new file.
OptimizerState stored_optimizer_state(const ModelSpec&, ModelWeights&, const UpdateConfig&);

class StoredStates {
 public:
  /// A file of zeros. The passage's memory is the arena's (MemoryClass::optimizer). Errors: those of open_scratch.
  StoredStates(OpenedScratch, StoredLayout, const StoredPassage&, Arena&, Clock& = real_clock());

  const StoredLayout& layout() const { return layout_; }
  ReadWay way() const { return opened_.way; }
  const std::string& note() const { return opened_.note; }
  /// The field of a slot, or the master; nullptr: there is none.
  const StoredField* field(size_t parameter, int slot) const;
  /// Writes all elements of a field. Only before begin. Errors: those of write_blocks.
  void write(size_t parameter, int slot, std::span<const std::byte>);
  /// Passes a field's bytes to `sink` in pieces, in order; no part may be acquired. Errors: of settle and read_extent.
  void read(size_t parameter, int slot, const std::function<void(std::span<const std::byte>)>& sink);

  /// Measures the disk, both ways together: some parts are read and written back, unchanged, for about `seconds`. Only
  /// before begin. Errors: those of ExchangeRing.
  ProbedRate probe(double seconds);
  /// From now on parts are acquired, parameter after parameter in this order, in each step. Reading ahead begins at once.
  void begin(std::span<const size_t> parameters);
  /// A part's master (empty: the weight is it) and slots (empty: none), in memory, each as one row of numbers.
  struct Part {
    Interval elements;
    Tensor master;
    std::vector<Tensor> slots;
  };
  /// Brings a part into memory. Parts come in the order of begin, and of each parameter from its first on. Errors: those of ExchangeRing.
  Part acquire(size_t parameter, size_t part);
  void release();
  /// Waits until all that was released is in the file. Errors: of writing it.
  void settle();
  ExchangeCounts counts() const { return ring_ ? ring_->counts() : ExchangeCounts{}; }

 private:
  OpenedScratch opened_;
  StoredLayout layout_;
  StoredPassage passage_;
  size_t place_of(size_t parameter, int slot) const;  // among the parameter's fields
  size_t num_slots_ = 0;
  Clock& clock_;
  Tensor memory_;
  std::span<std::byte> slots_memory_, bounce_;
  std::vector<int> place_of_record_;  // in the ring's order
  std::unique_ptr<ExchangeRing> ring_;
};

/// update_parameters for one parameter whose state is stored; the results have the bits of a state in memory. `changed` sees
/// each part after its step, before the part is written back.
void update_stored(const UpdatePass&, const UpdateNorm&, size_t parameter, Arena&,
                   const std::function<void(const StoredStates::Part&)>& changed = {});

}  // namespace tern
