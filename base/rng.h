#pragma once
// Counter-based random numbers: a value is a pure function of (key, counter), so neither layout, nor recomputation, nor
// batching, nor a resume can change it.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox4x32-10 (constants from memory; checked
// against the published known-answer vectors in rng_test.cpp).

#include <array>
#include <cstdint>
#include <string_view>

namespace tern {

using Philox4 = std::array<uint32_t, 4>;
/// Ten rounds of Philox4x32 on one counter block.
Philox4 philox(Philox4 counter, std::array<uint32_t, 2> key);

/// A named stream of random numbers. `stream` is usually hash_name(tensor name) or a purpose.
struct RngKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

/// FNV-1a, 64 bits: stable across machines and versions, as saved runs depend on it. To hash a text in parts, pass the hash of
/// the parts before as `so_far`: hash_name("ab") = hash_name("b", hash_name("a")).
inline constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325u;
uint64_t hash_name(std::string_view, uint64_t so_far = kHashOfNothing);

/// Element `index` of the stream, uniform in [0, 2^64).
uint64_t random_u64(RngKey, uint64_t index);
/// Uniform in [0, 1) with 53 bits.
double random_uniform(RngKey, uint64_t index);
/// Standard normal, by Box-Muller from one Philox block for each element, so that no element depends on its neighbours.
double random_normal(RngKey, uint64_t index);
/// Element `index` of a keyed permutation of [0, size): a Feistel network with cycle walking, O(1) memory.
uint64_t random_permutation(RngKey, uint64_t index, uint64_t size);

}  // namespace tern
