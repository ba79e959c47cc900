#pragma once
// LAPACK and BLAS, each loaded when its first function is asked for. For kernels/lapack/ alone.
// Fortran's calling convention: every argument by address, matrices column by column, the lengths of strings at the end.

namespace tern {

/// The address of the function of this name, such as "dsyevd_". Errors  bad_file: the library is not installed.
void* lapack_function(const char* name);
void* blas_function(const char* name);

}  // namespace tern
