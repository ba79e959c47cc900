#pragma once
// The functions of Open MPI that messages need. The first call of open_mpi() loads the library, so runs without MPI do not need it.

#define OMPI_SKIP_MPICXX 1  // leaves out the C++ bindings, which the MPI standard has removed
#include <mpi.h>

namespace tern {

struct OpenMpi {
  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Error_string) error_string;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Iprobe) iprobe;
  decltype(&MPI_Test) test;
  decltype(&MPI_Cancel) cancel;
  decltype(&MPI_Request_free) request_free;
  // The library's objects behind mpi.h's macros MPI_COMM_WORLD, MPI_BYTE, MPI_ERRORS_RETURN and MPI_REQUEST_NULL.
  MPI_Comm world;
  MPI_Datatype byte;
  MPI_Errhandler errors_return;
  MPI_Request no_request;
};

/// Errors  bad_file: libmpi is missing, or lacks one of the functions.
const OpenMpi& open_mpi();

}  // namespace tern
