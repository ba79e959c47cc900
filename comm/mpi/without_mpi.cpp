// Built where mpi.h of Open MPI is missing.
#include "base/error.h"
#include "comm/mpi_world.h"

namespace tern {

std::string why_no_mpi() {
  return "tern was built without MPI; install libopenmpi-dev (./setup --all) and build again, or leave messages to TCP";
}

std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<StoreClient>, const StoreRank&) {
  throw Error(ErrorKind::usage, "{}", why_no_mpi());
}

}  // namespace tern
