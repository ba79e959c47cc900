// oneDNN's functions under their own names, as far as onednn_matmul.cpp calls them: each asks the library, which is loaded with the
// first. A program that does not multiply with it starts without it, which is most of the time that starting takes.

#include <oneapi/dnnl/dnnl.h>

#include "base/late_library.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {
namespace {

LateLibrary& library() {  // where the loader looks, as for a library that is linked; else where the build found it
  static LateLibrary onednn(
      {"libdnnl.so.2", TERN_ONEDNN_LIBRARY},
      "training multiplies with oneDNN 2: install it (Debian: libdnnl2), or build with -DTERN_ONEDNN=OFF");
  return onednn;
}

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(library().function(name));
}

}  // namespace

void load_onednn() { library().load(); }

}  // namespace tern

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are lists
#define TERN_LATE(result, name, parameters, arguments)                     \
  extern "C" result name parameters {                                      \
    static decltype(&name) const late = tern::find<decltype(name)>(#name); \
    return late arguments;                                                 \
  }

TERN_LATE(const dnnl_version_t*, dnnl_version, (), ())
TERN_LATE(dnnl_status_t, dnnl_set_max_cpu_isa, (dnnl_cpu_isa_t isa), (isa))
TERN_LATE(dnnl_cpu_isa_t, dnnl_get_effective_cpu_isa, (), ())
TERN_LATE(dnnl_status_t, dnnl_engine_create, (dnnl_engine_t * to, dnnl_engine_kind_t kind, size_t index),
          (to, kind, index))
TERN_LATE(dnnl_status_t, dnnl_engine_destroy, (dnnl_engine_t engine), (engine))
TERN_LATE(dnnl_status_t, dnnl_stream_create, (dnnl_stream_t * to, dnnl_engine_t engine, unsigned flags),
          (to, engine, flags))
TERN_LATE(dnnl_status_t, dnnl_stream_wait, (dnnl_stream_t stream), (stream))
TERN_LATE(dnnl_status_t, dnnl_stream_destroy, (dnnl_stream_t stream), (stream))
TERN_LATE(dnnl_status_t, dnnl_memory_desc_init_by_strides,
          (dnnl_memory_desc_t * to, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
           const dnnl_dims_t strides),
          (to, ndims, dims, type, strides))
TERN_LATE(size_t, dnnl_memory_desc_get_size, (const dnnl_memory_desc_t* desc), (desc))
TERN_LATE(dnnl_status_t, dnnl_memory_create,
          (dnnl_memory_t * to, const dnnl_memory_desc_t* desc, dnnl_engine_t engine, void* handle),
          (to, desc, engine, handle))
TERN_LATE(dnnl_status_t, dnnl_memory_destroy, (dnnl_memory_t memory), (memory))
TERN_LATE(dnnl_status_t, dnnl_post_ops_create, (dnnl_post_ops_t * to), (to))
TERN_LATE(dnnl_status_t, dnnl_post_ops_append_sum, (dnnl_post_ops_t ops, float scale), (ops, scale))
TERN_LATE(dnnl_status_t, dnnl_post_ops_destroy, (dnnl_post_ops_t ops), (ops))
TERN_LATE(dnnl_status_t, dnnl_primitive_attr_create, (dnnl_primitive_attr_t * to), (to))
TERN_LATE(dnnl_status_t, dnnl_primitive_attr_set_post_ops, (dnnl_primitive_attr_t attr, const_dnnl_post_ops_t ops),
          (attr, ops))
TERN_LATE(dnnl_status_t, dnnl_primitive_attr_set_scratchpad_mode,
          (dnnl_primitive_attr_t attr, dnnl_scratchpad_mode_t mode), (attr, mode))
TERN_LATE(dnnl_status_t, dnnl_primitive_attr_destroy, (dnnl_primitive_attr_t attr), (attr))
TERN_LATE(dnnl_status_t, dnnl_matmul_desc_init,
          (dnnl_matmul_desc_t * to, const dnnl_memory_desc_t* a, const dnnl_memory_desc_t* b,
           const dnnl_memory_desc_t* bias, const dnnl_memory_desc_t* result),
          (to, a, b, bias, result))
TERN_LATE(dnnl_status_t, dnnl_primitive_desc_create,
          (dnnl_primitive_desc_t * to, const_dnnl_op_desc_t op, const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
           const_dnnl_primitive_desc_t hint),
          (to, op, attr, engine, hint))
TERN_LATE(dnnl_status_t, dnnl_primitive_desc_query,
          (const_dnnl_primitive_desc_t desc, dnnl_query_t what, int index, void* to), (desc, what, index, to))
TERN_LATE(const dnnl_memory_desc_t*, dnnl_primitive_desc_query_md,
          (const_dnnl_primitive_desc_t desc, dnnl_query_t what, int index), (desc, what, index))
TERN_LATE(dnnl_status_t, dnnl_primitive_desc_destroy, (dnnl_primitive_desc_t desc), (desc))
TERN_LATE(dnnl_status_t, dnnl_primitive_create, (dnnl_primitive_t * to, const_dnnl_primitive_desc_t desc), (to, desc))
TERN_LATE(dnnl_status_t, dnnl_primitive_execute,
          (const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count, const dnnl_exec_arg_t* arguments),
          (primitive, stream, count, arguments))
TERN_LATE(dnnl_status_t, dnnl_primitive_destroy, (dnnl_primitive_t primitive), (primitive))
// NOLINTEND
