#include "comm/comm.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "comm/sum_parts.h"
#include "spec/layout.h"
#include "tensor/bytes_of.h"

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
  void flush_to(std::span<const int>) override {}
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

// The type of all parts, which have one. None: there are no elements.
std::optional<DType> dtype_of(const RankParts& parts) {
  std::optional<DType> dtype;
  for (const std::vector<Tensor>& part : parts)
    for (const Tensor& t : part) {
      TERN_CHECK(!dtype || t.dtype() == *dtype, "collective: a vector of {} and {}", name_of(*dtype),
                 name_of(t.dtype()));
      dtype = t.dtype();
    }
  return dtype;
}

int64_t longest_of(const RankParts& parts) {
  int64_t longest = 0;
  for (const std::vector<Tensor>& part : parts) longest = std::max(longest, count_of(part));
  return longest;
}

}  // namespace

Comm::Comm(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

RankParts even_parts(std::span<const Tensor> tensors, int ranks) {
  const int64_t elements = count_of(tensors);
  RankParts parts(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Interval left = part_of(elements, rank, ranks);
    for (const Tensor& t : tensors) {
      const int64_t begin = std::min(left.begin, t.count()), end = std::min(left.end, t.count());
      if (begin < end) parts[static_cast<size_t>(rank)].push_back(t.reshaped({t.count()}).rows_view(begin, end));
      left = {left.begin - begin, left.end - end};
    }
  }
  return parts;
}

// A piece of this rank's part becomes the sum.
void Comm::scatter_sums(const RankParts& parts, uint64_t tag, int64_t begin) {
  Transport& t = *transport_;
  const int64_t piece = piece_of_part(size());
  PostedSends sends(t);
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    each_stretch(parts[static_cast<size_t>(to)], begin, piece,
                 [&](std::span<const std::byte> bytes) { t.send(to, tag, bytes); });
  }
  const std::vector<Tensor>& mine = parts[static_cast<size_t>(rank())];
  const int64_t element = size_of(mine.empty() ? DType::u8 : mine[0].dtype());
  const int64_t piece_bytes = std::clamp<int64_t>(count_of(mine) - begin, 0, piece) * element;
  const auto arrived = [&](int from) {
    return bytes_of(staging_).data() + (from < rank() ? from : from - 1) * piece_bytes;
  };
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    std::byte* at = arrived(from);
    each_stretch(mine, begin, piece, [&](std::span<const std::byte> bytes) {
      t.recv(from, tag, {at, bytes.size()});
      at += bytes.size();
    });
  }
  int64_t offset = 0;
  std::vector<std::byte*> leaves(static_cast<size_t>(size()));
  each_stretch(mine, begin, piece, [&](std::span<std::byte> bytes) {
    for (int leaf = 0; leaf < size(); ++leaf)
      leaves[static_cast<size_t>(leaf)] = leaf == rank() ? bytes.data() : arrived(leaf) + offset;
    sum_parts(mine[0].dtype(), leaves, static_cast<size_t>(rank()), static_cast<int64_t>(bytes.size()) / element);
    offset += static_cast<int64_t>(bytes.size());
  });
  sends.finish();
}

void Comm::gather_parts(const RankParts& parts, uint64_t tag, int64_t begin) {
  Transport& t = *transport_;
  const int64_t piece = piece_of_part(size());
  PostedSends sends(t);
  for (int step = 1; step < size(); ++step)
    each_stretch(parts[static_cast<size_t>(rank())], begin, piece,
                 [&](std::span<const std::byte> bytes) { t.send((rank() + step) % size(), tag, bytes); });
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    each_stretch(parts[static_cast<size_t>(from)], begin, piece,
                 [&](std::span<std::byte> bytes) { t.recv(from, tag, bytes); });
  }
  sends.finish();
}

void Comm::reduce_scatter_sum(const RankParts& parts) {
  const std::optional<DType> dtype = dtype_of(parts);
  if (size() == 1 || !dtype) return;
  if (*dtype == DType::boolean) sum_parts(DType::boolean, {}, 0, 0);  // refused before anything is sent
  const int64_t longest = longest_of(parts), wanted = staging_elements(longest, size()) * size_of(*dtype);
  if (staging_.empty() || staging_.bytes() < wanted) {
    staging_ = Tensor();
    staging_ = staging_arena_.bytes(wanted, MemoryClass::staging);
  }
  const uint64_t tag = next(MessageKind::reduce_scatter);
  for (int64_t begin = 0; begin < longest; begin += piece_of_part(size())) scatter_sums(parts, tag, begin);
}

void Comm::all_gather(const RankParts& parts) {
  if (size() == 1 || !dtype_of(parts)) return;
  const uint64_t tag = next(MessageKind::all_gather);
  const int64_t longest = longest_of(parts);
  for (int64_t begin = 0; begin < longest; begin += piece_of_part(size())) gather_parts(parts, tag, begin);
}

void Comm::all_reduce_sum(std::span<const Tensor> tensors) {
  const RankParts parts = even_parts(tensors, size());
  reduce_scatter_sum(parts);
  all_gather(parts);
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

void Comm::all_to_all(const RankParts& send, const RankParts& receive) {
  TERN_CHECK(static_cast<int>(send.size()) == size() && static_cast<int>(receive.size()) == size(),
             "all_to_all: {} and {} parts for {} ranks", send.size(), receive.size(), size());
  const uint64_t tag = next(MessageKind::all_to_all);
  const std::vector<Tensor>&own = send[static_cast<size_t>(rank())], &here = receive[static_cast<size_t>(rank())];
  TERN_CHECK(own.size() == here.size(), "all_to_all: {} tensors to itself, {} expected", own.size(), here.size());
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    for (const Tensor& t : send[static_cast<size_t>(to)]) transport_->send(to, tag, bytes_of(t));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    TERN_CHECK(own[i].bytes() == here[i].bytes(), "all_to_all: {} bytes to itself, {} expected", own[i].bytes(),
               here[i].bytes());
    std::ranges::copy(bytes_of(own[i]), bytes_of(here[i]).begin());
  }
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    for (const Tensor& t : receive[static_cast<size_t>(from)]) transport_->recv(from, tag, bytes_of(t));
  }
  sends.finish();
}

void Comm::all_to_all(const RankParts& send, const Tensor& receive) {
  const uint64_t tag = next(MessageKind::all_to_all);
  const std::vector<Tensor>& mine = send[static_cast<size_t>(rank())];
  const std::span<std::byte> rows = bytes_of(receive);
  const size_t row = rows.size() / static_cast<size_t>(size());
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    for (const Tensor& t : send[static_cast<size_t>(to)]) transport_->send(to, tag, bytes_of(t));
  }
  for (int step = 0; step < size(); ++step) {
    const int from = (rank() - step + size()) % size();
    size_t at = static_cast<size_t>(from) * row;
    for (const Tensor& t : mine) {
      const std::span<std::byte> place = rows.subspan(at, bytes_of(t).size());
      if (from == rank())
        std::ranges::copy(bytes_of(t), place.begin());
      else
        transport_->recv(from, tag, place);
      at += place.size();
    }
    TERN_CHECK(at == static_cast<size_t>(from + 1) * row, "all_to_all: a part of {} bytes, rows of {}",
               at - static_cast<size_t>(from) * row, row);
  }
  sends.finish();
}

namespace {

int64_t combined(Combine combine, int64_t a, int64_t b) {
  switch (combine) {
    case Combine::sum:
      return a + b;
    case Combine::most:
      return std::max(a, b);
    case Combine::least:
      return std::min(a, b);
  }
  return a;
}

}  // namespace

void Comm::all_reduce(std::span<int64_t> values, Combine combine) { exchange_integers(values, combine, 1); }
void Comm::agree(std::span<int64_t> values, Combine combine) { exchange_integers(values, combine, 3); }

void Comm::exchange_integers(std::span<int64_t> values, Combine combine, int copies) {
  const uint64_t tag = next(MessageKind::integers);
  std::vector<int64_t> mine;
  for (int c = 0; c < copies; ++c) mine.insert(mine.end(), values.begin(), values.end());
  PostedSends sends(*transport_);
  for (int step = 1; step < size(); ++step)
    transport_->send((rank() + step) % size(), tag, std::as_bytes(std::span(mine)));
  std::vector<int64_t> theirs(mine.size());
  for (int step = 1; step < size(); ++step) {
    transport_->recv((rank() - step + size()) % size(), tag, std::as_writable_bytes(std::span(theirs)));
    for (size_t i = 0, n = values.size(); i < n; ++i) {
      const int64_t a = theirs[i], b = theirs[(i + n) % theirs.size()], c = theirs[(i + 2 * n) % theirs.size()];
      values[i] = combined(combine, values[i], (a & b) | (b & c) | (a & c));  // bit by bit what most copies say
    }
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
