#include "train/shared_checkpoint.h"

#include <array>
#include <bit>

#include "base/crc32c_shares.h"
#include "base/error.h"
#include "tensor/bytes_of.h"
#include "train/checkpoint.h"
#include "train/state_runs.h"

namespace tern {

SafetensorsLayout layout_of_state(std::span<const StateTensor> state) {
  std::vector<TensorToWrite> forms;
  for (const StateTensor& t : state) {
    TensorToWrite form{.name = t.name, .dtype = t.dtype, .shape = {}, .bytes = {}, .produce = {}};
    form.shape.assign(t.shape.sizes.begin(), t.shape.sizes.begin() + t.shape.rank);
    forms.push_back(std::move(form));
  }
  return safetensors_layout(forms);
}

std::string shared_path(const SharedPlace& place, int64_t step) {
  return join_path(temporary_checkpoint(place.checkpoints, place.id, step), rank_file(0));
}

std::unique_ptr<IoFile> begin_shared(Io& io, const SharedPlace& place, int64_t step, const SafetensorsLayout& layout) {
  begin_checkpoint(io, place.checkpoints, place.id, step);
  std::unique_ptr<IoFile> file = io.create(shared_path(place, step));
  file->append(layout.header);
  return file;
}

WrittenShare write_share(IoFile& file, const SafetensorsLayout& layout, std::span<const StateTensor> state, int rank,
                         const TensorPlace& at) {
  WrittenShare share;
  const auto count = [&](int64_t begin, std::span<const std::byte> bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    share.bytes += size;
    share.crc32c ^= crc32c_share(bytes, layout.file_bytes - begin - size);
  };
  if (rank == 0) count(0, std::as_bytes(std::span(layout.header)));
  for (size_t i = 0; i < state.size(); ++i) {
    const StateTensor& t = state[i];
    const int64_t size = size_of(t.dtype);
    for_each_written_run(t, rank, at, [&](const StateRun& run) {
      const int64_t begin = layout.begins[i] + run.whole * size;
      const std::span<const std::byte> bytes =
          bytes_of(t.own).subspan(static_cast<size_t>(run.own * size), static_cast<size_t>(run.count * size));
      file.write_at(begin, bytes);
      count(begin, bytes);
    });
  }
  return share;
}

WrittenShare join_shares(Comm& world, const WrittenShare& own) {
  // As bits, as a message may arrive changed, which is looked at later.
  const std::array<double, 2> mine{std::bit_cast<double>(own.bytes),
                                   std::bit_cast<double>(static_cast<int64_t>(own.crc32c))};
  const std::vector<double> gathered = world.gather(mine);
  WrittenShare all;
  for (size_t r = 0; r < gathered.size(); r += 2) {
    all.bytes += std::bit_cast<int64_t>(gathered[r]);
    all.crc32c ^= static_cast<uint32_t>(std::bit_cast<int64_t>(gathered[r + 1]));
  }
  return all;
}

CheckpointFile file_of_shares(const SafetensorsLayout& layout, const WrittenShare& all) {
  TERN_CHECK(all.bytes == layout.file_bytes, "train: ranks wrote {} bytes of a checkpoint of {}", all.bytes,
             layout.file_bytes);
  return {rank_file(0), layout.file_bytes, crc32c_of_shares(all.crc32c, layout.file_bytes)};
}

}  // namespace tern
