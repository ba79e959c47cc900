#pragma once
// An optimizer state that lies in a file. UPDATE passes it through memory, one subgroup of elements after the other; subgroups are read ahead
// and written back behind. Weights and gradients stay in memory. Results have the same bits as with the state in memory.

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

/// One tensor of a parameter's state: its master, or one of its slots, by the index in UpdateRuleRow::slots.
struct StoredField {
  int slot = kMasterField;
  DType type = DType::f32;
  int64_t elements = 0;
  int64_t bytes() const { return elements * size_of(type); }
};
struct StoredParameter {
  std::vector<StoredField> fields;
  std::vector<Interval> parts;  // of its elements, each a subgroup; one part for all if the rule needs the whole
  size_t first_record = 0;      // the index in StoredLayout::records of its first part; the others follow
};

/// How the states of some parameters lie in a file, and the parts in which they are changed. A part's fields lie side by side, each
/// aligned to kStoredAlignment, so that a part is read and written in one go.
struct StoredLayout {
  std::vector<StoredParameter> parameters;
  std::vector<ExchangedRecord> records;  // one for each part, with an extent for each field of its parameter
  int64_t state_bytes = 0;               // of all fields; without weights_too equal to state_bytes (spec/update_rule.h)
  int64_t file_bytes = 0;                // with the padding between fields
};
inline constexpr int64_t kStoredAlignment = 4096;

/// `subgroup`: elements, a multiple of kUpdateBlock. weights_too: empty, or for each parameter whether its master lies in the file even
/// if the master is the weight. Errors  TERN_CHECK: `subgroup` is no such multiple; why_not_stored refuses the rule.
StoredLayout stored_layout(const std::vector<ParameterForm>&, const UpdateConfig&, DType weights, int64_t subgroup,
                           const std::vector<bool>& weights_too = {});
/// Why states of this rule cannot lie in a file; "": they can.
std::string why_not_stored(const UpdateConfig&);

/// How states pass through memory: the size of a subgroup, and the slots and threads of the ring.
struct StoredPassage {
  int64_t subgroup = 4 * kUpdateBlock;  // elements
  RingSettings ring{.slots = 4, .threads = 4};
};
/// The passage with the largest subgroups, of 4 Mi to 256 Ki elements, that takes at most 1/16 of the states' bytes; if none does, the smallest.
StoredPassage stored_passage(const std::vector<ParameterForm>&, const UpdateConfig&, DType weights,
                             const std::vector<bool>& weights_too = {});
/// Bytes of memory that the passage takes: the ring's slots, a block to copy through, and room to align both.
int64_t passage_bytes(const StoredLayout&, const StoredPassage&);

/// A state whose masters and slots are empty tensors, except masters that are the weights. The slots in a new file are zeros.
OptimizerState stored_optimizer_state(const ModelSpec&, ModelWeights&, const UpdateConfig&);

class StoredStates {
 public:
  /// The file must be new: it begins as zeros. The passage's memory is the arena's (MemoryClass::optimizer). Errors: those of open_scratch.
  StoredStates(OpenedScratch, StoredLayout, const StoredPassage&, Arena&, Clock& = real_clock());

  const StoredLayout& layout() const { return layout_; }
  ReadWay way() const { return opened_.way; }
  const std::string& note() const { return opened_.note; }
  /// The field of a slot, or of the master (kMasterField); nullptr: it is not in the file.
  const StoredField* field(size_t parameter, int slot) const;
  /// Writes all elements of a field. Only before begin. Errors: those of write_blocks.
  void write(size_t parameter, int slot, std::span<const std::byte>);
  /// Passes a field's bytes to `sink` in pieces, in order. No part may be acquired then. Errors: those of settle and of read_extent.
  void read(size_t parameter, int slot, const std::function<void(std::span<const std::byte>)>& sink);

  /// Measures the disk, reading and writing together: some parts are read and written back unchanged, for about `seconds`. Only
  /// before begin. Errors: those of ExchangeRing.
  ProbedRate probe(double seconds);
  /// From now on each step acquires parts, parameter after parameter in this order. Reading ahead begins at once.
  void begin(std::span<const size_t> parameters);
  /// A part's master (empty: it is the weight) and slots (empty: nothing is kept), in memory, each as one row of numbers.
  struct Part {
    Interval elements;
    Tensor master;
    std::vector<Tensor> slots;
  };
  /// Brings a part into memory. Parameters come in the order of begin, and each one's parts in their order. Errors: those of ExchangeRing.
  Part acquire(size_t parameter, size_t part);
  void release();
  /// Waits until all released parts are in the file. Errors: those of writing it.
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
  std::vector<int> place_of_record_;  // by record of layout_: its number in the ring's order
  std::unique_ptr<ExchangeRing> ring_;
};

/// update_parameters for one parameter whose state is in a file; the results have the bits of a state in memory. `changed` gets
/// each part after its step, before the part is written back.
void update_stored(const UpdatePass&, const UpdateNorm&, size_t parameter, Arena&,
                   const std::function<void(const StoredStates::Part&)>& changed = {});

}  // namespace tern
