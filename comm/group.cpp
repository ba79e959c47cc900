#include "comm/group.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

class GroupTransport final : public Transport {
 public:
  GroupTransport(Transport& world, std::vector<int> ranks) : world_(world), ranks_(std::move(ranks)) {
    const auto mine = std::ranges::find(ranks_, world_.rank());
    TERN_CHECK(mine != ranks_.end(), "group_of: rank {} is not among the {} of the group", world_.rank(),
               ranks_.size());
    rank_ = static_cast<int>(mine - ranks_.begin());
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override { world_.send(of(to), tag, bytes); }
  void recv(int from, uint64_t tag, std::span<std::byte> bytes) override { world_.recv(of(from), tag, bytes); }
  int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte> bytes) override {
    std::vector<int> whom;
    for (const int r : from) whom.push_back(of(r));
    const int who = world_.recv_any(whom, tag, bytes);
    return static_cast<int>(std::ranges::find(ranks_, who) - ranks_.begin());
  }
  bool poll(int from) override { return world_.poll(of(from)); }
  void flush() override { world_.flush_to(ranks_); }
  void flush_to(std::span<const int> peers) override {
    std::vector<int> whom;
    for (const int r : peers) whom.push_back(of(r));
    world_.flush_to(whom);
  }
  void cancel() noexcept override { world_.cancel(); }
  void abort(const std::string& reason) noexcept override { world_.abort(reason); }
  void reconfigure(int64_t) override { TERN_CHECK(false, "group_of: the world reconfigures, not a group"); }
  LinkBytes bytes(int peer) const override { return world_.bytes(of(peer)); }

 private:
  int of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  Transport& world_;
  std::vector<int> ranks_;
  int rank_ = 0;
};

}  // namespace

std::unique_ptr<Transport> group_of(Transport& world, std::vector<int> ranks) {
  return std::make_unique<GroupTransport>(world, std::move(ranks));
}

}  // namespace tern
