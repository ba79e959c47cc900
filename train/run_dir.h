#pragma once
// OUT: the directory of a run. One process at a time; every part is complete or absent.
//   OUT/lock, OUT/recipe.toml, OUT/page.html (report/run_page.h), OUT/data/ (packed text), OUT/logs/, OUT/checkpoints/step-N/, OUT/model/ (Hugging Face,
//   and tern_export.json: which checkpoint it was made of); of a run that trains an adapter OUT/adapter/ (PEFT); with --keep-best
//   OUT/best/, the same of the lowest held-out loss so far, made of no checkpoint

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

/// The checkpoint whose weights a model directory holds.
struct ExportOf {
  int64_t step = 0;
  uint32_t crc32c = 0;  // of the checkpoint's data file; 0: of none
  friend bool operator==(const ExportOf&, const ExportOf&) = default;
};

/// Copies into `directory` the files beside a model that say how it is used and that training does not change.
void copy_companions(Io&, const TrainInputs&, const std::string& directory);

/// Refuses an --output that would replace what no run made: a directory that holds a model, recipe.toml, logs or
/// checkpoints but no lock, which every run makes first; OUT/model if MODEL itself is that directory, whatever --resume says; a
/// model directory, or one inside it. Nothing is written. Errors: usage, naming what would be replaced.
void check_output(Io&, const std::string& output, const ModelDir& model);

class RunDirectory {
 public:
  /// Makes and locks it, finishes or sweeps what a killed export left. Errors: usage if another process holds it; the
  /// disk's.
  /// export_name: the name of the directory that the trained model, or its adapter, is written to.
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
  /// --resume never: what an earlier run left (checkpoints, model, logs, recipe.toml) goes to NAME.before-K, one K for
  /// all. Returns the new names; none if there was nothing.
  std::vector<std::string> put_aside() const;
  /// Writes the model with its tokenizer, or with `adapter` its adapter alone, beside `directory` (model() or best()), then renames it. An
  /// adapter that took a part of the weights (model/taken_factors.h) is written so that it fits the model as its files have it.
  /// `read`: parameters that are not in memory, one by one (model/save_parts.h).
  /// A crash in between leaves the old model, if need be under a temporary name; the next start then gives it back its name.
  void export_model(const TrainInputs&, const ModelWeights&, DType, const ExportOf&, const AdapterSettings* adapter,
                    const std::string& directory, const ReadParameter& read = {}) const;
  /// The checkpoint that a directory of export_model names; nullopt: there is no model, it names no checkpoint, or a file of it is missing or has
  /// changed since (all are read and compared with the sizes and checksums in tern_export.json).
  std::optional<ExportOf> exported(const std::string& directory) const;

 private:
  void sweep(const std::string& directory);

  Io& io_;
  std::string path_, export_name_, id_;
  std::vector<std::string> notes_;
  std::unique_ptr<IoLock> lock_;
};

}  // namespace tern
