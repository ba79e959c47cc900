#pragma once
// How all verbs publish their output: it is written under a temporary name, synced, and renamed. A reader finds the old
// output or the whole new one, never a mixture. If two processes write the same output at once, one of them is refused, or
// the later replaces the earlier wholly.
//
//   NAME.tmp-PID-RANDOM     beside NAME, locked while its writer runs; the next writer of NAME removes those of dead writers

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/io.h"

namespace tern {

/// An output file. publish() renames it to `path`. If it is destroyed before publish(), the file is removed.
class OutputFile {
 public:
  /// Errors: the Io's; bad_file where `path` is a pipe or a device. A symbolic link at `path` is replaced, not followed.
  OutputFile(Io&, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes) { file_->append(bytes); }
  void append(std::string_view text) { file_->append(text); }
  IoFile& file() { return *file_; }
  const std::string& temporary() const { return temporary_; }
  void publish();

 private:
  Io& io_;
  std::string path_, temporary_;
  std::unique_ptr<IoFile> file_;
  bool published_ = false;
};

/// An output directory. publish() renames it to `path`, or publish_file() moves one of its files there. If it is destroyed
/// before that, it is removed with everything in it.
class OutputDirectory {
 public:
  OutputDirectory(Io&, std::string path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  /// The directory to write in.
  const std::string& temporary() const { return temporary_; }
  /// Errors: usage: by now `path` is a file, a symbolic link, or a directory that is not empty.
  void publish();
  /// Moves the directory's file `name` to `path`, and removes the directory.
  /// Errors: usage: by now `path` exists.
  void publish_file(const std::string& name);

 private:
  Io& io_;
  std::string path_, temporary_;
  std::unique_ptr<IoLock> lock_;
  bool published_ = false;
};

}  // namespace tern
