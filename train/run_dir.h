#pragma once
// OUT: the directory of a run. One process uses it at a time; every part is complete or absent.
//   OUT/lock                 held while a run lives
//   OUT/recipe.toml          the effective options
//   OUT/page.html            report/run_page.h
//   OUT/data/                packed text
//   OUT/logs/
//   OUT/checkpoints/step-N/
//   OUT/model/               the model in Hugging Face's form; its tern_export.json says of which checkpoint it was made
//   OUT/adapter/             in place of OUT/model/, if the run trains an adapter: the adapter in PEFT's form
//   OUT/best/                with --keep-best: a model or adapter as above, of the step with the lowest held-out loss so far

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/io.h"
#include "model/save_parts.h"
#include "model/weights.h"
#include "train/inputs.h"

namespace tern {

struct AdapterSettings;

/// Names the checkpoint whose weights a model directory holds.
struct ExportOf {
  int64_t step = 0;
  uint32_t crc32c = 0;  // of the checkpoint's data file; 0: the weights are of no checkpoint
  friend bool operator==(const ExportOf&, const ExportOf&) = default;
};

/// Copies into `directory` the files beside a model that say how it is used; training does not change them. Errors: the disk's.
void copy_companions(Io&, const TrainInputs&, const std::string& directory);

/// Refuses an OUT (--output) in which the run would replace what no run made: OUT is a file; OUT is a directory without a lock (every run makes one
/// first) that holds a model, adapter, best, recipe.toml, logs, checkpoints or a file of weights; MODEL is OUT/model or lies in OUT/model; OUT is MODEL or lies in
/// MODEL (allowed if MODEL is a bare config). Writes nothing. Errors: usage, naming what would be replaced.
void check_output(Io&, const std::string& output, const ModelDir& model);

/// OUT while a run lives.
class RunDirectory {
 public:
  /// Makes and locks the directory, and finishes or removes what a killed export left. `export_name`: the name of the exported directory.
  /// Errors: usage if another process holds the lock; the disk's.
  RunDirectory(Io&, const std::string& path, std::string export_name = "model");

  std::string checkpoints() const { return join_path(path_, "checkpoints"); }
  std::string logs() const { return join_path(path_, "logs"); }
  std::string data() const { return data_of(path_); }
  static std::string data_of(const std::string& path) { return join_path(path, "data"); }
  std::string model() const { return join_path(path_, export_name_); }
  std::string best() const { return join_path(path_, "best"); }
  std::string page() const { return join_path(path_, "page.html"); }
  const std::string& path() const { return path_; }
  const std::string& id() const { return id_; }  // of this object alone, for temporary names
  const std::vector<std::string>& notes() const { return notes_; }

  void write_recipe(const std::string& toml) const;
  /// For --resume never: renames what an earlier run left (checkpoints, model, logs, recipe.toml) to NAME.before-K, with one K for all.
  /// Returns the new names; none if there was nothing.
  std::vector<std::string> put_aside() const;
  /// Writes the model with its tokenizer, or its adapter alone if `adapter` is given, beside `directory` (model() or best()); then renames
  /// the result to `directory`. An adapter that took a part of the weights (model/taken_factors.h) is written so that it fits the weights in
  /// the files of MODEL. `read` reads parameters that are not in memory, one by one (model/save_parts.h).
  /// A crash in between leaves the old model, perhaps under a temporary name; the next start then restores its name.
  void export_model(const TrainInputs&, const ModelWeights&, DType, const ExportOf&, const AdapterSettings* adapter,
                    const std::string& directory, const ReadParameter& read = {}) const;
  /// The checkpoint of which export_model made this directory. None: there is no model, it names no checkpoint, or one of its files is missing
  /// or has changed since. All files are read and compared with the sizes and checksums in tern_export.json.
  std::optional<ExportOf> exported(const std::string& directory) const;

 private:
  // Finishes or removes what a killed export of this directory left.
  void sweep(const std::string& directory);

  Io& io_;
  std::string path_, export_name_, id_;
  std::vector<std::string> notes_;
  std::unique_ptr<IoLock> lock_;
};

}  // namespace tern
