#include "train/async_messages.h"

#include "tensor/bytes_of.h"

namespace tern {
namespace {

constexpr uint64_t kHeader = tag_of(MessageKind::receipt, 0), kTensor = tag_of(MessageKind::receipt, 1);

}  // namespace

void post(Transport& transport, int to, const AsyncHeader& header, std::span<const Tensor> tensors) {
  transport.send(to, kHeader, std::as_bytes(std::span(&header, 1)));
  for (const Tensor& t : tensors) transport.send(to, kTensor, bytes_of(t));
}

int receive_header(Transport& transport, std::span<const int> from, AsyncHeader& header) {
  return transport.recv_any(from, kHeader, std::as_writable_bytes(std::span(&header, 1)));
}

void receive_tensors(Transport& transport, int from, std::span<const Tensor> tensors) {
  for (const Tensor& t : tensors) transport.recv(from, kTensor, bytes_of(t));
}

}  // namespace tern
