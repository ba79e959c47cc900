#include "comm/mpi_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "comm/link.h"
#include "comm/mpi/open_mpi.h"
#include "comm/self_messages.h"

namespace tern {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // MPI counts in int

// Two messages to one rank: the header, and the bytes where there are any. The header's place must not move while MPI reads it.
struct MpiOutgoing {
  int to;
  MessageHeader header;
  std::vector<MPI_Request> requests{};
};

// Header before each message; all have the generation as their tag, and MPI keeps those of a pair in order.
class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<StoreClient> store, const StoreRank& me)
      : mpi_(open_mpi()),
        store_(std::move(store)),
        me_(me),
        arrived_(static_cast<size_t>(me.size)),
        counted_(arrived_.size()),
        sent_(arrived_.size()),
        received_(arrived_.size()) {
    int given = 0, rank = 0, size = 0;
    if (mpi_.init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS)
      throw Error(ErrorKind::peer, "rank {}: MPI cannot begin", me.rank);
    if (given < MPI_THREAD_SERIALIZED)
      throw Error(ErrorKind::usage,
                  "messages by MPI: this Open MPI was built for programs of one thread; take another, or leave "
                  "messages to TCP");
    check(mpi_.comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
    check(mpi_.comm_rank(mpi_.world, &rank), "MPI_Comm_rank"),
        check(mpi_.comm_size(mpi_.world, &size), "MPI_Comm_size");
    if (rank != me.rank || size != me.size)
      throw Error(
          ErrorKind::usage,
          "messages by MPI: this process is rank {} of {} to MPI, and rank {} of {} of the run; start it with mpirun",
          rank, size, me.rank, me.size);
  }
  // Finalize waits for all ranks: after a failure some will never come.
  ~MpiTransport() override {
    cancel();
    if (!store_->failure() && !given_up_) mpi_.finalize();
  }
  int rank() const override { return me_.rank; }
  int size() const override { return me_.size; }

  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    if (store_->failure()) store_->throw_failure(fmt::format("was at {} to rank {}", describe_tag(tag), to));
    if (to == me_.rank) return to_self_.send(tag, bytes);
    MpiOutgoing& o = out_.emplace_back(MpiOutgoing{.to = to,
                                                   .header = {.magic = kMessageMagic,
                                                              .generation = static_cast<uint32_t>(generation_),
                                                              .tag = tag,
                                                              .length = bytes.size(),
                                                              .number = sent_[at(to)]++,
                                                              .payload_crc = crc32c(bytes)}});
    o.header.header_crc = crc32c(checked_part_of(o.header));
    post(std::as_bytes(std::span(&o.header, 1)), o);
    post(bytes, o);
    counted_[at(to)].sent += static_cast<int64_t>(bytes.size());
    go_on();
  }

  void recv(int from, uint64_t tag, std::span<std::byte> bytes) override { recv_any({&from, 1}, tag, bytes); }

  int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte> bytes) override {
    const auto awaits = [&] { return describe_awaited(from, tag); };
    auto first = from.end();
    wait_until(
        [&] { return (first = std::ranges::find_if(from, [&](int f) { return has_arrived(f); })) != from.end(); },
        awaits);
    const int who = *first;
    if (who == me_.rank) {
      to_self_.receive(tag, bytes);
      return who;
    }
    const MessageHeader header = *arrived_[at(who)];
    check_expected(me_.rank, who, header.tag, header.length, tag, bytes.size());
    arrived_[at(who)].reset();
    receive(who, bytes, awaits);
    if (!ledger_kept_ && crc32c(bytes) != header.payload_crc)
      give_up(fmt::format("rank {}, from rank {}: the bytes of {} were changed on their way", me_.rank, who,
                          describe_tag(tag)));
    counted_[at(who)].received += static_cast<int64_t>(bytes.size());
    return who;
  }

  bool poll(int from) override {
    if (store_->failure()) store_->throw_failure(fmt::format("looked for messages of rank {}", from));
    go_on();
    return has_arrived(from);
  }

  void flush() override {
    wait_until([&] { return go_on(), to_self_.empty() && out_.empty(); }, [&] { return unsent(); });
  }
  void flush_to(std::span<const int> peers) override {
    const auto all_sent = [&] {
      go_on();
      return to_self_.empty() &&
             std::ranges::none_of(out_, [&](const MpiOutgoing& o) { return std::ranges::count(peers, o.to) > 0; });
    };
    wait_until(all_sent, [&] { return unsent(); });
  }

  // MPI may read a header still; nobody expects what is left of this generation.
  void cancel() noexcept override {
    to_self_.clear();
    for (MpiOutgoing& o : out_)
      for (MPI_Request& r : o.requests)
        if (r != mpi_.no_request) mpi_.cancel(&r), mpi_.request_free(&r);
    abandoned_.splice(abandoned_.end(), out_);
  }

  void abort(const std::string& reason) noexcept override { store_->abort(reason); }

  void reconfigure(int64_t generation) override {
    TERN_CHECK(generation > generation_, "reconfigure: generation {} after {}", generation, generation_);
    cancel();
    generation_ = generation;
    std::ranges::fill(arrived_, std::nullopt);
    std::ranges::fill(sent_, 0), std::ranges::fill(received_, 0);
    store_->reconfigure(generation);
  }

  void keep_ledger(bool keep) override { ledger_kept_ = keep; }
  LinkBytes bytes(int peer) const override { return counted_[at(peer)]; }

 private:
  static size_t at(int rank) { return static_cast<size_t>(rank); }
  static std::span<const std::byte> checked_part_of(const MessageHeader& h) {
    return std::as_bytes(std::span(&h, 1)).first(offsetof(MessageHeader, header_crc));
  }
  int mpi_tag() const { return static_cast<int>(generation_ % 32768); }  // the least that MPI promises

  void check(int code, const char* call) const {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    mpi_.error_string(code, text, &length);
    throw Error(ErrorKind::peer, "rank {}: {}: {}", me_.rank, call, text);
  }

  void post(std::span<const std::byte> bytes, MpiOutgoing& o) {
    for (size_t begin = 0; begin < bytes.size(); begin += kMostAtOnce) {
      const size_t count = std::min(kMostAtOnce, bytes.size() - begin);
      check(mpi_.isend(bytes.data() + begin, static_cast<int>(count), mpi_.byte, o.to, mpi_tag(), mpi_.world,
                       &o.requests.emplace_back(mpi_.no_request)),
            "MPI_Isend");
    }
  }

  bool is_done(MPI_Request& request) {
    int done = 0;
    check(mpi_.test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  // Moves on what is under way, and forgets what the receiver or the system has.
  void go_on() {
    const size_t before = out_.size();
    std::erase_if(out_, [&](MpiOutgoing& o) {
      return std::ranges::all_of(o.requests, [&](MPI_Request& r) { return r == mpi_.no_request || is_done(r); });
    });
    if (out_.size() < before) store_->progress();
  }

  bool has_arrived(int from) {
    if (from == me_.rank) return !to_self_.empty();
    if (arrived_[at(from)]) return true;
    int there = 0;
    check(mpi_.iprobe(from, mpi_tag(), mpi_.world, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
    if (!there) return false;
    MessageHeader header;
    receive(from, std::as_writable_bytes(std::span(&header, 1)),
            [from] { return fmt::format("a header of rank {}", from); });
    if (header.magic != kMessageMagic || header.header_crc != crc32c(checked_part_of(header)) ||
        header.number != received_[at(from)])
      give_up(fmt::format("rank {}, from rank {}: a message's header was changed on its way, or one before it was lost",
                          me_.rank, from));
    ++received_[at(from)];
    arrived_[at(from)] = header;
    return true;
  }

  void receive(int from, std::span<std::byte> bytes, const std::function<std::string()>& awaits) {
    for (size_t begin = 0; begin < bytes.size(); begin += kMostAtOnce) {
      const size_t count = std::min(kMostAtOnce, bytes.size() - begin);
      MPI_Request request = mpi_.no_request;
      check(mpi_.irecv(bytes.data() + begin, static_cast<int>(count), mpi_.byte, from, mpi_tag(), mpi_.world, &request),
            "MPI_Irecv");
      try {
        wait_until([&] { return is_done(request); }, awaits);
      } catch (...) {
        if (request != mpi_.no_request) mpi_.cancel(&request), mpi_.request_free(&request);
        throw;
      }
      store_->progress();
    }
  }

  std::string unsent() const {
    if (out_.empty()) return "itself to receive what it sent";
    return fmt::format("rank {} to take {}", out_.front().to, describe_tag(out_.front().header.tag));
  }

  [[noreturn]] void give_up(const std::string& reason) {
    given_up_ = true;
    store_->abort(reason);
    throw Error(ErrorKind::peer, "{}", reason);
  }

  // MPI moves messages only while it is called: tries follow each other at once, and with pauses when nothing has come for a while.
  void wait_until(const std::function<bool()>& there, const std::function<std::string()>& awaits) {
    if (there()) return;
    constexpr int kTriesAtOnce = 2000;
    bool told = false;
    try {
      for (int tries = 0; !there(); ++tries) {
        if (store_->failure()) store_->throw_failure("waited for " + awaits());
        go_on();
        if (tries < kTriesAtOnce) {
          std::this_thread::yield();
          continue;
        }
        if (!told) store_->waits(awaits());
        told = true;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    } catch (...) {
      if (told) store_->goes_on();
      cancel();
      throw;
    }
    if (told) store_->goes_on();
  }

  const OpenMpi& mpi_;
  std::shared_ptr<StoreClient> store_;
  StoreRank me_;
  int64_t generation_ = 0;
  bool ledger_kept_ = false, given_up_ = false;
  std::vector<std::optional<MessageHeader>> arrived_;  // of each rank: read, its bytes not yet
  std::vector<LinkBytes> counted_;
  std::vector<uint64_t> sent_, received_;  // messages, of each rank
  std::list<MpiOutgoing> out_, abandoned_;
  SelfMessages to_self_{me_.rank};
};

}  // namespace

std::string why_no_mpi() {
  try {
    open_mpi();
  } catch (const Error& e) { return e.what(); }
  return "";
}

std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<StoreClient> store, const StoreRank& me) {
  if (const std::string why = why_no_mpi(); !why.empty()) throw Error(ErrorKind::usage, "{}", why);
  return std::make_unique<MpiTransport>(std::move(store), me);
}

}  // namespace tern
