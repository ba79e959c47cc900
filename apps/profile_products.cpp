// Matrix products by shape, dtype and use: those of training by the fast multiplier, those of inference by the exact
// kernels with weights that no cache holds.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "apps/profile.h"
#include "apps/profile_buffers.h"
#include "base/error.h"
#include "base/units.h"
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

// The largest shape's tensors, of which others take a part.
template <class T>
struct Tensors {
  ProfileBuffers buffers;
  std::span<T> x, dy, w;
  std::span<float> dw;
  std::vector<std::byte> scratch;
  Tensors(int64_t rows, int64_t width)
      : x(buffers.numbers<T>(rows * width)),
        dy(buffers.numbers<T>(rows * width)),
        w(buffers.numbers<T>(width * width)),
        dw(buffers.room<float>(width * width)) {}
};

template <class T>
void run_product(Tensors<T>& t, Product product, int64_t m, int64_t n, int64_t k) {
  const auto part = [](auto v, int64_t count) { return v.first(static_cast<size_t>(count)); };
  const std::span<const T> w = part(t.w, n * k);
  if (product == Product::forward)
    multiply_fast<T, T>(part(t.x, m * k), w, {}, m, n, k, part(t.dy, m * n), t.scratch);
  else if (product == Product::input_gradient)
    multiply_fast_input_gradient<T>(part(t.dy, m * n), w, m, n, k, false, part(t.x, m * k), t.scratch);
  else
    multiply_fast_weight_gradient<T>(part(t.dy, m * n), part(t.x, m * k), m, n, k, part(t.dw, n * k), t.scratch);
}

template <class T>
void add_training(const ProfileSettings& settings, ProfileTasks& out) {
  const Shapes shapes = shapes_of(settings.quick);
  const auto tensors = std::make_shared<Tensors<T>>(shapes.tokens.back(), shapes.widths.back());
  constexpr DType dtype = DTypeOf<T>::value;
  for (const Product product : {Product::forward, Product::input_gradient, Product::weight_gradient})
    for (const int64_t m : shapes.tokens)
      for (const int64_t n : shapes.widths)
        for (const int64_t k : shapes.widths) {
          const auto scratch = static_cast<size_t>(fast_scratch_bytes(product, dtype, m, n, k));
          if (tensors->scratch.size() < scratch) tensors->scratch.resize(scratch);
          ProfileFigure f{FigureKind::product, dtype, ProductUse::any, m, n, k};
          if (product == Product::input_gradient) f.use = ProductUse::input_gradient, f.n = k, f.k = n;
          if (product == Product::weight_gradient) f.use = ProductUse::weight_gradient, f.m = n, f.n = k, f.k = m;
          const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
          out.add(f, {.unit = "FLOP/s", .once = [=] {
                        return rate_of(flops, kPointSeconds, [&] { run_product<T>(*tensors, product, m, n, k); });
                      }});
        }
}

// Weights of several matrices in turn, so that each is read from where a model's weights lie.
struct ColdWeights {
  ProfileBuffers buffers;
  std::span<uint16_t> bytes;
  size_t at = 0;
  explicit ColdWeights(int64_t size) : bytes(buffers.room<uint16_t>(size / 2)) {
    std::fill(bytes.begin(), bytes.end(), uint16_t{0x3c00});  // 0.0078 as f32 and as bf16
  }
  std::span<const std::byte> next(int64_t size) {
    const auto count = static_cast<size_t>(size);
    const std::span<const std::byte> all = std::as_bytes(std::span<const uint16_t>(bytes));
    if (at + count > all.size()) at = 0;
    const std::span<const std::byte> part = all.subspan(at, count);
    at += (count + 63) / 64 * 64;
    return part;
  }
};

template <class T>
void add_inference(const ProfileSettings& settings, const std::shared_ptr<ColdWeights>& weights, ProfileTasks& out) {
  const Shapes shapes = shapes_of(settings.quick);
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
        if (bytes > 2 * static_cast<int64_t>(weights->bytes.size())) continue;
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        const auto call = [=, held = buffers] {
          const std::span<const std::byte> w = weights->next(bytes);
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

// --- a decoded token's weights, again and again from so many bytes: of caches, of memory, on large and small pages ---

/// Pages as those of a file that is mapped.
class SmallPages {
 public:
  explicit SmallPages(int64_t size) : size_(static_cast<size_t>(size)) {
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      throw Error(ErrorKind::does_not_fit, "profile: no {} of memory for weights on small pages", format_bytes(size));
    ::madvise(at, size_, MADV_NOHUGEPAGE);  // a system that has no huge pages refuses
    at_ = static_cast<uint16_t*>(at);
    std::fill(at_, at_ + size_ / 2, uint16_t{0x3c00});
  }
  SmallPages(const SmallPages&) = delete;
  SmallPages& operator=(const SmallPages&) = delete;
  ~SmallPages() { ::munmap(at_, size_); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span<const uint16_t>(at_, size_ / 2)); }

 private:
  size_t size_;
  uint16_t* at_;
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
  add_training<float>(settings, out);
  add_training<bf16>(settings, out);
  const int64_t bytes = std::min<int64_t>(int64_t{1} << 30, settings.memory_bytes / 4) / 64 * 64;
  const auto weights = std::make_shared<ColdWeights>(bytes);
  add_inference<float>(settings, weights, out);
  add_inference<bf16>(settings, weights, out);
  const std::span<const std::byte> all = std::as_bytes(std::span<const uint16_t>(weights->bytes));
  add_weight_reads<float>(FigureKind::weight_read, all, weights, out);
  add_weight_reads<bf16>(FigureKind::weight_read, all, weights, out);
  if (!reads_plain_weights(DType::bf16)) return;  // weights are packed: no file's pages are read
  const auto small = std::make_shared<SmallPages>(std::min<int64_t>(bytes, settings.memory_bytes / 8 / 64 * 64));
  add_weight_reads<bf16>(FigureKind::mapped_read, small->bytes(), small, out);
}

}  // namespace tern
