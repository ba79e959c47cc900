#include "base/fault_io.h"

#include <cerrno>

namespace tern {

class FaultFile : public IoFile {
 public:
  FaultFile(FaultIo& io, std::string path, std::unique_ptr<IoFile> inner)
      : io_(io), path_(std::move(path)), inner_(std::move(inner)) {}
  using IoFile::append;
  void append(std::span<const std::byte> data) override {
    io_.step(
        FaultIo::What::write, "write", path_, [&] { inner_->append(data); },
        [&] { inner_->append(data.first(data.size() / 2)); });
  }
  void write_at(int64_t offset, std::span<const std::byte> data) override {
    io_.step(
        FaultIo::What::write, "write", path_, [&] { inner_->write_at(offset, data); },
        [&] { inner_->write_at(offset, data.first(data.size() / 2)); });
  }
  void sync() override {
    io_.step(FaultIo::What::sync, "sync", path_, [&] { inner_->sync(); });
  }
  int64_t size() const override { return inner_->size(); }
  void close() override { inner_->close(); }

 private:
  FaultIo& io_;
  std::string path_;
  std::unique_ptr<IoFile> inner_;
};

int64_t FaultIo::num_operations() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool FaultIo::fault_happened() const {
  const std::lock_guard lock(mutex_);
  return happened_;
}

void FaultIo::step(What what, const char* verb, const std::string& path, const std::function<void()>& operation,
                   const std::function<void()>& half) {
  const std::lock_guard lock(mutex_);
  if (dead_) fault_.kill();
  const int64_t index = count_++;
  const bool here =
      fault_.at >= 0 && !happened_ &&
      (fault_.kind == FaultKind::sync_error ? index >= fault_.at && what == What::sync : index == fault_.at);
  if (!here || fault_.kind == FaultKind::none) return operation();
  happened_ = true;
  switch (fault_.kind) {
    case FaultKind::none:
      break;
    case FaultKind::kill_before:
      dead_ = true;
      fault_.kill();
      break;
    case FaultKind::kill_after:
      operation();
      dead_ = true;
      fault_.kill();
      break;
    case FaultKind::short_write:
      if (half) half();
      throw_io_error(verb, path, ENOSPC);
    case FaultKind::no_space:
      throw_io_error(verb, path, ENOSPC);
    case FaultKind::io_error:
    case FaultKind::sync_error:
      throw_io_error(verb, path, EIO);
  }
}

std::unique_ptr<IoFile> FaultIo::create(const std::string& path) {
  std::unique_ptr<IoFile> file;
  step(What::other, "create", path, [&] { file = inner_.create(path); });
  return std::make_unique<FaultFile>(*this, path, std::move(file));
}

std::unique_ptr<IoFile> FaultIo::create_locked(const std::string& path) {
  std::unique_ptr<IoFile> file;
  step(What::other, "create", path, [&] { file = inner_.create_locked(path); });
  return file ? std::make_unique<FaultFile>(*this, path, std::move(file)) : nullptr;
}

std::unique_ptr<IoFile> FaultIo::open_append(const std::string& path) {
  std::unique_ptr<IoFile> file;
  step(What::other, "create", path, [&] { file = inner_.open_append(path); });
  return std::make_unique<FaultFile>(*this, path, std::move(file));
}

void FaultIo::sync_dir(const std::string& path) {
  step(What::sync, "sync", path, [&] { inner_.sync_dir(path); });
}
void FaultIo::rename(const std::string& from, const std::string& to) {
  step(What::other, "rename", to, [&] { inner_.rename(from, to); });
}
bool FaultIo::rename_new(const std::string& from, const std::string& to) {
  bool renamed = false;
  step(What::other, "rename", to, [&] { renamed = inner_.rename_new(from, to); });
  return renamed;
}
void FaultIo::truncate(const std::string& path, int64_t size_bytes) {
  step(What::other, "truncate", path, [&] { inner_.truncate(path, size_bytes); });
}
void FaultIo::remove(const std::string& path) {
  step(What::other, "remove", path, [&] { inner_.remove(path); });
}
bool FaultIo::make_dir(const std::string& path) {
  bool made = false;
  step(What::other, "make the directory", path, [&] { made = inner_.make_dir(path); });
  return made;
}

}  // namespace tern
