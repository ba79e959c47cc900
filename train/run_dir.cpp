#include "train/run_dir.h"

#include <fmt/format.h>
#include <unistd.h>

#include "model/model_files.h"

namespace tern {
namespace {

constexpr std::string_view kModelNew = "model.tmp-", kModelOld = "model.old-";

// Files that say how the model is used and that training does not change.
void copy_companions(Io& io, const TrainInputs& in, const std::string& directory) {
  std::vector<std::string> files;
  if (!in.dir.generation_config.empty()) files.push_back(in.dir.generation_config);
  for (const std::string& path : in.dir.tokenizer_files)
    if (file_name(path) == "chat_template.jinja" || file_name(path) == "special_tokens_map.json") files.push_back(path);
  if (!in.chat_template.empty()) {
    std::erase_if(files, [](const std::string& path) { return file_name(path) == "chat_template.jinja"; });
    write_file_atomically(io, join_path(directory, "chat_template.jinja"), io.read(in.chat_template));
  }
  for (const std::string& path : files) write_file_atomically(io, join_path(directory, file_name(path)), io.read(path));
}

}  // namespace

RunDirectory::RunDirectory(Io& io, const std::string& path) : io_(io), path_(path), id_(fmt::format("{}", ::getpid())) {
  make_dirs(io_, path_);
  lock_ = io_.lock(join_path(path_, "lock"));
  const bool has_model = io_.stat(model()).has_value();
  bool restored = has_model;
  for (const std::string& name : io_.list(path_)) {
    const std::string left = join_path(path_, name);
    if (name.starts_with(kModelOld) && !restored) {
      io_.rename(left, model());
      io_.sync_dir(path_);
      restored = true;
      notes_.push_back(fmt::format("put {} back: the run was stopped while it replaced the exported model", model()));
    } else if (name.starts_with(kModelNew) || name.starts_with(kModelOld)) {
      remove_all(io_, left);
      notes_.push_back(fmt::format("swept {}: an unfinished export of a run that was stopped", left));
    }
  }
}

void RunDirectory::write_recipe(const std::string& toml) const {
  write_file_atomically(io_, join_path(path_, "recipe.toml"), toml);
}

std::vector<std::string> RunDirectory::put_aside() const {
  std::vector<std::string> aside;
  for (const std::string& left : {checkpoints(), model()}) {
    if (!io_.stat(left) || io_.list(left).empty()) continue;
    int k = 1;
    while (io_.stat(fmt::format("{}.before-{}", left, k))) ++k;
    aside.push_back(fmt::format("{}.before-{}", left, k));
    io_.rename(left, aside.back());
  }
  if (!aside.empty()) io_.sync_dir(path_);
  return aside;
}

void RunDirectory::export_model(const TrainInputs& in, const ModelWeights& weights, DType dtype) const {
  const std::string fresh = join_path(path_, fmt::format("{}{}", kModelNew, id_)),
                    old = join_path(path_, fmt::format("{}{}", kModelOld, id_));
  remove_all(io_, fresh);
  make_dirs(io_, fresh);
  save_model(in.spec, in.config, weights, dtype, fresh, io_);
  if (in.tokenizer) in.tokenizer->save(fresh, io_);
  copy_companions(io_, in, fresh);
  io_.sync_dir(fresh);
  const bool replaces = io_.stat(model()).has_value();
  if (replaces) io_.rename(model(), old);
  io_.rename(fresh, model());
  io_.sync_dir(path_);
  if (replaces) remove_all(io_, old);
}

}  // namespace tern
