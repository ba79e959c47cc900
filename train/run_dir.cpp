#include "train/run_dir.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/json.h"
#include "model/adapter_files.h"
#include "model/model_files.h"
#include "model/taken_factors.h"

namespace tern {
namespace {

constexpr std::string_view kNew = ".tmp-", kOld = ".old-", kExportOf = "tern_export.json";

}  // namespace

void copy_companions(Io& io, const TrainInputs& in, const std::string& directory) {
  std::vector<std::string> files;
  if (!in.dir.generation_config.empty()) files.push_back(in.dir.generation_config);
  for (const std::string& path : in.dir.tokenizer_files)
    if (file_name(path) == "chat_template.jinja" || file_name(path) == "special_tokens_map.json") files.push_back(path);
  if (!in.chat_template.empty()) {
    std::erase_if(files, [](const std::string& path) { return file_name(path) == "chat_template.jinja"; });
    write_file_atomically(io, join_path(directory, "chat_template.jinja"), real_io().read(in.chat_template));
  }
  for (const std::string& path : files)
    write_file_atomically(io, join_path(directory, file_name(path)), real_io().read(path));
}

namespace {

// Whether `path` is `folder` or lies in it, by links followed as far as they lead.
bool lies_in(const std::string& path, const std::string& folder) {
  std::error_code unknown;
  const auto whole = [&](const std::string& p) {
    auto resolved = std::filesystem::weakly_canonical(std::filesystem::absolute(p, unknown), unknown);
    return resolved.has_filename() ? resolved : resolved.parent_path();
  };
  const auto inner = whole(path), outer = whole(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void check_output(Io& io, const std::string& output, const ModelDir& model) {
  if (lies_in(model.path, join_path(output, "model")))
    throw Error(ErrorKind::usage,
                "--output {}: the run would put its model in the place of {}, which it is trained from; choose another "
                "--output",
                output, model.path);
  if (!model.bare_config && lies_in(output, model.path))
    throw Error(ErrorKind::usage, "--output {}: lies in the model directory {}; choose a folder of its own", output,
                model.path);
  const auto there = io.stat(output);
  if (there && !there->is_directory)
    throw Error(ErrorKind::usage, "--output {}: is no folder; a run needs one of its own", output);
  if (!there || io.stat(join_path(output, "lock"))) return;
  for (const char* name : {"model", "adapter", "best", "recipe.toml", "logs", "checkpoints"})
    if (io.stat(join_path(output, name)))
      throw Error(
          ErrorKind::usage,
          "--output {}: holds {}, which no run of tern made and this one would replace; choose another --output",
          output, name);
  for (const std::string& name : io.list(output))
    if (name.ends_with(".safetensors") || name.ends_with(".gguf"))
      throw Error(ErrorKind::usage, "--output {}: holds {}, which is no run's; choose a folder of its own", output,
                  name);
}

RunDirectory::RunDirectory(Io& io, const std::string& path, std::string export_name)
    : io_(io),
      path_(path),
      export_name_(std::move(export_name)),
      id_(fmt::format("{}-{:08x}", ::getpid(), std::random_device()())) {
  make_dirs(io_, path_);
  for (const std::string& part : {checkpoints(), logs(), data(), model(), best(), join_path(path_, "lock")})
    if (const auto info = io_.stat(part); info && info->is_symlink)
      throw Error(ErrorKind::bad_file,
                  "{}: a symbolic link; a run sweeps and replaces what lies there, so it must be a folder of its own: "
                  "remove the link, or choose another --output",
                  part);
  lock_ = io_.lock(join_path(path_, "lock"));
  for (const std::string& directory : {model(), best()}) sweep(directory);
}

// What an export that was stopped left beside its directory.
void RunDirectory::sweep(const std::string& directory) {
  bool restored = io_.stat(directory).has_value();
  const std::string name_of_old = file_name(directory) + std::string(kOld),
                    name_of_new = file_name(directory) + std::string(kNew);
  for (const std::string& name : io_.list(path_)) {
    const std::string left = join_path(path_, name);
    if (name.starts_with(name_of_old) && !restored) {
      io_.rename(left, directory);
      io_.sync_dir(path_);
      restored = true;
      notes_.push_back(fmt::format("put {} back: the run was stopped while it replaced the exported model", directory));
    } else if (name.starts_with(name_of_new) || name.starts_with(name_of_old)) {
      remove_all(io_, left);
      notes_.push_back(fmt::format("swept {}: an unfinished export of a run that was stopped", left));
    }
  }
}

void RunDirectory::write_recipe(const std::string& toml) const {
  write_file_atomically(io_, join_path(path_, "recipe.toml"), toml);
}

std::vector<std::string> RunDirectory::put_aside() const {
  const std::vector<std::string> parts = {checkpoints(), model(), best(),
                                          logs(),        page(),  join_path(path_, "recipe.toml")};
  const auto name = [](const std::string& part, int k) { return fmt::format("{}.before-{}", part, k); };
  int k = 1;
  while (std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return io_.stat(name(part, k)).has_value(); }))
    ++k;
  std::vector<std::string> aside;
  for (const std::string& part : parts) {
    const auto left = io_.stat(part);
    if (!left || (left->is_directory && io_.list(part).empty())) continue;
    aside.push_back(name(part, k));
    io_.rename(part, aside.back());
  }
  if (!aside.empty()) io_.sync_dir(path_);
  return aside;
}

namespace {

void save_adapter(const TrainInputs& in, const AdapterSettings& adapter, const ModelWeights& weights, DType dtype,
                  const std::string& dir, Io& io) {
  if (!takes_factors(adapter.init) || !adapter.begin.empty())
    return save_adapters(in.spec, adapter.config, weights, dir, io);
  Arena arena;
  const WholeAdapter whole =
      with_taken_factors(in.spec, adapter.config, in.dir.path, dtype, adapter.init, weights, arena);
  save_adapters(whole.spec, whole.config, whole.weights, dir, io);
}

}  // namespace

void RunDirectory::export_model(const TrainInputs& in, const ModelWeights& weights, DType dtype, const ExportOf& of,
                                const AdapterSettings* adapter, const std::string& directory,
                                const ReadParameter& read) const {
  const std::string fresh = fmt::format("{}{}{}", directory, kNew, id_),
                    old = fmt::format("{}{}{}", directory, kOld, id_);
  remove_all(io_, fresh);
  make_dirs(io_, fresh);
  if (adapter) {
    save_adapter(in, *adapter, weights, dtype, fresh, io_);
  } else {
    save_model(in.spec, in.config, weights, dtype, fresh, io_, read);
    if (in.tokenizer) in.tokenizer->save(fresh, io_);
    copy_companions(io_, in, fresh);
  }
  Json files = Json::array();
  for (const std::string& name : io_.list(fresh)) {
    const std::string path = join_path(fresh, name);
    files.push_back({{"name", name},
                     {"bytes", io_.stat(path).value_or(FileInfo{}).size_bytes},
                     {"crc32c", fmt::format("{:08x}", file_crc32c(io_, path))}});
  }
  const Json record = {{"step", of.step}, {"checkpoint_crc32c", fmt::format("{:08x}", of.crc32c)}, {"files", files}};
  write_file_atomically(io_, join_path(fresh, kExportOf), dump_json(record) + "\n");
  io_.sync_dir(fresh);
  const bool replaces = io_.stat(directory).has_value();
  if (replaces) io_.rename(directory, old);
  io_.rename(fresh, directory);
  io_.sync_dir(path_);
  if (replaces) remove_all(io_, old);
}

std::optional<ExportOf> RunDirectory::exported(const std::string& directory) const {
  const std::string path = join_path(directory, kExportOf);
  if (!io_.stat(path)) return {};
  try {
    const Json record = parse_json(io_.read(path), path);
    const auto& crc = record.at("checkpoint_crc32c").get_ref<const std::string&>();
    ExportOf of{record.at("step").get<int64_t>(), 0};
    const auto [end, error] = std::from_chars(crc.data(), crc.data() + crc.size(), of.crc32c, 16);
    if (error != std::errc() || end != crc.data() + crc.size()) return {};
    bool whole = !record.at("files").empty();
    for (const Json& file : record.at("files")) {
      const std::string at = join_path(directory, file.at("name").get<std::string>());
      const auto info = io_.stat(at);
      whole = whole && info && !info->is_directory && info->size_bytes == file.at("bytes").get<int64_t>() &&
              fmt::format("{:08x}", file_crc32c(io_, at)) == file.at("crc32c").get<std::string>();
    }
    return whole ? std::optional(of) : std::nullopt;
  } catch (const Error&) {             // unreadable or no JSON: the model is exported anew
  } catch (const Json::exception&) {}  // not as it was written: the same
  return {};
}

}  // namespace tern
