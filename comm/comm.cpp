#include "comm/comm.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/sum_parts.h"
#include "spec/layout.h"

namespace tern {
namespace {

// A world of one: whoever sends or receives there has a bug.
class SoloTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void send(int to, uint64_t, std::span<const std::byte>) override { nobody(to); }
  void recv(int from, uint64_t, std::span<std::byte>) override { nobody(from); }
  int recv_any(std::span<const int>, uint64_t, std::span<std::byte>) override { nobody(0); }
  bool poll(int) override { return false; }
  void flush() override {}
  void cancel() noexcept override {}
  void abort(const std::string&) noexcept override {}
  void reconfigure(int64_t) override {}
  LinkBytes bytes(int) const override { return {}; }

 private:
  [[noreturn]] static void nobody(int peer) {
    check_failed(__FILE__, __LINE__, "size() == 1", fmt::format("a message for rank {} of a world of one", peer));
  }
};

// What was sent from memory of the caller's is taken back before an exception leaves with that memory.
class PostedSends {
 public:
  explicit PostedSends(Transport& t) : transport_(t) {}
  ~PostedSends() {
    if (!done_) transport_.cancel();
  }
  PostedSends(const PostedSends&) = delete;
  void finish() {
    transport_.flush();
    done_ = true;
  }

 private:
  Transport& transport_;
  bool done_ = false;
};

std::span<std::byte> bytes_of(const Tensor& t) {
  if (t.empty()) return {};
  return {static_cast<std::byte*>(t.data()), static_cast<size_t>(t.bytes())};
}

int64_t count_of(std::span<const Tensor> tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors) count += t.count();
  return count;
}

// Calls visit(bytes) for each stretch of memory that elements [begin, begin + count) of the vector lie in.
template <class Visit>
void each_stretch(std::span<const Tensor> tensors, int64_t begin, int64_t count, Visit visit) {
  for (const Tensor& t : tensors) {
    const int64_t first = std::min(begin, t.count()), taken = std::min(count, t.count() - first);
    const int64_t size = size_of(t.dtype());
    if (taken > 0) visit(bytes_of(t).subspan(static_cast<size_t>(first * size), static_cast<size_t>(taken * size)));
    begin -= first, count -= taken;
  }
}

void check_vector(std::span<const Tensor> tensors) {
  for (const Tensor& t : tensors)
    TERN_CHECK(t.dtype() == tensors[0].dtype(), "collective: a vector of {} and {}", name_of(tensors[0].dtype()),
               name_of(t.dtype()));
}

// Pieces of the vector, one after the other.
template <class Visit>
void each_piece(int64_t elements, Visit visit) {
  for (int64_t begin = 0; begin < elements; begin += kPieceElements)
    visit(begin, std::min(kPieceElements, elements - begin));
}

}  // namespace

Comm::Comm(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

// This rank's part of the piece becomes the sum.
void Comm::scatter_sums(std::span<const Tensor> tensors, uint64_t tag, int64_t begin, int64_t count) {
  Transport& t = *transport_;
  const auto part = [&](int rank) { return part_of(count, rank, size()); };
  PostedSends sends(t);
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    each_stretch(tensors, begin + part(to).begin, part(to).size(),
                 [&](std::span<const std::byte> bytes) { t.send(to, tag, bytes); });
  }
  const Interval mine = part(rank());
  const int64_t element = size_of(tensors[0].dtype()), part_bytes = mine.size() * element;
  const auto arrived = [&](int from) {
    return bytes_of(staging_).data() + (from < rank() ? from : from - 1) * part_bytes;
  };
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    std::byte* at = arrived(from);
    each_stretch(tensors, begin + mine.begin, mine.size(), [&](std::span<const std::byte> bytes) {
      t.recv(from, tag, {at, bytes.size()});
      at += bytes.size();
    });
  }
  int64_t offset = 0;
  std::vector<std::byte*> leaves(static_cast<size_t>(size()));
  each_stretch(tensors, begin + mine.begin, mine.size(), [&](std::span<std::byte> bytes) {
    for (int leaf = 0; leaf < size(); ++leaf)
      leaves[static_cast<size_t>(leaf)] = leaf == rank() ? bytes.data() : arrived(leaf) + offset;
    sum_parts(tensors[0].dtype(), leaves, static_cast<size_t>(rank()), static_cast<int64_t>(bytes.size()) / element);
    offset += static_cast<int64_t>(bytes.size());
  });
  sends.finish();
}

void Comm::gather_parts(std::span<const Tensor> tensors, uint64_t tag, int64_t begin, int64_t count) {
  Transport& t = *transport_;
  const auto part = [&](int rank) { return part_of(count, rank, size()); };
  PostedSends sends(t);
  for (int step = 1; step < size(); ++step)
    each_stretch(tensors, begin + part(rank()).begin, part(rank()).size(),
                 [&](std::span<const std::byte> bytes) { t.send((rank() + step) % size(), tag, bytes); });
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    each_stretch(tensors, begin + part(from).begin, part(from).size(),
                 [&](std::span<std::byte> bytes) { t.recv(from, tag, bytes); });
  }
  sends.finish();
}

void Comm::reduce_scatter_sum(std::span<const Tensor> tensors) {
  check_vector(tensors);
  const int64_t elements = count_of(tensors);
  if (size() == 1 || elements == 0) return;
  if (tensors[0].dtype() == DType::boolean) sum_parts(DType::boolean, {}, 0, 0);  // refused before anything is sent
  const int64_t wanted = staging_elements(elements, size()) * size_of(tensors[0].dtype());
  if (staging_.empty() || staging_.bytes() < wanted) {
    staging_ = Tensor();
    staging_ = staging_arena_.bytes(wanted, MemoryClass::staging);
  }
  const uint64_t tag = next(MessageKind::reduce_scatter);
  each_piece(elements, [&](int64_t begin, int64_t count) { scatter_sums(tensors, tag, begin, count); });
}

void Comm::all_gather(std::span<const Tensor> tensors) {
  check_vector(tensors);
  if (size() == 1) return;
  const uint64_t tag = next(MessageKind::all_gather);
  each_piece(count_of(tensors), [&](int64_t begin, int64_t count) { gather_parts(tensors, tag, begin, count); });
}

void Comm::all_reduce_sum(std::span<const Tensor> tensors) {
  reduce_scatter_sum(tensors);
  all_gather(tensors);
}

void Comm::broadcast(const Tensor& tensor, int root) {
  const uint64_t tag = next(MessageKind::broadcast);
  if (rank() != root) return transport_->recv(root, tag, bytes_of(tensor));
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step) transport_->send((root + step) % size(), tag, bytes_of(tensor));
  sends.finish();
}

void Comm::all_to_all(std::span<const Tensor> send, std::span<const Tensor> receive) {
  TERN_CHECK(static_cast<int>(send.size()) == size() && static_cast<int>(receive.size()) == size(),
             "all_to_all: {} and {} tensors for {} ranks", send.size(), receive.size(), size());
  const uint64_t tag = next(MessageKind::all_to_all);
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    transport_->send(to, tag, bytes_of(send[static_cast<size_t>(to)]));
  }
  const std::span<const std::byte> from_self = bytes_of(send[static_cast<size_t>(rank())]);
  const std::span<std::byte> to_self = bytes_of(receive[static_cast<size_t>(rank())]);
  TERN_CHECK(from_self.size() == to_self.size(), "all_to_all: {} bytes to itself, {} expected", from_self.size(),
             to_self.size());
  if (!from_self.empty()) std::memcpy(to_self.data(), from_self.data(), from_self.size());
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    transport_->recv(from, tag, bytes_of(receive[static_cast<size_t>(from)]));
  }
  sends.finish();
}

void Comm::all_reduce(std::span<int64_t> values, Combine combine) {
  const uint64_t tag = next(MessageKind::integers);
  const std::vector<int64_t> mine(values.begin(), values.end());
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step)
    transport_->send((rank() + step) % size(), tag, std::as_bytes(std::span(mine)));
  std::vector<int64_t> theirs(values.size());
  for (int step = 1; step < size(); ++step) {
    transport_->recv((rank() - step + size()) % size(), tag, std::as_writable_bytes(std::span(theirs)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = combine == Combine::sum    ? values[i] + theirs[i]
                  : combine == Combine::most ? std::max(values[i], theirs[i])
                                             : std::min(values[i], theirs[i]);
  }
  sends.finish();
}

std::vector<double> Comm::gather(std::span<const double> mine) {
  const uint64_t tag = next(MessageKind::values);
  std::vector<double> all(mine.size() * static_cast<size_t>(size()));
  const auto of = [&](int r) { return std::span(all).subspan(static_cast<size_t>(r) * mine.size(), mine.size()); };
  std::ranges::copy(mine, of(rank()).begin());
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step) transport_->send((rank() + step) % size(), tag, std::as_bytes(mine));
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    transport_->recv(from, tag, std::as_writable_bytes(of(from)));
  }
  sends.finish();
  return all;
}

std::string Comm::broadcast(std::string text, int root) {
  int64_t length = rank() == root ? static_cast<int64_t>(text.size()) : 0;
  all_reduce({&length, 1}, Combine::most);
  text.resize(static_cast<size_t>(length));
  if (length > 0) broadcast(Tensor::borrow(DType::u8, {length}, text.data()), root);
  return text;
}

void Comm::barrier() { all_reduce({}, Combine::sum); }

LinkBytes Comm::bytes() const {
  LinkBytes sum;
  for (int peer = 0; peer < size(); ++peer) sum += transport_->bytes(peer);
  return sum;
}

std::unique_ptr<Comm> make_solo_comm() { return std::make_unique<Comm>(std::make_unique<SoloTransport>()); }

}  // namespace tern
