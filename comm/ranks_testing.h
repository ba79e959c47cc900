#pragma once
// For tests: a Comm, or a Transport, on each of so many ranks as threads, over the memory of the process or over sockets.

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "comm/process_world.h"
#include "comm/thread_world.h"

namespace tern {

inline void with_comms(int ranks, const ThreadWorldOptions& options, const std::function<void(Comm&)>& work) {
  run_ranks(ranks, options, [&](std::unique_ptr<Transport> transport) {
    Comm comm(std::move(transport));
    work(comm);
  });
}

/// Every rank as a thread with the transport of a process, on 127.0.0.1. Errors: as run_ranks.
inline void run_socket_ranks(int ranks, double silence_s, const std::function<void(std::unique_ptr<Transport>)>& work) {
  StoreServer server({"127.0.0.1", 0}, {.size = ranks, .token = "test", .silence_s = silence_s});
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          const StoreRank me{.rank = rank, .size = ranks, .token = "test", .silence_s = silence_s};
          const auto store = std::make_shared<StoreClient>(server.address(), me);
          try {
            work(make_process_transport(store, me));
          } catch (const std::exception& e) {
            errors[static_cast<size_t>(rank)] = std::current_exception();
            store->abort(fmt::format("rank {} failed: {}", rank, e.what()));
          } catch (...) {
            errors[static_cast<size_t>(rank)] = std::current_exception();
            store->abort(fmt::format("rank {} failed", rank));
          }
        } catch (...) { errors[static_cast<size_t>(rank)] = std::current_exception(); }
      });
  }
  const int first = server.failure() ? server.failure()->rank : -1;
  if (first >= 0 && errors[static_cast<size_t>(first)]) std::rethrow_exception(errors[static_cast<size_t>(first)]);
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// What a test sends: one number, under this tag.
inline constexpr uint64_t kTestTag = tag_of(MessageKind::test, 1);
inline std::span<const std::byte> bytes_of(const int& x) { return std::as_bytes(std::span(&x, 1)); }
inline std::span<std::byte> room_of(int& x) { return std::as_writable_bytes(std::span(&x, 1)); }

}  // namespace tern
