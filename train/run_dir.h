#pragma once
// OUT: the directory of a run. One process at a time; every part is complete or absent.
//   OUT/lock, OUT/recipe.toml, OUT/data/ (packed text), OUT/logs/, OUT/checkpoints/step-N/, OUT/model/ (Hugging Face)

#include <memory>
#include <string>
#include <vector>

#include "base/io.h"
#include "model/weights.h"
#include "train/inputs.h"

namespace tern {

class RunDirectory {
 public:
  /// Makes and locks it, finishes or sweeps what a killed export left. Errors: usage if another process holds it; the
  /// disk's.
  RunDirectory(Io&, const std::string& path);

  std::string checkpoints() const { return join_path(path_, "checkpoints"); }
  std::string logs() const { return join_path(path_, "logs"); }
  std::string data() const { return join_path(path_, "data"); }
  std::string model() const { return join_path(path_, "model"); }
  const std::string& path() const { return path_; }
  const std::string& id() const { return id_; }  // of this process, for temporary names
  const std::vector<std::string>& notes() const { return notes_; }

  void write_recipe(const std::string& toml) const;
  /// --resume never: what an earlier run left goes to checkpoints.before-K and model.before-K. Returns the new names;
  /// none if there was nothing.
  std::vector<std::string> put_aside() const;
  /// Writes the model with its tokenizer beside OUT/model and puts it in its place by renames; a crash in between
  /// leaves the old one, at most under a temporary name that the next start puts back.
  void export_model(const TrainInputs&, const ModelWeights&, DType) const;

 private:
  Io& io_;
  std::string path_, id_;
  std::vector<std::string> notes_;
  std::unique_ptr<IoLock> lock_;
};

}  // namespace tern
