// Matrix products by shape, dtype and use: those of training by the fast multiplier, those of inference by the exact
// kernels with weights that no cache holds.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "apps/profile.h"
#include "apps/profile_buffers.h"
#include "base/io.h"
#include "base/mapped_file.h"
#include "kernels/cpu/matmul.h"
#include "kernels/onednn/fast_matmul.h"

namespace tern {
namespace {

struct Shapes {
  std::vector<int64_t> tokens, widths, decoded;  // rows in training; columns and depths; rows in inference
};
Shapes shapes_of(bool quick) {
  if (quick) return {{256, 2048}, {256, 2048}, {1, 8, 256}};
  return {{128, 512, 2048}, {256, 1024, 4096}, {1, 4, 16, 128, 512}};
}

// What a training product reads and writes. Rows that the operation before it made are near: x of a forward product, dy
// of both gradients. All else was last touched a pass ago: weights, x of a weights' gradient, what results go to.
struct Operands {
  std::shared_ptr<ColdNumbers> read;
  ColdNumbers written;
  ProfileBuffers buffers;
  std::span<float> gradients;
  std::span<const float> f32_rows;
  std::span<const bf16> bf16_rows;
  std::vector<std::byte> scratch;
  size_t at = 0;
  Operands(std::shared_ptr<ColdNumbers> cold, int64_t rows, int64_t bytes)
      : read(std::move(cold)),
        written(bytes),
        gradients(buffers.room<float>(bytes / 4)),
        f32_rows(buffers.numbers<float>(rows)),
        bf16_rows(buffers.numbers<bf16>(rows)) {}

  template <class T>
  std::span<const T> near(int64_t count) const {
    if constexpr (std::is_same_v<T, bf16>)
      return bf16_rows.first(static_cast<size_t>(count));
    else
      return f32_rows.first(static_cast<size_t>(count));
  }
  std::span<float> next_gradients(int64_t count) {
    const auto want = static_cast<size_t>(count);
    if (at + want > gradients.size()) at = 0;
    const std::span<float> part = gradients.subspan(at, want);
    at += want;
    return part;
  }
};

template <class T>
void run_product(Operands& o, LinearProduct product, int64_t m, int64_t n, int64_t k) {
  if (product == LinearProduct::forward)
    multiply_fast<T, T>(o.near<T>(m * k), o.read->next<T>(n * k), {}, m, n, k, o.written.next<T>(m * n), o.scratch);
  else if (product == LinearProduct::input_gradient)
    multiply_fast_input_gradient<T>(o.near<T>(m * n), o.read->next<T>(n * k), m, n, k, false, o.written.next<T>(m * k),
                                    o.scratch);
  else
    multiply_fast_weight_gradient<T>(o.near<T>(m * n), o.read->next<T>(m * k), m, n, k, o.next_gradients(n * k),
                                     o.scratch);
}

template <class T>
void add_training(const Shapes& shapes, const std::shared_ptr<Operands>& operands, ProfileTasks& out) {
  constexpr DType dtype = DTypeOf<T>::value;
  for (const LinearProduct product :
       {LinearProduct::forward, LinearProduct::input_gradient, LinearProduct::weight_gradient})
    for (const int64_t m : shapes.tokens)
      for (const int64_t n : shapes.widths)
        for (const int64_t k : shapes.widths) {
          const auto scratch = static_cast<size_t>(fast_scratch_bytes(product, dtype, m, n, k));
          if (operands->scratch.size() < scratch) operands->scratch.resize(scratch);
          ProfileFigure f{FigureKind::product, dtype, ProductUse::any, m, n, k};
          if (product == LinearProduct::input_gradient) f.use = ProductUse::input_gradient, f.n = k, f.k = n;
          if (product == LinearProduct::weight_gradient) f.use = ProductUse::weight_gradient, f.m = n, f.n = k, f.k = m;
          const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
          out.add(f, {.unit = "FLOP/s", .once = [=] {
                        return rate_of(flops, kPointSeconds, [&] { run_product<T>(*operands, product, m, n, k); });
                      }});
        }
}

template <class T>
void add_inference(const Shapes& shapes, const std::shared_ptr<ColdNumbers>& weights, ProfileTasks& out) {
  constexpr DType dtype = DTypeOf<T>::value;
  const auto buffers = std::make_shared<ProfileBuffers>();
  const int64_t most = shapes.decoded.back() * shapes.widths.back();
  const std::span<const T> x = buffers->numbers<T>(most);
  const std::span<T> y = buffers->room<T>(most);
  for (const int64_t m : shapes.decoded)
    for (const int64_t n : shapes.widths)
      for (const int64_t k : shapes.widths) {
        const bool plain = reads_plain_weights(dtype);
        const int64_t bytes = plain ? n * k * size_of(dtype) : packed_bytes(dtype, n, k);
        if (bytes > 2 * static_cast<int64_t>(weights->numbers.size())) continue;
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        const auto call = [=, held = buffers] {
          const std::span<const std::byte> w = weights->next<std::byte>(bytes);
          const std::span<const T> rows = x.first(static_cast<size_t>(m * k));
          const std::span<T> result = y.first(static_cast<size_t>(m * n));
          if (plain) {
            const WeightRows<T> all{reinterpret_cast<const T*>(w.data()), n};
            multiply_plain<T, T>(rows, std::span(&all, 1), {}, m, n, k, false, result);
          } else {
            multiply_exact<T, T>(rows, w, {}, m, n, k, false, result);
          }
        };
        out.add({FigureKind::product, dtype, ProductUse::inference, m, n, k},
                {.unit = "FLOP/s", .once = [=] { return rate_of(flops, kPointSeconds, call); }});
      }
}

// --- a decoded token's weights, again and again from so many bytes: of caches, of memory, of a file ---

/// A file that is mapped, its numbers where weights files have theirs: behind a header, so seldom at the start of a
/// cache's line, which loads of a whole one then touch two of. Without a directory a file that lies in memory alone.
class MappedWeights {
 public:
  MappedWeights(const std::string& directory, int64_t size) {
    const Removed file{directory.empty() ? std::string()
                                         : join_path(directory, fmt::format(".tern-profile-{}", getpid()))};
    const Closed memory{directory.empty() ? ::memfd_create("tern-profile", MFD_CLOEXEC) : -1};
    if (directory.empty() && memory.number < 0) throw_io_error("create", "a file in memory", errno);
    const std::string path = directory.empty() ? fmt::format("/proc/self/fd/{}", memory.number) : file.path;
    const auto out = real_io().create(path);
    std::vector<uint16_t> block(size_t{1} << 20, 0x3c00);  // 0.0078 as bf16 and as f32, at any multiple of 4
    for (int64_t at = 0; at < size + kHeader; at += 2 << 20) out->append(std::as_bytes(std::span(block)));
    if (!directory.empty()) out->sync();
    out->close();
    file_ = MappedFile(path);
    file_.advise(MappedFile::Advice::populate, 0, file_.size());
  }
  std::span<const std::byte> bytes() const { return file_.bytes().subspan(kHeader); }

 private:
  static constexpr int64_t kHeader = 8 + 1096;  // its length and names: a multiple of 8, not of 64
  struct Removed {
    std::string path;
    ~Removed() {
      if (!path.empty()) ::unlink(path.c_str());
    }
  };
  struct Closed {
    int number;
    ~Closed() {
      if (number >= 0) ::close(number);
    }
  };
  MappedFile file_;
};

constexpr int64_t kReadWidth = 1024;

template <class T>
void add_weight_reads(FigureKind kind, std::span<const std::byte> all, const std::shared_ptr<const void>& held,
                      ProfileTasks& out) {
  constexpr DType dtype = DTypeOf<T>::value;
  const bool plain = reads_plain_weights(dtype);
  const int64_t one = plain ? kReadWidth * kReadWidth * size_of(dtype) : packed_bytes(dtype, kReadWidth, kReadWidth);
  const auto rows = std::make_shared<std::vector<T>>(2 * kReadWidth);
  for (const int64_t mib : {4, 16, 64, 128, 256, 1024}) {
    const int64_t count = (mib << 20) / one;
    if (count < 1 || count * one > static_cast<int64_t>(all.size())) continue;
    const auto pass = [=, kept = held] {
      const std::span<T> x(rows->data(), kReadWidth), y(rows->data() + kReadWidth, kReadWidth);
      for (int64_t i = 0; i < count; ++i) {
        const std::span<const std::byte> w = all.subspan(static_cast<size_t>(i * one), static_cast<size_t>(one));
        if (plain) {
          const WeightRows<T> piece{reinterpret_cast<const T*>(w.data()), kReadWidth};
          multiply_plain<T, T>(x, std::span(&piece, 1), {}, 1, kReadWidth, kReadWidth, false, y);
        } else {
          multiply_exact<T, T>(x, w, {}, 1, kReadWidth, kReadWidth, false, y);
        }
      }
    };
    out.add({.kind = kind, .dtype = dtype, .m = mib << 20}, {.unit = "B/s", .once = [=] {
                                                               pass();  // what was read before it is another task's
                                                               return rate_of(static_cast<double>(count * one),
                                                                              kPointSeconds, pass);
                                                             }});
  }
}

}  // namespace

void add_product_tasks(const ProfileSettings& settings, ProfileTasks& out) {
  const Shapes shapes = shapes_of(settings.quick);
  const int64_t bytes = std::min<int64_t>(int64_t{1} << 30, settings.memory_bytes / 6) / 64 * 64;
  const auto weights = std::make_shared<ColdNumbers>(bytes);
  // Of results: two of the largest at least.
  const int64_t rows = shapes.tokens.back() * shapes.widths.back();
  const int64_t largest = 4 * std::max(rows, shapes.widths.back() * shapes.widths.back());
  const int64_t written = std::clamp<int64_t>(settings.memory_bytes / 64 / 64 * 64, 2 * largest, int64_t{1} << 28);
  const auto operands = std::make_shared<Operands>(weights, rows, written);
  add_training<float>(shapes, operands, out);
  add_training<bf16>(shapes, operands, out);
  add_inference<float>(shapes, weights, out);
  add_inference<bf16>(shapes, weights, out);
  const std::span<const std::byte> all = std::as_bytes(std::span<const bf16>(weights->numbers));
  add_weight_reads<float>(FigureKind::weight_read, all, weights, out);
  add_weight_reads<bf16>(FigureKind::weight_read, all, weights, out);
  if (!reads_plain_weights(DType::bf16)) return;  // weights are packed: no file's pages are read
  const auto file = std::make_shared<MappedWeights>(settings.disk, std::min(int64_t{256} << 20, bytes / 2));
  add_weight_reads<bf16>(FigureKind::mapped_read, file->bytes(), file, out);
}

}  // namespace tern
