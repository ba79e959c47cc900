#include "base/publish.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace tern {
namespace {

constexpr std::string_view kMark = ".tmp-";

std::string temporary_name(const std::string& path) {
  return fmt::format("{}{}{}-{:08x}", path, kMark, ::getpid(), std::random_device()());
}

// "PID-RANDOM", as temporary_name makes it: nobody's notes.tmp-old is taken for ours.
bool is_id(std::string_view id) {
  const size_t dash = id.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash + 1 == id.size()) return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto hex = [&](char c) { return digit(c) || (c >= 'a' && c <= 'f'); };
  return std::all_of(id.begin(), id.begin() + static_cast<std::ptrdiff_t>(dash), digit) &&
         std::all_of(id.begin() + static_cast<std::ptrdiff_t>(dash) + 1, id.end(), hex);
}

// What writers of `path` left that do not live any more. That it cannot be swept is no reason not to write.
void sweep(Io& io, const std::string& path) {
  const std::string folder = parent_path(path), prefix = file_name(path) + std::string(kMark);
  try {
    for (const std::string& name : io.list(folder)) {
      if (!name.starts_with(prefix) || !is_id(std::string_view(name).substr(prefix.size()))) continue;
      const std::string left = join_path(folder, name);
      if (const auto dead = io.lock_existing(left)) remove_all(io, left);
    }
  } catch (const Error&) {}
}

// Of what is not published. A failure led here, and is the one to report; what remains the next writer sweeps. Also what
// is no Error: a test's simulated kill.
void discard(Io& io, const std::string& path) {
  try {
    remove_all(io, path);
  } catch (...) {}
}

void refuse_special(Io& io, const std::string& path) {
  const auto info = io.stat(path);
  if ((info && info->is_special) || (path.starts_with("/dev/") && !path.starts_with("/dev/shm/")))
    throw Error(ErrorKind::bad_file, "{}: a device or a pipe, which tern does not replace; name a plain file", path);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

[[noreturn]] void came_meanwhile(const std::string& path) {
  throw Error(ErrorKind::usage,
              "{}: somebody else wrote it while this command worked; that one stays, name another --output", path);
}

}  // namespace

OutputFile::OutputFile(Io& io, std::string path) : io_(io), path_(std::move(path)) {
  refuse_special(io_, path_);
  sweep(io_, path_);
  while (!file_) file_ = io_.create_locked(temporary_ = temporary_name(path_));
}

OutputFile::~OutputFile() {
  if (published_) return;
  discard(io_, temporary_);
}

void OutputFile::publish() {
  file_->sync();
  file_->close();
  io_.rename(temporary_, path_);
  published_ = true;
  io_.sync_dir(parent_path(path_));
}

OutputDirectory::OutputDirectory(Io& io, std::string path) : io_(io), path_(without_slashes(std::move(path))) {
  refuse_special(io_, path_);
  make_dirs(io_, parent_path(path_));
  sweep(io_, path_);
  // Another sweep may take a directory between its making and its locking; a file system without locks never gives one.
  for (int attempt = 0; attempt < 4 && !lock_; ++attempt) {
    if (attempt > 0) discard(io_, temporary_);
    temporary_ = temporary_name(path_);
    if (io_.make_dir(temporary_)) lock_ = io_.lock_existing(temporary_);
  }
}

OutputDirectory::~OutputDirectory() {
  if (published_) return;
  discard(io_, temporary_);
}

void OutputDirectory::publish() {
  io_.sync_dir(temporary_);
  const auto there = io_.stat(path_);
  if (there && (!there->is_directory || there->is_symlink)) came_meanwhile(path_);
  if (there) {
    if (!io_.list(path_).empty()) came_meanwhile(path_);
    try {
      io_.rename(temporary_, path_);  // over an empty directory, which is what a rename does at most
    } catch (const Error&) {
      if (!io_.list(path_).empty()) came_meanwhile(path_);  // since it was looked at
      throw;
    }
  } else if (!io_.rename_new(temporary_, path_)) {
    came_meanwhile(path_);
  }
  published_ = true;
  io_.sync_dir(parent_path(path_));
}

void OutputDirectory::publish_file(const std::string& name) {
  if (!io_.rename_new(join_path(temporary_, name), path_)) came_meanwhile(path_);
  published_ = true;
  io_.sync_dir(parent_path(path_));
  discard(io_, temporary_);
}

void write_file_atomically(Io& io, const std::string& path, std::span<const std::byte> data) {
  OutputFile output(io, path);
  output.append(data);
  output.publish();
}

void write_file_atomically(Io& io, const std::string& path, std::string_view text) {
  write_file_atomically(io, path, std::as_bytes(std::span(text)));
}

}  // namespace tern
