#include "comm/mpi/open_mpi.h"

#include <dlfcn.h>

#include "base/late_library.h"

namespace tern {
namespace {

constexpr const char* kMpiLibrary = "libmpi.so.40";  // Open MPI 2.1 to 5

OpenMpi load_open_mpi() {
  ::dlopen(kMpiLibrary, RTLD_NOW | RTLD_GLOBAL);  // its plugins look for its functions in the whole process
  LateLibrary library({kMpiLibrary},
                      "messages by MPI need Open MPI: install it (Debian: libopenmpi3), or leave them to TCP");
  const auto take = [&]<class Pointer>(Pointer& to, const char* name) {
    to = reinterpret_cast<Pointer>(library.function(name));
  };
  OpenMpi m{};
  take(m.init_thread, "MPI_Init_thread"), take(m.finalize, "MPI_Finalize");
  take(m.comm_rank, "MPI_Comm_rank"), take(m.comm_size, "MPI_Comm_size");
  take(m.comm_set_errhandler, "MPI_Comm_set_errhandler"), take(m.error_string, "MPI_Error_string");
  take(m.isend, "MPI_Isend"), take(m.irecv, "MPI_Irecv"), take(m.iprobe, "MPI_Iprobe"), take(m.test, "MPI_Test");
  take(m.cancel, "MPI_Cancel"), take(m.request_free, "MPI_Request_free");
  take(m.world, "ompi_mpi_comm_world"), take(m.byte, "ompi_mpi_byte");
  take(m.errors_return, "ompi_mpi_errors_return"), take(m.no_request, "ompi_request_null");
  return m;
}

}  // namespace

const OpenMpi& open_mpi() {
  static const OpenMpi loaded = load_open_mpi();
  return loaded;
}

}  // namespace tern
