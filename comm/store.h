#pragma once
// The store: where processes of one run find each other and learn that one has failed. A small key/value server, in the
// launcher or in rank 0, apart from the links that carry the work; and a rank's end of it.

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
  int rank = -1;  // the rank that failed; −1: no single one
  ErrorKind kind = ErrorKind::peer;
  std::string reason;
};

struct StoreConfig {
  int size = 1;       // ranks of the run
  std::string token;  // the run's token; a client with another one is refused
  double silence_s =
      30;  // a rank that gives no sign of life for this long counts as lost; for this long all ranks may wait
           // without any progress
  double grace_s =
      0;  // a closed connection is reported as a failure only after this time, as a launcher may know better how
          // the process ended
};

/// Serves until it is destroyed, on a thread of its own.
/// Failures  the first failure of a generation counts and is reported to all ranks. Failures are: a rank that calls abort, one
///           whose connection closes before it has left, one that is silent, all living ranks waiting for each other, and, until
///           all ranks have joined, a client of another size or version, or one whose rank is taken or out of range.
/// Refused   without a failure: a client of another run, which may look elsewhere; any client after all ranks have joined.
class StoreServer {
 public:
  /// Listens at `at`, or at one of the next `more_ports` where its port is taken. Port 0: one that the system chooses.
  /// Errors  peer: cannot listen there; usage: every port is taken.
  StoreServer(const HostPort& at, StoreConfig, int more_ports = 0);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  HostPort address() const;
  /// Reports, for a rank that cannot do it itself, that it has failed. From any thread.
  void fail(int rank, const std::string& reason);
  std::optional<WorldFailure> failure() const;
  /// After a failure: waits until every rank of the run has joined, or was refused, at most so long. Who comes later than the failure learns why.
  void await_all(double seconds) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A rank's place in a run.
struct StoreRank {
  int rank = 0, size = 1;
  std::string token;
  double silence_s = 30;  // how long it looks for the store; all other times are the server's (StoreConfig)
  /// Told once, in words, if the rank still looks for the store or for another rank when kQuietWait_s have passed; may be empty.
  std::function<void(const std::string&)> tell_wait{};
};
inline constexpr double kQuietWait_s = 2;

/// Used by one thread of the rank at a time. A thread of its own gives signs of life and listens for failures.
class StoreClient {
 public:
  /// Joins the run: tries the address, and the next `more_ports` ports, until a server takes it in.
  /// Errors  peer: nobody answered within silence_s; usage: refused, with the server's reason; a host whose name is not known.
  StoreClient(const HostPort&, const StoreRank&, int more_ports = 0);
  /// Says that the rank's work is done.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;

  void set(const std::string& key, const std::string& value);
  /// Waits, for at most silence_s, until somebody has set the key. Errors: peer, naming the key; a failure of the run.
  std::string get(const std::string& key, const std::string& wanted_for);
  /// Tells all why the run cannot go on. `kind` usage: a person's settings are the cause, for all ranks alike.
  void abort(const std::string& reason, ErrorKind kind = ErrorKind::peer) noexcept;
  /// Returns when all ranks have come to this generation; failures of earlier ones are forgotten.
  void reconfigure(int64_t generation);

  /// waits: tells the store in words what the rank waits for, until goes_on.
  void waits(std::string);
  void goes_on();
  /// To be called whenever a byte has moved: the rank makes progress.
  void progress() { ++progress_; }

  std::optional<WorldFailure> failure() const;  // of the client's present generation
  /// Becomes readable, and stays so, when there is a failure.
  int failure_descriptor() const;
  /// Waits for a failure, for at most `seconds`; false: there was none.
  bool failed_within(double seconds) const;
  /// `doing`: what this rank did, "waited for all-gather 17 of rank 2".
  [[noreturn]] void throw_failure(const std::string& doing) const;
  /// Where others reach this rank: the address from which it reaches the store; if that is a loopback address, the store's host.
  std::string own_host() const;
  /// Where the store was found.
  HostPort address() const;

 private:
  struct State;
  std::atomic<int64_t> progress_ = 0;  // outlives the thread that tells of it
  std::unique_ptr<State> state_;
};

}  // namespace tern
