#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/crc32c.h"
#include "base/error.h"

namespace tern {
namespace {

constexpr std::string_view kManifest = "manifest.json", kTemporary = ".tmp-", kOld = "old-";

void check_file(Io& io, const std::string& directory, const CheckpointFile& file) {
  const std::string path = join_path(directory, file.name);
  const auto info = io.stat(path);
  if (!info) throw DoesNotVerify("{}: missing, the manifest names it; this checkpoint is not whole", path);
  if (info->size_bytes != file.bytes)
    throw DoesNotVerify("{}: {} bytes, the manifest says {}; this checkpoint is not whole", path, info->size_bytes,
                        file.bytes);
  const uint32_t found = file_crc32c(io, path);
  if (found != file.crc32c)
    throw DoesNotVerify("{}: CRC-32C {:08x}, the manifest says {:08x}; the file has changed since it was written", path,
                        found, file.crc32c);
}

// "step-7.broken-1" if that is free, else -2, …
std::string aside_name(Io& io, const std::string& path) {
  for (int k = 1;; ++k)
    if (std::string name = fmt::format("{}.broken-{}", path, k); !io.stat(name)) return name;
}

std::string move_aside(Io& io, const std::string& checkpoints, const std::string& path) {
  const std::string aside = aside_name(io, path);
  io.rename(path, aside);
  io.sync_dir(checkpoints);
  return aside;
}

// Committed steps, newest first.
std::vector<int64_t> committed_steps(Io& io, const std::string& checkpoints) {
  std::vector<int64_t> steps;
  for (const std::string& name : io.list(checkpoints))
    if (const auto step = checkpoint_step(name)) steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::string lock_path(const std::string& checkpoints, std::string_view id) {
  return join_path(checkpoints, fmt::format("writer-{}.lock", id));
}

// Takes the lock, or gives null if somebody who lives has it.
std::unique_ptr<IoLock> lock_of_the_dead(Io& io, const std::string& path) {
  try {
    return io.lock(path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    return nullptr;
  }
}

// Removes what writers that do not live any more left: their temporary directories, then their locks.
void sweep(Io& io, const std::string& checkpoints, std::vector<std::string>& notes) {
  const std::vector<std::string> names = io.list(checkpoints);
  for (const std::string& name : names) {
    const size_t at = name.find(kTemporary);
    if (!name.starts_with("step-") || at == std::string::npos) continue;
    std::string_view id = std::string_view(name).substr(at + kTemporary.size());
    if (id.starts_with(kOld)) id.remove_prefix(kOld.size());
    const std::string lock = lock_path(checkpoints, id);
    const bool locked_once = io.stat(lock).has_value();
    const auto held = lock_of_the_dead(io, lock);
    if (!held) continue;
    remove_all(io, join_path(checkpoints, name));
    if (!locked_once) io.remove(lock);
    notes.push_back(
        fmt::format("swept {}: an unfinished checkpoint of a run that was stopped", join_path(checkpoints, name)));
  }
  for (const std::string& name : names)
    if (name.starts_with("writer-") && name.ends_with(".lock"))
      if (const auto held = lock_of_the_dead(io, join_path(checkpoints, name))) io.remove(join_path(checkpoints, name));
}

// The manifest if the checkpoint verifies. A disk that cannot be read, or another version, is no verdict: that error
// goes on.
std::optional<Manifest> verified(Io& io, const std::string& path) {
  try {
    return verify_checkpoint(io, path);
  } catch (const DoesNotVerify&) { return {}; }
}

}  // namespace

std::string rank_file(int rank) { return fmt::format("rank-{}.safetensors", rank); }

std::string checkpoint_name(int64_t step) { return fmt::format("step-{}", step); }

std::optional<int64_t> checkpoint_step(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return {};
  int64_t step = 0;
  const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0 || checkpoint_name(step) != name) return {};
  return step;
}

WriterLock::WriterLock(Io& io, const std::string& checkpoints, std::string_view id)
    : io_(io), path_(lock_path(checkpoints, id)) {
  make_dirs(io_, checkpoints);
  lock_ = io_.lock(path_);
}

WriterLock::~WriterLock() {
  try {
    io_.remove(path_);
  } catch (...) {  // the next sweep removes it; also what is no Error: a test's simulated kill
  }
}

std::string temporary_checkpoint(const std::string& checkpoints, std::string_view id, int64_t step) {
  return fmt::format("{}{}{}", join_path(checkpoints, checkpoint_name(step)), kTemporary, id);
}

void begin_checkpoint(Io& io, const std::string& checkpoints, std::string_view id, int64_t step) {
  make_dirs(io, checkpoints);
  const std::string temporary = temporary_checkpoint(checkpoints, id, step);
  remove_all(io, temporary);
  io.make_dir(temporary);
}

Committed end_checkpoint(Io& io, const std::string& checkpoints, std::string_view id, const Manifest& manifest) {
  const std::string target = join_path(checkpoints, checkpoint_name(manifest.step));
  const std::string temporary = temporary_checkpoint(checkpoints, id, manifest.step);
  const auto file = io.create(join_path(temporary, kManifest));
  file->append(manifest_text(manifest));
  file->sync();
  file->close();
  io.sync_dir(temporary);

  if (io.stat(target)) {
    if (const std::optional<Manifest> there = verified(io, target)) {
      if (there->files != manifest.files)
        throw Error(ErrorKind::bad_file,
                    "{}: holds a valid checkpoint of other bits than this run's step {}; another run's output? "
                    "Choose another --output",
                    target, manifest.step);
      remove_all(io, temporary);
      return Committed::identical;
    }
    move_aside(io, checkpoints, target);
  }
  io.rename(temporary, target);
  io.sync_dir(checkpoints);
  return Committed::written;
}

Committed commit_checkpoint(Io& io, const std::string& checkpoints, std::string_view id, int rank, Manifest manifest,
                            std::span<const TensorToWrite> tensors) {
  begin_checkpoint(io, checkpoints, id, manifest.step);
  const std::string path = join_path(temporary_checkpoint(checkpoints, id, manifest.step), rank_file(rank));
  const SafetensorsWritten written = write_safetensors(io, path, tensors);
  manifest.files = {{rank_file(rank), written.file_bytes, written.crc32c}};
  return end_checkpoint(io, checkpoints, id, manifest);
}

Manifest read_manifest(Io& io, const std::string& directory) {
  const std::string path = join_path(directory, kManifest);
  if (!io.stat(path)) throw DoesNotVerify("{}: missing; this checkpoint is not whole", path);
  const std::string text = io.read(path);
  try {
    return parse_manifest(text, path);
  } catch (const OtherVersion&) { throw; } catch (const Error& e) {
    if (e.kind() != ErrorKind::bad_file) throw;
    throw DoesNotVerify("{}", e.what());
  }
}

Manifest verify_checkpoint(Io& io, const std::string& directory) {
  const Manifest manifest = read_manifest(io, directory);
  for (const CheckpointFile& file : manifest.files) check_file(io, directory, file);
  if (const auto step = checkpoint_step(file_name(directory)); step && *step != manifest.step)
    throw DoesNotVerify("{}: says step {}, the directory's name another; was it renamed?",
                        join_path(directory, kManifest), manifest.step);
  return manifest;
}

CheckpointSearch find_checkpoint(Io& io, const std::string& checkpoints) {
  CheckpointSearch search;
  if (!io.stat(checkpoints)) return search;
  sweep(io, checkpoints, search.notes);
  std::vector<std::string> broken;
  for (const int64_t step : committed_steps(io, checkpoints)) {
    const std::string path = join_path(checkpoints, checkpoint_name(step));
    try {
      search.newest = {path, verify_checkpoint(io, path)};
      break;
    } catch (const DoesNotVerify& e) {
      search.notes.push_back(fmt::format("{} does not verify: {}", path, e.what()));
      broken.push_back(path);
    }
  }
  search.num_broken = static_cast<int>(broken.size());
  if (search.newest)
    for (const std::string& path : broken)
      search.notes.push_back(fmt::format("moved {} aside to {}", path, move_aside(io, checkpoints, path)));
  return search;
}

void retire_checkpoints(Io& io, const std::string& checkpoints, int keep, std::string_view id) {
  const std::vector<int64_t> steps = committed_steps(io, checkpoints);
  const size_t kept = static_cast<size_t>(std::max(keep, 1));
  if (steps.size() <= kept) return;
  // The newest must be readable before anything older goes.
  if (!verified(io, join_path(checkpoints, checkpoint_name(steps[0])))) return;
  for (size_t i = kept; i < steps.size(); ++i) {
    const std::string path = join_path(checkpoints, checkpoint_name(steps[i]));
    const std::string doomed = fmt::format("{}{}{}{}", path, kTemporary, kOld, id);
    remove_all(io, doomed);
    io.rename(path, doomed);
    remove_all(io, doomed);
  }
  io.sync_dir(checkpoints);
}

CheckpointData::CheckpointData(Io& io, const std::string& directory, int rank) {
  const std::string path = join_path(directory, rank_file(rank));
  if (&io == &real_io()) {
    tensors_ = Safetensors(path);
    return;
  }
  held_ = io.read(path);
  tensors_ = Safetensors::over(std::as_bytes(std::span(held_)), path);
}

}  // namespace tern
