#pragma once
// Inference as a Program: what steps of inference on one device read from the disk, compute and write, in order. A step is one batch: a
// chunk of a prompt, or one token of each sequence. A micro-batch of the Program is a step.

#include <cstdint>
#include <optional>
#include <vector>

#include "program/program.h"
#include "spec/unit_cost.h"
#include "store/ring_window.h"

namespace tern {

/// What products with one (out, in) matrix take as workspace, beside what unit_cost counts.
struct ProductWorkspace {
  int64_t out = 0, in = 0;
  int64_t decoded_bytes = 0;  // of rows that are decoded or packed for the time of a product; 0: multiplied as they lie
  friend bool operator==(const ProductWorkspace&, const ProductWorkspace&) = default;
};

/// What a unit's weights say of every step.
struct InferenceUnit {
  // The parts of its FORWARD behind part 0, in order: the bytes that the disk reads (whole blocks) for the extent that the part uses, or 0:
  // the part uses no extent.
  std::vector<int64_t> parts;
  // Of a mixture whose experts are read as its router chooses them: the part that ends with the router's answer. The parts of its experts
  // (InferenceStep::experts) stand behind `parts`.
  std::optional<int> router_part;
  std::vector<ProductWorkspace> products;  // of matrices that take workspace; of two of one shape the larger sum counts
  std::vector<ProductWorkspace> expert_products;  // of matrices of experts
  // Of the embedding, if its table stays in a file: a token reads its row to workspace.
  int64_t table_row_bytes = 0;
};

/// Bytes of keys and values on the disk. Of a layer in a step: read before its unit's FORWARD, written behind it.
struct KvMoved {
  int64_t read = 0, written = 0;
  int64_t bytes() const { return read + written; }
  friend bool operator==(const KvMoved&, const KvMoved&) = default;
};

/// A matrix of an expert: buffer `expert` of a unit.
struct ExpertMatrix {
  int unit = 0, number = 0;  // number: twice the expert's, + 1 for its `down`
  friend bool operator==(const ExpertMatrix&, const ExpertMatrix&) = default;
};
/// One use of such a matrix in a step.
struct ExpertUse {
  std::optional<int> number;  // none: the router has not chosen yet, and `bytes` is what is expected to be read
  bool read = true;           // false: it is there
  int64_t bytes = 0;          // that the disk reads, if it is read
  std::optional<ExpertMatrix> replaces;  // whose slot it takes, if it is read; none: the slot is empty
};

struct InferenceStep {
  // Of the whole batch. The scratch function is asked for products that no ProductWorkspace is of (adapters).
  CostQuery query;
  int64_t logit_rows = 0;                       // 0: the head does not run
  std::vector<std::optional<KvMoved>> keys;     // of each unit; empty: no keys lie on the disk
  std::vector<std::vector<ExpertUse>> experts;  // of each unit, in the order of its products; empty: none are read
};

/// What lower_inference reads.
struct InferenceInput {
  // As many as the model has, or none: all weights stay, and products need no workspace.
  std::vector<InferenceUnit> units;
  std::vector<InferenceStep> steps;
  int extent_slots = 0, keys_slots = 0;                // 0: no extents are read; no keys are
  int64_t extent_slot_bytes = 0, keys_slot_bytes = 0;  // of one
  int64_t weight_bytes = 0, page_bytes = 0;            // of what stays in memory
  std::vector<int64_t> expert_slot_bytes;              // of each slot
  std::vector<ExpertMatrix> experts_there;             // before the first step
  // Of the extents of a pass that runs the head. No blocks: of single extents, as many as there are slots.
  RingWindow extent_window = {};
};

/// The list of these steps on one device; micro = the number of the step.
/// FORWARD   in parts. Part 0 runs until the unit uses its first extent. A part that uses an extent waits for the extent's LOAD, and ends
///           when the extent is given back; a part behind it that uses none (InferenceUnit::parts) runs until the next extent. All parts
///           read the unit's input; part 0 reads the keys of a layer on the disk, and allocates the output; the last part frees the input.
/// LOAD      of extent k waits for the part that used extent k − extent_slots, or, in a window of blocks, for the last part of the blocks that
///           are given back for it (RingTurns::freed_by). Extents are counted over all steps, with those of heads that do not run; if the
///           one that it would wait for is of such a head, it waits for the last part before. It stands in the list where it may
///           first begin: the first LOADs at the begin, each other one behind the part that it waits for. So the first
///           extents of a step are read while the step before computes. A block is lent as a whole: its first part waits for all of its LOADs.
/// Keys      The LOAD of the i-th layer on the disk, counted in its step, waits for the STORE of layer i − keys_slots. The first keys_slots of a step
///           wait for the end of the step before: for its last FORWARD and its last STORE, for which the step's first FORWARD waits too. A STORE
///           waits for its unit's FORWARD. Each layer on the disk has a LOAD and a STORE, even if they move no bytes.
/// Head      Its FORWARD makes logits of logit_rows rows. They belong to the caller, so the list frees them with the head's last part. Drawing
///           tokens from them is not in the list.
/// Bytes     Extents and keys lie in slots, which are resident; so `extent` and `keys` have 0 bytes, and no LOAD allocates any on
///           the device. message_bytes of LOAD and STORE: what the disk moves. Outputs and workspace are unit_cost's of a forward that keeps
///           nothing, and ProductWorkspace's; the workspace of all parts of a unit is the unit's peak. Flops and bytes_moved of a unit stand at its part 0.
/// Disk      is one resource that does one thing after the other, in list order. The rings depart from that: several threads read at once, writes
///           of keys go first, and the two rings run beside each other, perhaps on two disks (--kv-dir).
/// Experts   of a mixture are read as its router chooses. Each use (InferenceStep::experts) is a part of its unit's FORWARD, which reads the matrix.
///           Its LOAD, if it is not there, waits for the router's part; it frees the matrix whose slot it takes, and if an earlier part of
///           the unit uses that one, it waits for this part instead. An expert stays until it is replaced, beyond its step and the list.
///           Before the router has chosen, a use without a number is a LOAD of its expected bytes (expected_expert), which its part frees.
///           What products of experts take as workspace depends on the rows of each: of a step of several tokens the list has a bound.
/// Errors    TERN_CHECK: numbers of units that differ; extents or keys without slots; fewer than two units.
Program lower_inference(const ModelSpec&, const InferenceInput&);

}  // namespace tern
