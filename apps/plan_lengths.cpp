#include "apps/plan_lengths.h"

#include "base/error.h"
#include "base/options.h"
#include "plan/window_mix.h"

namespace tern {

JobLengths job_lengths(const Options& o, const ModelSpec& spec) {
  if (!o.has("lengths")) {
    if (o.given("batching")) throw Error(ErrorKind::usage, "plan: --batching is of --lengths FILE; give that too");
    return {};
  }
  for (const Unit& unit : spec.units)
    if (std::holds_alternative<BridgeSpec>(unit.spec))
      throw Error(
          ErrorKind::usage,
          "plan: --lengths is of one sequence, and this model reads one beside the one it writes; leave it out");
  if (o.has("emit"))
    throw Error(ErrorKind::usage,
                "plan: --emit {} with --lengths: its command line does not say that attention stays inside each "
                "sequence, or how a batch is filled up, so what it runs may be another thing; leave one of them out",
                o.text("emit"));
  const Batching batching = o.text("batching") == name_of(Batching::padded) ? Batching::padded : Batching::packed;
  SequenceLengths lengths = read_sequence_lengths(o.text("lengths"));
  JobLengths out{
      .batching = batching, .sequences = lengths.sequences, .tokens = lengths.tokens, .crc = lengths.crc(), .mix = {}};
  out.mix = std::make_shared<WindowMix>(std::move(lengths), batching);
  return out;
}

}  // namespace tern
