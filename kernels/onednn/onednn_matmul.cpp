#include "kernels/onednn/onednn_matmul.h"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

void require(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  TERN_CHECK(status == dnnl_success, "oneDNN: {} gave status {}", what, static_cast<int>(status));
}

/// Owns one C handle.
template <class Handle, dnnl_status_t (*Destroy)(Handle)>
struct Destroyer {
  using pointer = Handle;
  void operator()(Handle h) const { Destroy(h); }
};
template <class Handle, dnnl_status_t (*Destroy)(Handle)>
using Owned = std::unique_ptr<Handle, Destroyer<Handle, Destroy>>;
using Memory = Owned<dnnl_memory_t, dnnl_memory_destroy>;

/// Tells oneDNN its limit, once, before anything that it makes.
bool keeps_to_chosen_isa() {
#if defined(__x86_64__)
  static const bool keeps = [] {
    dnnl_cpu_isa_t most = dnnl_cpu_isa_all;
    switch (chosen_isa()) {
      case Isa::portable:
        return false;
      case Isa::avx2:
        most = dnnl_cpu_isa_avx2;
        break;
      case Isa::avx512:
        most = dnnl_cpu_isa_avx512_core;
        break;
      case Isa::avx512_vnni:
        most = dnnl_cpu_isa_avx512_core_vnni;
        break;
      case Isa::avx512_bf16:
        most = dnnl_cpu_isa_avx512_core_bf16;
        break;
      case Isa::amx_bf16:
        return true;
    }
    static_cast<void>(dnnl_set_max_cpu_isa(most));  // a library built without the switch refuses: so ask what holds
    return (dnnl_get_effective_cpu_isa() & ~most) == 0;
  }();
  return keeps;
#else
  return true;
#endif
}

dnnl_engine_t engine() {
  keeps_to_chosen_isa();
  static const Owned<dnnl_engine_t, dnnl_engine_destroy> e = [] {
    dnnl_engine_t raw = nullptr;
    require(dnnl_engine_create(&raw, dnnl_cpu, 0), "creating the engine");
    return Owned<dnnl_engine_t, dnnl_engine_destroy>(raw);
  }();
  return e.get();
}

dnnl_data_type_t type_of(DType t) { return t == DType::bf16 ? dnnl_bf16 : dnnl_f32; }

dnnl_memory_desc_t matrix(int64_t rows, int64_t columns, DType dtype, int64_t row_stride, int64_t column_stride) {
  dnnl_memory_desc_t d;
  const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
  require(dnnl_memory_desc_init_by_strides(&d, 2, dims, type_of(dtype), strides), "describing a matrix");
  return d;
}

struct Primitive {
  dnnl_memory_desc_t a, b, bias, result, scratch;
  bool general = false;                                       // one of its "gemm" kernels
  Owned<dnnl_primitive_t, dnnl_primitive_destroy> primitive;  // null: oneDNN has none for this type here
};

void describe(const OnednnProduct& p, Primitive& out) {
  const auto [m, n, k] = std::tuple(p.m, p.n, p.k);
  switch (p.product) {
    case LinearProduct::forward:  // y (m, n) = x (m, k) · (k, n), the transpose of w (n, k)
      out.a = matrix(m, k, p.dtype, k, 1), out.b = matrix(k, n, p.dtype, 1, k), out.result = matrix(m, n, p.out, n, 1);
      break;
    case LinearProduct::input_gradient:  // dx (m, k) = dy (m, n) · w (n, k)
      out.a = matrix(m, n, p.dtype, n, 1), out.b = matrix(n, k, p.dtype, k, 1), out.result = matrix(m, k, p.out, k, 1);
      break;
    case LinearProduct::weight_gradient:  // dw (n, k) = (n, m) · x (m, k), with the transpose of dy (m, n)
      out.a = matrix(n, m, p.dtype, 1, n), out.b = matrix(m, k, p.dtype, k, 1), out.result = matrix(n, k, p.out, k, 1);
      break;
  }
  out.bias = matrix(1, n, p.dtype, n, 1);
}

std::shared_ptr<const Primitive> create(const OnednnProduct& p) {
  auto made = std::make_shared<Primitive>();
  describe(p, *made);
  dnnl_matmul_desc_t product;
  require(dnnl_matmul_desc_init(&product, &made->a, &made->b, p.bias ? &made->bias : nullptr, &made->result),
          "describing a product");
  dnnl_primitive_attr_t attr_raw = nullptr;
  require(dnnl_primitive_attr_create(&attr_raw), "creating attributes");
  const Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attr(attr_raw);
  require(dnnl_primitive_attr_set_scratchpad_mode(attr.get(), dnnl_scratchpad_mode_user), "asking for our own scratch");
  dnnl_post_ops_t ops_raw = nullptr;
  require(dnnl_post_ops_create(&ops_raw), "creating post-operations");
  const Owned<dnnl_post_ops_t, dnnl_post_ops_destroy> ops(ops_raw);
  if (p.add) {
    require(dnnl_post_ops_append_sum(ops.get(), 1.0f), "asking to add");
    require(dnnl_primitive_attr_set_post_ops(attr.get(), ops.get()), "asking to add");
  }
  dnnl_primitive_desc_t desc_raw = nullptr;
  const dnnl_status_t status = dnnl_primitive_desc_create(&desc_raw, &product, attr.get(), engine(), nullptr);
  if (status == dnnl_unimplemented) return made;
  require(status, "choosing a kernel");
  const Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> desc(desc_raw);
  const dnnl_memory_desc_t* scratch = dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  TERN_CHECK(scratch, "oneDNN: no scratch description");
  made->scratch = *scratch;
  const char* kernel = nullptr;
  require(dnnl_primitive_desc_query(desc.get(), dnnl_query_impl_info_str, 0, &kernel), "asking for a kernel's name");
  made->general = kernel && std::string_view(kernel).starts_with("gemm");
  dnnl_primitive_t primitive = nullptr;
  require(dnnl_primitive_create(&primitive, desc.get()), "creating a kernel");
  made->primitive.reset(primitive);
  return made;
}

/// Made kernels by product and number of threads, which both decide the kernel and its scratch. Training meets a few
/// dozen shapes; if something meets very many, the collection starts anew instead of growing.
class Cache {
 public:
  std::shared_ptr<const Primitive> get(const OnednnProduct& p) {
    const std::lock_guard lock(mutex_);
    const Key key{p, omp_get_max_threads()};
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    if (made_.size() >= kMost) made_.clear();
    return made_[key] = create(p);
  }

 private:
  using Key = std::pair<OnednnProduct, int>;
  static constexpr size_t kMost = 512;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Primitive>> made_;
};

std::shared_ptr<const Primitive> primitive_for(const OnednnProduct& p) {
  static Cache cache;
  return cache.get(p);
}

Memory memory(const dnnl_memory_desc_t& d, const void* data) {
  dnnl_memory_t raw = nullptr;
  require(dnnl_memory_create(&raw, &d, engine(), const_cast<void*>(data)), "wrapping memory");
  return Memory(raw);
}

}  // namespace

std::string_view onednn_version() {
  static const std::string version = [] {
    const dnnl_version_t* v = dnnl_version();
    return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
  }();
  return version;
}

bool onednn_is_held() { return active_isa() >= chosen_isa() && keeps_to_chosen_isa(); }

std::string_view onednn_instructions() {
  keeps_to_chosen_isa();
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "another";
  }
}

bool onednn_can(DType dtype) {
  if (!onednn_is_held()) return false;
  const auto can = [](DType t) {
    return create({LinearProduct::forward, t, t, true, false, 8, 8, 8})->primitive != nullptr &&
           create({LinearProduct::weight_gradient, t, DType::f32, false, true, 8, 8, 8})->primitive != nullptr;
  };
  static const bool f32 = can(DType::f32), half = can(DType::bf16);
  return dtype == DType::f32 ? f32 : dtype == DType::bf16 && half;
}

int64_t onednn_scratch_bytes(const OnednnProduct& p) {
  return static_cast<int64_t>(dnnl_memory_desc_get_size(&primitive_for(p)->scratch));
}

int64_t onednn_hidden_bytes(const OnednnProduct& p) {
  if (!primitive_for(p)->general) return 0;
  const bool avx512 = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  return onednn_general_bytes(p, avx512, omp_get_max_threads());
}

void onednn_multiply(const OnednnProduct& p, const void* a, const void* b, const void* bias, void* result,
                     std::span<std::byte> scratch) {
  const std::shared_ptr<const Primitive> made = primitive_for(p);
  TERN_CHECK(made->primitive, "oneDNN: no kernel for this product");
  const auto needed = static_cast<size_t>(dnnl_memory_desc_get_size(&made->scratch));
  TERN_CHECK(scratch.size() >= needed, "oneDNN: {} bytes of scratch, {} needed", scratch.size(), needed);
  // A stream belongs to one caller at a time; it is an empty shell on the CPU.
  dnnl_stream_t stream_raw = nullptr;
  require(dnnl_stream_create(&stream_raw, engine(), dnnl_stream_default_flags), "creating a stream");
  const Owned<dnnl_stream_t, dnnl_stream_destroy> stream(stream_raw);
  const Memory ma = memory(made->a, a), mb = memory(made->b, b), mr = memory(made->result, result);
  const Memory ms = memory(made->scratch, scratch.data());
  const Memory mbias = p.bias ? memory(made->bias, bias) : Memory();
  dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, ma.get()},
                                  {DNNL_ARG_WEIGHTS, mb.get()},
                                  {DNNL_ARG_DST, mr.get()},
                                  {DNNL_ARG_SCRATCHPAD, ms.get()},
                                  {DNNL_ARG_BIAS, mbias.get()}};
  require(dnnl_primitive_execute(made->primitive.get(), stream.get(), p.bias ? 5 : 4, arguments), "multiplying");
  require(dnnl_stream_wait(stream.get()), "waiting");
}

}  // namespace tern
