#pragma once
// The store: where the processes of one run find each other, and learn that one of them has failed. StoreServer is a small key/value
// server in the launcher or in rank 0, apart from the links that carry tensors. StoreClient is a rank's end of it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "comm/socket.h"

namespace tern {

/// Why a world cannot go on.
struct WorldFailure {
  int64_t generation = 0;
  int rank = -1;  // the rank that failed; −1: no single rank did
  ErrorKind kind = ErrorKind::peer;
  std::string reason;
};

struct StoreConfig {
  int size = 1;       // ranks of the run
  std::string token;  // the run's token; a client with another one is refused
  double silence_s =
      30;  // seconds. A rank that gives no sign of life for this long counts as lost; all ranks may wait for this long
           // without any progress
  double grace_s =
      0;  // seconds after which a closed connection counts as a failure; until then a launcher may report how
          // the process ended
};

/// Serves until it is destroyed, on a thread of its own.
/// Failures  the first failure of a generation counts, and is reported to all ranks. Failures: a rank calls abort; its connection closes
///           before it has left; it is silent for silence_s; all living ranks wait for each other; before all ranks have joined, a
///           client has another size or version than the run, or a rank that is taken or out of range.
/// Refused   without a failure: a client with another run's token, which may look elsewhere; any client after all ranks have joined.
class StoreServer {
 public:
  /// Listens at `at`; if the port there is taken, at one of the next `more_ports` ports. Port 0: a port that the system chooses.
  /// Errors  peer: cannot listen there; usage: every port is taken.
  StoreServer(const HostPort& at, StoreConfig, int more_ports = 0);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  HostPort address() const;
  /// Reports that a rank has failed, for a rank that cannot report it itself. Any thread may call it.
  void fail(int rank, const std::string& reason);
  std::optional<WorldFailure> failure() const;
  /// For use after a failure: waits, for at most `seconds`, until every rank has joined or was refused. So a rank that comes late still learns why.
  void await_all(double seconds) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A rank's place in a run.
struct StoreRank {
  int rank = 0, size = 1;
  std::string token;
  double silence_s = 30;  // how long it looks for the store; the server decides all other times (StoreConfig)
  /// Gets a sentence for people if the rank still looks for the store, or for another rank, after kQuietWait_s. May be empty.
  std::function<void(const std::string&)> tell_wait{};
};
inline constexpr double kQuietWait_s = 2;

/// Used by one thread of the rank at a time. A thread of the client's own sends signs of life to the store and listens for failures.
class StoreClient {
 public:
  /// Joins the run: tries the address and the next `more_ports` ports in turn, until a server of this run accepts the rank.
  /// Errors  peer: nobody answered within silence_s; usage: refused, with the server's reason; the host's name is not known.
  StoreClient(const HostPort&, const StoreRank&, int more_ports = 0);
  /// Tells the store that the rank's work is done.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;

  void set(const std::string& key, const std::string& value);
  /// Waits, for at most silence_s, until some rank has set the key. Errors: peer, with `wanted_for`; a failure of the run.
  std::string get(const std::string& key, const std::string& wanted_for);
  /// Tells all ranks why the run cannot go on. `kind` usage: a person's settings are the cause, for all ranks alike.
  void abort(const std::string& reason, ErrorKind kind = ErrorKind::peer) noexcept;
  /// Returns when all ranks have called it for this generation. Failures of earlier generations are forgotten.
  void reconfigure(int64_t generation);

  /// From `waits` until goes_on the store counts this rank as waiting; the text tells what for.
  void waits(std::string);
  void goes_on();
  /// To be called whenever bytes have moved: it shows the store that the rank makes progress.
  void progress() { ++progress_; }

  std::optional<WorldFailure> failure() const;  // in the generation in which the client is now
  /// A descriptor that becomes readable when there is a failure, and stays so.
  int failure_descriptor() const;
  /// Waits for a failure, for at most `seconds`; false: there was none.
  bool failed_within(double seconds) const;
  /// Throws the failure. `doing`: what this rank did, such as "waited for all-gather 17 of rank 2".
  [[noreturn]] void throw_failure(const std::string& doing) const;
  /// Where others reach this rank: its own address on the connection to the store; if that is a loopback address, the store's host.
  std::string own_host() const;
  /// The address at which the store was found.
  HostPort address() const;

 private:
  struct State;
  std::atomic<int64_t> progress_ = 0;  // the client's thread reads it, so it must outlive state_
  std::unique_ptr<State> state_;
};

}  // namespace tern
