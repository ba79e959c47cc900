#include "apps/rank_process.h"

#include <fmt/format.h>

#include <exception>

#include "base/error.h"
#include "comm/decorators.h"
#include "comm/ledger.h"
#include "comm/mpi_world.h"
#include "comm/process_world.h"

namespace tern {

std::optional<World> launched_world() {
  std::optional<World> world = world_of(process_environment());
  if (world && world->size == 1) world.reset();
  return world;
}

Environment with_launched_ranks(Environment environment) {
  if (const std::optional<World> world = world_of(environment); world && world->size > 1)
    environment.emplace("TERN_RANKS", fmt::format("{}", world->size));
  return environment;
}

void run_as_rank(const World& world, Carrier carrier, double silence_s,
                 const std::function<void(std::shared_ptr<Comm>)>& work) {
  std::unique_ptr<StoreServer> server;
  if (world.serves_store) {
    const std::string host = is_loopback(world.store.host) ? "127.0.0.1" : "";
    server = std::make_unique<StoreServer>(
        HostPort{host, world.store.port}, StoreConfig{.size = world.size, .token = world.token, .silence_s = silence_s},
        world.more_ports);
  }
  const StoreRank me{.rank = world.rank, .size = world.size, .token = world.token, .silence_s = silence_s};
  const auto store = std::make_shared<StoreClient>(world.store, me, world.more_ports);
  try {
    const Environment environment = process_environment();
    const auto fault = environment.find("TERN_FAULT");
    std::unique_ptr<Transport> links =
        carrier == Carrier::mpi ? make_mpi_transport(store, me) : make_process_transport(store, me);
    work(std::make_shared<Comm>(
        with_ledger(with_fault(std::move(links), fault == environment.end() ? "" : fault->second))));
  } catch (const Error& e) {
    store->abort(fmt::format("rank {} failed: {}", world.rank, e.what()), e.kind());
    throw;
  } catch (const std::exception& e) {
    store->abort(fmt::format("rank {} failed: {}", world.rank, e.what()));
    throw;
  }
}

}  // namespace tern
