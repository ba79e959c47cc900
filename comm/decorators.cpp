#include "comm/decorators.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <list>
#include <vector>

#include "base/error.h"

namespace tern {
namespace {

class PacedTransport final : public TransportDecorator {
 public:
  PacedTransport(std::unique_ptr<Transport> inner, Pace pace, Clock& clock)
      : TransportDecorator(std::move(inner)), pace_(pace), clock_(clock) {}

  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    // From when the one before had passed, not from when its sleeper woke up: rates come out as asked for.
    const int64_t now = clock_.now_ns();
    const double seconds = pace_.latency_s + static_cast<double>(bytes.size()) / pace_.bytes_per_s;
    if (now > free_ns_ + kIdleNs) free_ns_ = now;
    free_ns_ += static_cast<int64_t>(1e9 * seconds);
    if (free_ns_ > now) clock_.sleep_ns(free_ns_ - now);
    inner_->send(to, tag, bytes);
  }

 private:
  static constexpr int64_t kIdleNs = 1'000'000;  // an oversleep; longer, and the link was idle
  Pace pace_;
  Clock& clock_;
  int64_t free_ns_ = 0;  // when the link has carried all before
};

class FaultyTransport final : public TransportDecorator {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, TransportFault fault)
      : TransportDecorator(std::move(inner)), fault_(fault) {}

  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    const int64_t number = sends_++;
    if (fault_.kind == TransportFaultKind::partition && number >= fault_.at_send) return;
    if (number != fault_.at_send) return inner_->send(to, tag, bytes);
    switch (fault_.kind) {
      case TransportFaultKind::kill:
        throw Error(ErrorKind::peer, "rank {}: killed on purpose at {}", rank(), describe_tag(tag));
      case TransportFaultKind::hang: {
        std::byte never;
        return inner_->recv(rank(), tag, {&never, 1});  // nobody sends to itself
      }
      case TransportFaultKind::die:
      case TransportFaultKind::stop:
        ::raise(fault_.kind == TransportFaultKind::die ? SIGKILL : SIGSTOP);
        return inner_->send(to, tag, bytes);
      case TransportFaultKind::partition:
        return;
      case TransportFaultKind::corrupt:
        std::vector<std::byte>& wrong = corrupted_.emplace_back(bytes.begin(), bytes.end());
        if (!wrong.empty()) {
          const uint64_t bit = fault_.bit.value_or(8 * (wrong.size() / 2)) % (8 * wrong.size());
          wrong[bit / 8] ^= std::byte{1} << bit % 8;
        }
        return inner_->send(to, tag, wrong);
    }
  }
  void flush() override {
    inner_->flush();
    corrupted_.clear();
  }
  void cancel() noexcept override {
    inner_->cancel();
    corrupted_.clear();
  }
  ~FaultyTransport() override { inner_->cancel(); }

 private:
  TransportFault fault_;
  int64_t sends_ = 0;
  std::list<std::vector<std::byte>> corrupted_;  // until received
};

// The numbers that stand behind a fault's name, each after an '@'; one that is none becomes -1.
std::vector<int64_t> numbers_of_fault(const std::string& fault) {
  std::vector<int64_t> numbers;
  for (size_t at = fault.find('@'); at != std::string::npos; at = fault.find('@', at + 1)) {
    int64_t value = -1;
    const char* const end = fault.data() + std::min(fault.find('@', at + 1), fault.size());
    const auto [read, error] = std::from_chars(fault.data() + at + 1, end, value);
    numbers.push_back(error == std::errc() && read == end ? value : -1);
  }
  return numbers;
}

std::unique_ptr<Transport> with_one_fault(std::unique_ptr<Transport> inner, const std::string& fault) {
  constexpr std::array<std::pair<std::string_view, TransportFaultKind>, 4> kKinds{
      {{"die", TransportFaultKind::die},
       {"stop", TransportFaultKind::stop},
       {"partition", TransportFaultKind::partition},
       {"corrupt", TransportFaultKind::corrupt}}};
  const std::string kind = fault.substr(0, fault.find('@'));
  std::vector<int64_t> numbers = numbers_of_fault(fault);
  if (!numbers.empty() && fault.substr(fault.find('@')).starts_with("@*@")) numbers[0] = inner->rank();
  const auto found = std::ranges::find(kKinds, std::string_view(kind), [](const auto& k) { return k.first; });
  const size_t most = kind == "corrupt" ? 3 : 2;
  if (numbers.size() < 2 || numbers.size() > most || std::ranges::min(numbers) < 0 ||
      (found == kKinds.end() && kind != "slow"))
    throw Error(
        ErrorKind::usage,
        "TERN_FAULT={}: expected die, stop, partition or corrupt and @RANK@SEND, corrupt also @RANK@SEND@BIT, or "
        "slow@RANK@BYTES; RANK * is all",
        fault);
  if (numbers[0] >= inner->size())
    throw Error(ErrorKind::usage, "TERN_FAULT={}: this run has no rank {}; its ranks are 0 to {}", fault, numbers[0],
                inner->size() - 1);
  if (numbers[0] != inner->rank()) return inner;
  if (kind == "slow") return paced(std::move(inner), {.bytes_per_s = static_cast<double>(numbers[1])});
  TransportFault of{found->second, numbers[1]};
  if (numbers.size() > 2) of.bit = static_cast<uint64_t>(numbers[2]);
  return faulty(std::move(inner), of);
}

}  // namespace

std::unique_ptr<Transport> paced(std::unique_ptr<Transport> inner, Pace pace, Clock& clock) {
  return std::make_unique<PacedTransport>(std::move(inner), pace, clock);
}

std::unique_ptr<Transport> faulty(std::unique_ptr<Transport> inner, TransportFault fault) {
  return std::make_unique<FaultyTransport>(std::move(inner), fault);
}

std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport> transport, const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    transport = with_one_fault(std::move(transport), text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return transport;
}

}  // namespace tern
