#include "base/late_library.h"
#include "kernels/lapack/lapack_impl.h"

namespace tern {
namespace {

constexpr const char* kPurpose =
    "orthogonal factors of matrices need LAPACK and BLAS: install them (Debian: liblapack3, libblas3)";

}  // namespace

void* lapack_function(const char* name) {
  static LateLibrary lapack({"liblapack.so.3", "liblapack.so"}, kPurpose);
  return lapack.function(name);
}
void* blas_function(const char* name) {
  static LateLibrary blas({"libblas.so.3", "libblas.so"}, kPurpose);
  return blas.function(name);
}

}  // namespace tern
