// What rarely talking ranks keep, wait in and send, in closed form.
#include <algorithm>

#include "spec/collective_bytes.h"
#include "update/outer_average.h"

namespace tern {
namespace {

// Numbers that are summed over ranks in a turn.
int64_t summed_elements(const OuterConfig& c, const OuterFragment& fragment, int64_t turn) {
  if (c.codec != OuterCodec::power_sgd) return elements_in(fragment);
  int64_t elements = 0;
  for (const Shape& shape : fragment) elements += low_rank_form(shape, c.codec_rank).fresh(turn);
  return elements;
}

}  // namespace

int64_t elements_in(const OuterFragment& fragment) {
  int64_t elements = 0;
  for (const Shape& shape : fragment) elements += shape.count();
  return elements;
}

int64_t outer_factor_elements(const OuterConfig& c, std::span<const OuterFragment> fragments) {
  int64_t elements = 0;
  if (c.codec != OuterCodec::power_sgd) return 0;
  for (const OuterFragment& fragment : fragments)
    for (const Shape& shape : fragment) {
      const LowRankForm form = low_rank_form(shape, c.codec_rank);
      elements += form.left() + form.right();
    }
  return elements;
}

int64_t outer_state_bytes(const OuterConfig& c, std::span<const OuterFragment> fragments, int ranks, DType type) {
  const int64_t copies = 1 + (c.momentum > 0) + (c.delay > 0) + (c.codec != OuterCodec::none);
  int64_t elements = ranks * outer_factor_elements(c, fragments);
  for (const OuterFragment& fragment : fragments)
    elements += elements_in(fragment) * (copies * ranks + is_in_codes(c.codec));
  return elements * size_of(type);
}

int64_t outer_staging_bytes(const OuterConfig& c, std::span<const OuterFragment> fragments, int ranks, DType type) {
  int64_t most = 0;
  const int together = c.pairs ? std::min(2, ranks) : ranks;
  for (const OuterFragment& fragment : fragments) {
    if (is_in_codes(c.codec)) {
      const CodedParts parts{c.codec, elements_in(fragment), ranks};
      most = std::max(most, parts.all_bytes() + ranks * codec_bytes(c.codec, parts.longest()) +
                                2 * parts.longest() * size_of(type));
      continue;
    }
    for (const int64_t turn : {0, 1}) {
      const CodedParts parts{c.codec, summed_elements(c, fragment, turn), together};
      most = std::max(most, staging_elements(parts.longest(), together) * size_of(type));
    }
  }
  return ranks * most;
}

int64_t outer_fragment_bytes(const OuterConfig& c, const OuterFragment& fragment, int number, int ranks, int64_t step,
                             DType type) {
  if (is_in_codes(c.codec)) return 2 * (ranks - 1) * CodedParts{c.codec, elements_in(fragment), ranks}.all_bytes();
  const int64_t whole = summed_elements(c, fragment, turn_of(c, number, step)) * size_of(type);
  if (!c.pairs) return 2 * (ranks - 1) * whole;
  return present_at(c, ranks, step) / 2 * 2 * whole;
}

}  // namespace tern
