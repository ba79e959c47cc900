#include "apps/rank_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "apps/signals.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/decorators.h"
#include "comm/ledger.h"
#include "comm/mpi_world.h"
#include "comm/process_world.h"
#include "comm/rank_spots.h"

namespace tern {

// Ranks that a launcher starts so many seconds after rank 0, which was refused, still learn why.
static constexpr double kComesLate = 5;
// A rank that fails by itself waits so many seconds for rank 0, which may fail in the same way. Ranks that still work see its links
// closed, and wait longer for its reason (kToldWithin, comm/process_world.cpp).
static constexpr double kFailsAlike = 1;

// Whether rank 0 says what `e` says. The same fault, found by all ranks, is told once.
static bool is_told_by_first(const StoreClient& store, int rank, double silence_s, const Error& e) {
  if (rank == 0 || e.kind() == ErrorKind::interrupted) return false;
  if (e.kind() != ErrorKind::peer) store.failed_within(std::min(silence_s, kFailsAlike));
  const std::optional<WorldFailure> failure = store.failure();
  if (!failure || failure->rank == rank) return false;
  const bool first_tells = failure->kind == ErrorKind::usage || failure->reason.starts_with("rank 0 failed: ");
  const std::string what = e.what();
  return first_tells && (what.find(failure->reason) != std::string::npos || failure->reason.ends_with(": " + what));
}

std::optional<LaunchedRank> launched_rank() {
  std::optional<LaunchedRank> launched = launched_rank_of(process_environment());
  if (launched && launched->size == 1) launched.reset();
  return launched;
}

Environment with_launched_ranks(Environment environment) {
  if (const std::optional<LaunchedRank> launched = launched_rank_of(environment); launched && launched->size > 1)
    environment.emplace("TERN_RANKS", fmt::format("{}", launched->size));
  return environment;
}

void run_as_rank(const LaunchedRank& launched, Carrier carrier, double silence_s,
                 const std::function<void(std::shared_ptr<Comm>)>& work) {
  std::optional<EndSignals> signals(std::in_place, "stopped while waiting for other ranks");
  std::unique_ptr<StoreServer> server;
  if (launched.serves_store) {
    const std::string& known = launched.store.host;  // as the other ranks know it
    const std::string host = !is_loopback(known) ? "" : known == "localhost" ? "127.0.0.1" : known;
    server = std::make_unique<StoreServer>(
        HostPort{host, launched.store.port},
        StoreConfig{.size = launched.size, .token = launched.token, .silence_s = silence_s}, launched.more_ports);
  }
  StoreRank me{.rank = launched.rank, .size = launched.size, .token = launched.token, .silence_s = silence_s};
  if (launched.more_ports > 0)  // tern launch starts all of its ranks; who starts them otherwise may have forgotten one
    me.tell_wait = [](const std::string& what) { log_info("{}", what); };
  const auto store = std::make_shared<StoreClient>(launched.store, me, launched.more_ports);
  try {
    const Environment environment = process_environment();
    const auto fault = environment.find("TERN_FAULT");
    tell_spot(*store, launched);
    std::unique_ptr<Transport> links =
        carrier == Carrier::mpi ? make_mpi_transport(store, me) : make_process_transport(store, me);
    if (const std::string text = launched.rank == 0 ? fault_of_spots(*store, launched) : ""; !text.empty())
      log_warn("{}", text);
    auto comm = std::make_shared<Comm>(
        with_ledger(with_fault(std::move(links), fault == environment.end() ? "" : fault->second)));
    signals.reset();
    work(std::move(comm));
  } catch (const Error& e) {
    if (is_told_by_first(*store, launched.rank, silence_s, e)) throw ToldByFirstRank{e.kind()};
    store->abort(fmt::format("rank {} failed: {}", launched.rank, e.what()), e.kind());
    if (server && e.kind() == ErrorKind::usage) server->await_all(std::min(silence_s, kComesLate));
    throw;
  } catch (const std::exception& e) {
    store->abort(fmt::format("rank {} failed: {}", launched.rank, e.what()));
    throw;
  }
}

}  // namespace tern
