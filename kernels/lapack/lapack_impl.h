#pragma once
// LAPACK and BLAS, loaded with their first function. For kernels/lapack/ alone.
// Fortran's calling convention: everything by address, matrices by columns, the lengths of texts at the end.

namespace tern {

/// The address of the function of this name, such as "dsyevd_". Errors  bad_file: the library is not installed.
void* lapack_function(const char* name);
void* blas_function(const char* name);

}  // namespace tern
