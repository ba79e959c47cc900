#pragma once
// How every verb's output comes to its place: written under a temporary name of its own, synced, renamed. A reader finds the
// old output or the whole new one, never a mixture; of two writers at once one is refused, or the later replaces the earlier
// wholly.
//
//   NAME.tmp-PID-RANDOM     beside NAME, locked while its writer lives; the next writer of NAME removes what the dead left

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/io.h"

namespace tern {

/// A file on its way to `path`. If it is destroyed before publish(), the file is removed.
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

/// A directory on its way to `path`, or a place in which one file is written that then goes to `path`. If it is destroyed
/// before publish(), it is removed with all that was written in it.
class OutputDirectory {
 public:
  OutputDirectory(Io&, std::string path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  /// Write here.
  const std::string& temporary() const { return temporary_; }
  /// Errors: usage where `path` is meanwhile a directory with something in it, or a file.
  void publish();
  /// Moves the directory's file `name` to `path`, and removes the directory. Errors: usage where `path` has come into being
  /// meanwhile.
  void publish_file(const std::string& name);

 private:
  Io& io_;
  std::string path_, temporary_;
  std::unique_ptr<IoLock> lock_;
  bool published_ = false;
};

}  // namespace tern
