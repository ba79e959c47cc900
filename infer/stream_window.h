#pragma once
// How two neighbouring systems stream a model larger than memory, as settings of ours: no matrix stays that can stream, and a window of whole blocks moves over
// the model. Ours (infer/stream_plan.h) keeps what fits, spread evenly, and lends few short bands at a time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/ring_window.h"

namespace tern {

struct ModelSpec;
struct FileBands;

/// What a window counts. block: the attention or the MLP of a layer (a unit of the model). layer: both. The head is one of its own in either.
enum class WindowOf : uint8_t { block, layer };

/// A window over a model's blocks or layers.
/// Source  blocks, step 1: TPI-LLM's memory window (Li et al. 2024, arXiv:2410.00531, recalled; its public code read: blocks input, attention and MLP
///         of each layer, output; the next ones are loaded until W are there, by default 2; a block is released whole). Here as in the paper
///         the window goes on into the next token, where that code drops it at the first block. Ours are: of the table of
///         tokens only the rows of a step's tokens are read, so input is no block; norms and small matrices stay.
///         layers: Superpipeline has two parameters, k layers in memory and k′ moved at a time (Abbasi & Lim 2024, arXiv:2410.08791; its abstract was
///         seen, its full text not). Our variant of them: layers are given back k′ at a time, counted from the first of a token on, and as
///         many are read then.
struct StreamWindow {
  WindowOf of = WindowOf::block;
  int resident = 2;  // W; k
  int step = 1;      // k′
  friend bool operator==(const StreamWindow&, const StreamWindow&) = default;
};

/// "blocks" or "layers".
std::string_view name_of(WindowOf);
/// "2 blocks", "4 layers, 2 at a time".
std::string describe(const StreamWindow&);

/// The unit in which each matrix is multiplied.
std::vector<int> units_of_matrices(const ModelSpec&, const FileBands&);
/// The window over bands of which none stays. Errors: usage: a mixture, of which a token reads what it chooses; nothing that can be read in
/// bands; more blocks at a time than the model has.
RingWindow ring_window(const ModelSpec&, const FileBands&, const StreamWindow&);
/// The most bytes of bands that such a window holds at a time. The ring's slots take more, as each has room for the longest band.
int64_t window_bytes(const FileBands&, const RingWindow&);

}  // namespace tern
