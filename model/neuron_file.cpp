#include "model/neuron_file.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"

namespace tern {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;

void check_plain_relu(const Unit& unit, const MlpSpec* mlp) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorKind::usage,
                "neurons of layer {}: {}; only MLPs of the form down(relu(up(x))) can leave neurons in a file, such as "
                "those of OPT",
                unit.layer, what);
  };
  if (!mlp || !std::holds_alternative<MlpSpec>(unit.spec))
    refuse(moe_of(unit) ? "it has experts" : "attention and MLP stand beside each other");
  if (mlp->gated) refuse("its MLP has a gate, so that no neuron is known to be zero");
  if (mlp->activation != ActivationKind::relu) refuse("its activation is not relu, so that no neuron is exactly zero");
  if (mlp->join.norm.present()) refuse("a norm stands behind its MLP");
  if (!unit.adapters.empty()) refuse("its MLP has adapters");
}

// Records [first, first + count) of an array: of each record `width` numbers that number(record, place) gives.
template <class T, class Number>
void fill_records(int64_t first, int64_t count, int64_t width, const Number& number, T* to) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t p = 0; p < width; ++p) to[i * width + p] = number(first + i, p);
}

// Writes an array chunk by chunk, each of whole records and whole blocks; the last one is filled up.
template <class T, class Number>
void write_array(const RecordTable& t, const RecordParts& parts, const Number& number, ScratchFile& file) {
  const int64_t alignment = file.alignment(), unit = alignment / std::gcd(alignment, parts.bytes);
  const int64_t chunk = unit * std::max<int64_t>(1, kChunkBytes / (unit * parts.bytes));
  const auto room = static_cast<size_t>(round_up(chunk * parts.bytes, alignment));
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(static_cast<size_t>(alignment), room),
                                                           &std::free);
  TERN_CHECK(memory, "write_neurons: no memory for {} bytes", room);
  auto* const bytes = static_cast<std::byte*>(memory.get());
  for (int64_t first = 0; first < t.records; first += chunk) {
    const int64_t count = std::min<int64_t>(chunk, t.records - first);
    std::memset(bytes, 0, room);
    fill_records(first, count, parts.bytes / static_cast<int64_t>(sizeof(T)), number, static_cast<T*>(memory.get()));
    write_blocks(file, parts.offset + first * parts.bytes,
                 {bytes, static_cast<size_t>(round_up(count * parts.bytes, alignment))}, "");
  }
}

template <class T>
void write_table(const MlpWeights& w, const RecordTable& t, ScratchFile& file) {
  const T* const up = dense_rows(w.up).span<T>().data();
  const T* const down = dense_rows(w.down).span<T>().data();
  const int64_t D = w.up.in, F = w.up.out;
  const auto of_up = [=](int64_t i, int64_t p) { return up[i * D + p]; };
  const auto of_down = [=](int64_t i, int64_t p) { return down[p * F + i]; };
  if (t.arrays.size() == 1)
    return write_array<T>(
        t, t.arrays[0], [=](int64_t i, int64_t p) { return p < D ? of_up(i, p) : of_down(i, p - D); }, file);
  write_array<T>(t, t.arrays[0], of_up, file);
  write_array<T>(t, t.arrays[1], of_down, file);
}

}  // namespace

NeuronTables neuron_tables(const ModelSpec& spec, DType dtype, NeuronLayout layout, int64_t alignment) {
  NeuronTables all;
  for (int u = 0; u < static_cast<int>(spec.units.size()); ++u) {
    const Unit& unit = spec.units[static_cast<size_t>(u)];
    const MlpSpec* mlp = mlp_of(unit);
    if (!mlp && !moe_of(unit)) continue;
    check_plain_relu(unit, mlp);
    const int pieces = layout == NeuronLayout::bundled ? 1 : 2;
    RecordTable table{.records = static_cast<int>(mlp->hidden), .arrays = {}};
    for (int a = 0; a < pieces; ++a) {
      table.arrays.push_back({.offset = all.bytes, .bytes = 2 / pieces * mlp->width * size_of(dtype)});
      all.bytes = round_up(all.bytes + mlp->hidden * table.arrays.back().bytes, alignment);
    }
    all.units.push_back(u);
    all.tables.push_back(std::move(table));
  }
  return all;
}

void write_neurons(const ModelSpec& spec, WeightSource weights, DType dtype, const NeuronTables& neurons,
                   ScratchFile& file) {
  TERN_CHECK(dtype == DType::f32 || dtype == DType::bf16, "write_neurons: {}", name_of(dtype));
  for (size_t m = 0; m < neurons.units.size(); ++m) {
    const WeightLease lease = weights.acquire(neurons.units[m]);
    const auto& w = std::get<MlpWeights>(*lease);
    TERN_CHECK(mlp_of(spec.units[static_cast<size_t>(neurons.units[m])])->hidden == w.up.out, "write_neurons: unit {}",
               neurons.units[m]);
    dtype == DType::f32 ? write_table<float>(w, neurons.tables[m], file)
                        : write_table<bf16>(w, neurons.tables[m], file);
  }
}

}  // namespace tern
