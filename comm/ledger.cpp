#include "comm/ledger.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/crc32c.h"
#include "comm/decorators.h"

namespace tern {
namespace {

// What went from one rank to another, in order.
struct Account {
  uint64_t messages = 0, bytes = 0, crc = 0;
  void add(std::span<const std::byte> payload) {
    ++messages, bytes += payload.size(), crc = crc32c(payload, static_cast<uint32_t>(crc));
  }
  friend bool operator==(const Account&, const Account&) = default;
};

// 0: nothing was changed; else 1 + from · ranks + to. Said three times, so that a changed bit of it changes nothing.
using Verdict = std::array<uint64_t, 3>;
uint64_t most_say(const Verdict& v) { return (v[0] & v[1]) | (v[1] & v[2]) | (v[0] & v[2]); }

class LedgerTransport final : public TransportDecorator {
 public:
  explicit LedgerTransport(std::unique_ptr<Transport> inner)
      : TransportDecorator(std::move(inner)), sent_(ranks()), received_(ranks()), not_counted_(ranks()) {}

  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    if (kept_) sent_[at(to)].add(bytes);
    inner_->send(to, tag, bytes);
  }
  void recv(int from, uint64_t tag, std::span<std::byte> bytes) override {
    inner_->recv(from, tag, bytes);
    if (kept_) received_[at(from)].add(bytes);
  }
  int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte> bytes) override {
    const int who = inner_->recv_any(from, tag, bytes);
    if (kept_) received_[at(who)].add(bytes);
    return who;
  }
  void reconfigure(int64_t generation) override {
    inner_->reconfigure(generation);
    begin();
  }
  LinkBytes bytes(int peer) const override {
    const LinkBytes all = inner_->bytes(peer), &own = not_counted_[at(peer)];
    return {all.sent - own.sent, all.received - own.received};
  }

  void keep_ledger(bool keep) override {
    kept_ = keep;
    begin();
    inner_->keep_ledger(keep);
  }

  std::optional<ChangedMessage> settle() override {
    if (!kept_) return {};
    const std::vector<Account> theirs = exchange(sent_);
    uint64_t worst = 0;
    for (int from = 0; from < size(); ++from)
      if (from != rank() && theirs[at(from)] != received_[at(from)])
        worst = std::max(worst, 1 + at(from) * ranks() + at(rank()));
    begin();
    for (const Verdict& v : exchange(std::vector<Verdict>(ranks(), {worst, worst, worst})))
      worst = std::max(worst, most_say(v));
    if (worst == 0) return {};
    return ChangedMessage{static_cast<int>((worst - 1) / ranks()), static_cast<int>((worst - 1) % ranks())};
  }

 private:
  size_t ranks() const { return static_cast<size_t>(inner_->size()); }
  static size_t at(int rank) { return static_cast<size_t>(rank); }
  void begin() { std::ranges::fill(sent_, Account{}), std::ranges::fill(received_, Account{}); }

  // Sends each rank its element, and returns those of the others.
  template <class T>
  std::vector<T> exchange(const std::vector<T>& mine) {
    const uint64_t tag = tag_of(MessageKind::ledger, ++settled_);
    std::vector<T> theirs(ranks());
    try {
      for (int step = 1; step < size(); ++step) {
        const int to = (rank() + step) % size();
        inner_->send(to, tag, std::as_bytes(std::span(&mine[at(to)], 1)));
      }
      for (int step = 1; step < size(); ++step) {
        const int from = (rank() - step + size()) % size();
        inner_->recv(from, tag, std::as_writable_bytes(std::span(&theirs[at(from)], 1)));
        not_counted_[at(from)] += {sizeof(T), sizeof(T)};
      }
      inner_->flush();
    } catch (...) {
      inner_->cancel();
      throw;
    }
    return theirs;
  }

  bool kept_ = false;
  std::vector<Account> sent_, received_;  // of each rank, since the last settle
  std::vector<LinkBytes> not_counted_;
  uint64_t settled_ = 0;
};

}  // namespace

std::unique_ptr<Transport> with_ledger(std::unique_ptr<Transport> inner) {
  return std::make_unique<LedgerTransport>(std::move(inner));
}

}  // namespace tern
