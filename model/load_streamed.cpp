#include "model/load_streamed.h"

#include "base/clock.h"
#include "base/error.h"
#include "kernels/cpu/matmul.h"
#include "model/given_weights.h"
#include "model/ops.h"
#include "store/read_extent.h"
#include "tensor/bytes_of.h"

namespace tern {
namespace {

// The part of `bytes` from an address of that alignment on.
std::span<std::byte> aligned(const Tensor& bytes, int64_t alignment) {
  auto* const begin = static_cast<std::byte*>(bytes.data());
  const auto skip = static_cast<size_t>(-reinterpret_cast<intptr_t>(begin) & (alignment - 1));
  return {begin + skip, static_cast<size_t>(bytes.bytes()) - skip};
}

Tensor ring_memory(std::span<const Extent> order, int slots, int64_t alignment, Arena& arena) {
  return arena.bytes(CyclicRing::allocation_for(order, slots, alignment), MemoryClass::staging);
}

// Where a band that stays belongs.
struct Target {
  const FileBand* band;
  int64_t in;
  std::span<std::byte> to;
  bool packed;  // else as the file codes it
};

// The weights of all matrices, their memory taken but not filled, and what is still to be read for it.
struct Frame {
  std::vector<BandedWeight> matrices;  // as FileBands has them
  std::vector<Target> targets;
  std::vector<Extent> streamed;
};

class Framer {
 public:
  Framer(DType dtype, const std::vector<bool>& stays, Arena& arena) : dtype_(dtype), stays_(stays), arena_(arena) {}

  Frame frame(const FileBands& bands) {
    for (const FileMatrix& m : bands.matrices) {
      frame_.matrices.emplace_back();
      for (size_t b = 0; b < m.bands.size();) b = stays_[at_ + b] ? keep(m, b) : stream(m, b);
      at_ += m.bands.size();
    }
    return std::move(frame_);
  }

 private:
  size_t stream(const FileMatrix& m, size_t b) {
    const FileBand& band = m.bands[b];
    frame_.matrices.back().bands.push_back({band.rows,
                                            {},
                                            nullptr,
                                            static_cast<int>(frame_.streamed.size()),
                                            band.type,
                                            band.head_dim,
                                            band.tables,
                                            band.in_integers});
    frame_.streamed.push_back(band.extent);
    return b + 1;
  }
  // Neighbours that stay are one product: packed ones in one piece of memory, coded ones as pieces.
  size_t keep(const FileMatrix& m, size_t begin) {
    const bool packed = stays_packed(m.bands[begin], m.in, dtype_);
    size_t end = begin;
    int64_t rows = 0;
    for (bool whole = true; whole && end < m.bands.size() && stays_[at_ + end]; ++end) {
      if (stays_packed(m.bands[end], m.in, dtype_) != packed) break;
      rows += m.bands[end].rows;
      whole = !packed || packed_bytes(dtype_, rows, m.in) == rows * m.in * size_of(dtype_);  // no tail within a run
    }
    WeightBand kept{.rows = rows};
    if (packed) {
      const Tensor bytes = arena_.bytes(packed_bytes(dtype_, rows, m.in), MemoryClass::weights);
      size_t offset = 0;
      for (size_t b = begin; b < end; ++b) {
        const auto count = static_cast<size_t>(packed_bytes(dtype_, m.bands[b].rows, m.in));
        frame_.targets.push_back({&m.bands[b], m.in, bytes_of(bytes).subspan(offset, count), true});
        offset += count;
      }
      kept.kept = PackedWeight{bytes};
    } else {
      CodedWeight coded{.pieces = {}, .in_integers = m.bands[begin].in_integers};
      for (size_t b = begin; b < end; ++b) {
        const FileBand& band = m.bands[b];
        coded.pieces.push_back(
            {band.type, arena_.bytes(band.extent.bytes, MemoryClass::weights), band.rows, band.head_dim, band.tables});
        frame_.targets.push_back({&band, m.in, bytes_of(coded.pieces.back().bytes), false});
      }
      kept.kept = std::move(coded);
    }
    frame_.matrices.back().bands.push_back(std::move(kept));
    return end;
  }

  DType dtype_;
  const std::vector<bool>& stays_;
  Arena& arena_;
  size_t at_ = 0;  // the first band of the matrix at hand, among all
  Frame frame_;
};

// Whether rows lie in a band as weights of T do.
template <class T>
bool lie_as(const FileBand& band, std::span<const std::byte> bytes) {
  constexpr WeightType kType = sizeof(T) == 2 ? WeightType::bf16 : WeightType::f32;
  return band.type == kType && band.head_dim == 0 && reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) == 0;
}

void put(const Target& target, std::span<const std::byte> bytes, DType dtype, Arena& arena) {
  if (!target.packed) {
    std::copy(bytes.begin(), bytes.end(), target.to.begin());
    return;
  }
  const FileBand& band = *target.band;
  ops::by_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const auto pack = [&](std::span<const T> rows) { pack_weight<T>(rows, band.rows, target.in, target.to); };
      if (lie_as<T>(band, bytes)) return pack({reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)});
      const Tensor coded = Tensor::borrow(DType::u8, {static_cast<int64_t>(bytes.size())},
                                          const_cast<std::byte*>(bytes.data()));  // only read
      const Tensor rows = ops::decoded_rows({band.type, coded, band.rows, band.head_dim, band.tables}, target.in, dtype,
                                            MemoryClass::staging, arena);
      pack(rows.span<T>());
    }
  });
}

// Reads what stays, once.
void fill(const std::vector<Target>& targets, DType dtype, const RingSettings& settings, StreamedModel& model,
          Arena& arena) {
  if (targets.empty()) return;
  std::vector<Extent> order;
  for (const Target& target : targets) order.push_back(target.band->extent);
  const RingSettings once{.slots = settings.slots, .threads = settings.threads, .cyclic = false};
  const int64_t alignment = model.files->alignment();
  const Tensor slots = ring_memory(order, once.slots, alignment, arena);
  const int64_t begin_ns = real_clock().now_ns();
  CyclicRing ring(*model.files, order, once, aligned(slots, alignment));
  for (size_t i = 0; i < targets.size(); ++i) {
    const ExtentLease lease(ring, static_cast<int>(i));
    put(targets[i], lease.bytes(), dtype, arena);
  }
  model.filled_bytes = ring.counts().read_bytes;
  model.fill_s = seconds_between(begin_ns, real_clock().now_ns());
  model.fill_waited_s = 1e-9 * static_cast<double>(ring.counts().waited_ns);
}

// Experts as a cache brings them.
void give_experts(const FileBands& bands, const CacheSettings& settings, int threads, StreamedModel& model,
                  GivenWeights& given, Arena& arena) {
  if (bands.experts.empty()) return;
  const std::vector<CacheItem> items = expert_items(bands);
  const int64_t alignment = model.files->alignment();
  model.cache_slots =
      arena.bytes(ExtentCache::bytes_for(items, settings.slots, alignment) + alignment, MemoryClass::staging);
  model.cache =
      std::make_unique<ExtentCache>(*model.files, items, settings, threads, aligned(model.cache_slots, alignment));
  int item = 0;
  for (const FileExperts& unit : bands.experts)
    for (size_t e = 0; e < unit.up.size(); ++e)
      for (const FileMatrix* m : {&unit.up[e], &unit.down[e]}) {
        BandedWeight weight;
        int place = model.cache->first_place(item++);
        for (const FileBand& band : m->bands)
          weight.bands.push_back(
              {band.rows, {}, model.cache.get(), place++, band.type, band.head_dim, band.tables, band.in_integers});
        given.matrices.emplace(m->name, std::move(weight));
      }
}

// A matrix that stays whole is no bands.
Weight weight_of(BandedWeight banded, ExtentRing* ring) {
  for (WeightBand& band : banded.bands)
    if (band.place >= 0) band.ring = ring;
  if (banded.bands.size() > 1 || banded.bands.front().ring) return banded;
  return std::visit([](auto& kept) -> Weight { return std::move(kept); }, banded.bands.front().kept);
}

}  // namespace

StreamedModel load_streamed(const ModelSpec& spec, const std::string& model_dir, DType dtype, const FileBands& bands,
                            const std::vector<bool>& stays, std::unique_ptr<BlockFiles> files,
                            const RingSettings& settings, Arena& arena, const CacheSettings& cache) {
  StreamedModel model;
  model.files = std::move(files);
  Frame frame = Framer(dtype, stays, arena).frame(bands);
  fill(frame.targets, dtype, settings, model, arena);
  if (!frame.streamed.empty()) {
    const int64_t alignment = model.files->alignment();
    model.slots = ring_memory(frame.streamed, settings.slots, alignment, arena);
    model.ring = std::make_unique<CyclicRing>(*model.files, frame.streamed, settings, aligned(model.slots, alignment));
  }
  GivenWeights given;
  given.in_integers = !bands.coded.empty();
  for (size_t i = 0; i < bands.matrices.size(); ++i)
    given.matrices.emplace(bands.matrices[i].name, weight_of(std::move(frame.matrices[i]), model.ring.get()));
  give_experts(bands, cache, settings.threads, model, given, arena);
  if (!bands.unused.empty()) given.matrices.emplace(bands.unused, BandedWeight{});
  if (const FileBand& table = bands.table; table.rows > 0)
    given.tokens = {{model.files.get(), table.extent, table.extent.bytes / table.rows}, table.type};
  model.weights = load_weights_to_infer(spec, model_dir, dtype, arena, std::move(given));
  return model;
}

}  // namespace tern
