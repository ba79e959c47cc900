#pragma once
// Where a verb's keys and values lie: in memory, or those of some layers on a disk.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "infer/kv_on_disk.h"
#include "infer/memory_fit.h"

namespace tern {

class Options;
class InferenceWeights;

/// What --kv-place and --kv-dir allow.
struct KvPlace {
  bool memory = true, disk = false;
  std::string directory;
  int64_t free_bytes = 0;  // on that disk
};
/// Errors: usage: --kv-place disk or --kv-dir with a folder in memory; --kv-dir with --kv-place memory; bad_file: no such folder.
KvPlace kv_place(const Options&);

/// How many layers may keep their keys and values on the disk: the candidates, ascending; each takes less memory than those
/// before. Never empty. Errors: with --kv-place disk: does_not_fit: the disk is too small; usage: the model keeps no keys.
std::vector<int64_t> kv_layers_to_weigh(const KvPlace&, const ModelDescription&, const InferenceNeeds&);

/// Bytes that a step moves for its keys and values if each of its sequences has `past` keys.
KvMoved kv_step_bytes(const ModelDescription&, const InferenceNeeds&, int64_t past);

/// The bytes of kv_step_bytes, plus, for each layer on the disk, the bytes that the disk could have read in the latency of a
/// read and a write. This number can be compared with bytes of weights.
double kv_step_cost(const ModelDescription&, const InferenceNeeds&, int64_t past);
/// Whether a step with needs.kv_on_disk layers on the disk may move fewer bytes than one with none. It may only if these layers
/// free more bytes of memory than kv_step_cost, as a freed byte saves a step the reading of at most one byte of weights.
bool kv_may_pay(const ModelDescription&, const InferenceNeeds&, int64_t past);

/// Calls `make` for each number of kv_layers_to_weigh and returns the room in which a token moves the fewest bytes. A room is any struct with
/// a member `weights`, the plan of weights that it has space for. make(needs): the room for these needs; bytes(room): what a token
/// moves in it; past: tokens of a text, for kv_may_pay.
/// Errors: those of kv_layers_to_weigh; does_not_fit of `make`, with the most layers on the disk, if none fits.
template <class Make, class Bytes>
auto room_of_fewest_bytes(const KvPlace& place, const ModelDescription& model, InferenceNeeds needs, int64_t past,
                          const Make& make, const Bytes& bytes) {
  std::optional<decltype(make(needs))> best;
  std::exception_ptr refused;
  for (const int64_t layers : kv_layers_to_weigh(place, model, needs)) {
    needs.kv_on_disk = layers;
    if (best && !kv_may_pay(model, needs, past)) continue;
    try {
      auto room = make(needs);
      if (!best || bytes(room) < bytes(*best)) best = std::move(room);
      if (!best->weights.stream && layers == 0) break;  // the disk has nothing to do
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::does_not_fit) throw;
      refused = std::current_exception();  // the last names the least memory
    }
  }
  if (!best) std::rethrow_exception(refused);
  return std::move(*best);
}

/// Tells the user before the first token where keys and values lie; says nothing if all lie in memory.
void tell_kv_before(const KvPlace&, const ModelDescription&, const InferenceNeeds&, int64_t past,
                    const InferenceWeights&);
/// The bytes that were moved, for people.
std::string kv_words(const KvOnDisk&);
Json kv_json(const KvOnDisk&);

}  // namespace tern
