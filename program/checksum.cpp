#include "program/checksum.h"

#include <string>

#include "base/crc32c.h"

namespace tern {
namespace {

struct Bytes {
  std::string text;
  void add(int64_t value) {
    for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(static_cast<uint64_t>(value) >> (8 * byte));
  }
  void add(const Buffer& b) {
    add(static_cast<int64_t>(b.kind)), add(b.unit), add(b.micro), add(static_cast<int64_t>(b.tier));
    if (b.part != 0) add(b.part);
  }
  void add(const BufferBytes& b) { add(b.buffer), add(b.bytes); }
  template <class T>
  void add(const std::vector<T>& list) {
    add(static_cast<int64_t>(list.size()));
    for (const T& item : list) add(item);
  }
  void add(const Instruction& i) {
    add(static_cast<int64_t>(i.op)), add(i.rank), add(i.unit), add(i.micro);
    add(static_cast<int64_t>(i.resource));
    add(i.reads), add(i.allocates), add(i.frees);
    add(i.workspace_bytes), add(i.flops), add(i.bytes_moved);
    add(i.stage), add(i.peer), add(static_cast<int64_t>(i.axis)), add(i.message_bytes);
    add(i.waits);
    const std::vector<int64_t> group{i.exchanged_bytes, i.swapped_bytes, i.ring_bytes, i.routed_bytes, i.told_bytes};
    if (group != std::vector<int64_t>(group.size())) add(group);
    if (i.part != 0) add(i.part);
  }
};

}  // namespace

uint32_t checksum(const Program& p) {
  Bytes own;
  own.add(p.num_ranks), own.add(p.num_units), own.add(p.num_micro), own.add(p.devices_per_rank);
  own.add(p.resident);
  if (p.head_parts > 0) own.add(p.head_parts);
  own.add(static_cast<int64_t>(p.instructions.size()));
  uint32_t crc = crc32c(own.text);
  for (const Instruction& i : p.instructions) {
    Bytes bytes;
    bytes.add(i);
    crc = crc32c(bytes.text, crc);
  }
  return crc;
}

}  // namespace tern
