#pragma once
// The store: where processes of one run find each other and learn that one has failed. A small key/value server, in the
// launcher or in rank 0, apart from the links that carry the work; and a rank's end of it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "comm/socket.h"

namespace tern {

/// Why a world cannot go on.
struct WorldFailure {
  int64_t generation = 0;
  int rank = -1;  // whose; −1: nobody's alone
  ErrorKind kind = ErrorKind::peer;
  std::string reason;
};

struct StoreConfig {
  int size = 1;       // ranks of the run
  std::string token;  // of the run; who has another one is refused
  double silence_s =
      30;              // a rank without a sign of life for so long is lost; as long all ranks may wait without progress
  double grace_s = 0;  // a closed connection is told after so long: a launcher knows better how a process ended
};

/// Serves until it is destroyed, on a thread of its own.
/// Failures  the first one of a generation counts and is told to all ranks: one that says so (abort), one whose connection
///           closes before it has left, one that is silent, all that live waiting for each other, one of another run,
///           size or version, or with a rank that another process has.
class StoreServer {
 public:
  /// Listens at `at`, or at one of the next `more_ports` where its port is taken. Port 0: one that the system chooses.
  /// Errors  peer: cannot listen there; every port is taken.
  StoreServer(const HostPort& at, StoreConfig, int more_ports = 0);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  HostPort address() const;
  /// Says for others that a rank has failed; any thread.
  void fail(int rank, const std::string& reason);
  std::optional<WorldFailure> failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A rank's place in a run.
struct StoreRank {
  int rank = 0, size = 1;
  std::string token;
  double silence_s = 30;  // how long it looks for the store; the rest is as the StoreConfig says
};

/// Used by the rank's thread. A thread of its own gives signs of life and listens for failures.
class StoreClient {
 public:
  /// Joins: tries the address, and the next `more_ports`, until it is welcome.
  /// Errors  peer: nobody answered within silence_s; usage: refused, with the server's reason.
  StoreClient(const HostPort&, const StoreRank&, int more_ports = 0);
  /// Says that the rank's work is done.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;

  void set(const std::string& key, const std::string& value);
  /// Waits until somebody sets it, at most silence_s. Errors: peer, naming the key; a failure of the run.
  std::string get(const std::string& key, const std::string& wanted_for);
  /// Tells all why the run cannot go on. `kind` usage: a person's settings are the cause, for all ranks alike.
  void abort(const std::string& reason, ErrorKind kind = ErrorKind::peer) noexcept;
  /// Returns when all ranks have come to this generation; failures of earlier ones are forgotten.
  void reconfigure(int64_t generation);

  /// What the rank waits for, in words, until it goes on.
  void waits(std::string);
  void goes_on();
  /// Something has moved.
  void progress() { ++progress_; }

  std::optional<WorldFailure> failure() const;  // of the generation it is in
  /// Becomes readable, and stays so, when there is a failure.
  int failure_descriptor() const;
  /// Waits for a failure, at most so long.
  bool failed_within(double seconds) const;
  /// `doing`: "it waited for all-gather 17 of rank 2".
  [[noreturn]] void throw_failure(const std::string& doing) const;
  /// Where others reach this rank: the address that it reaches the store from, or the store's own.
  std::string own_host() const;

 private:
  struct State;
  std::atomic<int64_t> progress_ = 0;  // outlives the thread that tells of it
  std::unique_ptr<State> state_;
};

}  // namespace tern
