#pragma once
// What a run starts from: the model's directory, its tokenizer, its data; found and checked before anything large is
// allocated.

#include <optional>
#include <string>
#include <vector>

#include "formats/data/pack.h"
#include "formats/hf/config.h"
#include "formats/model_dir.h"
#include "formats/tokenizer/tokenizer.h"
#include "train/feed.h"
#include "train/settings.h"

namespace tern {

struct TrainInputs {
  ModelDir dir;
  HfConfig config;
  ModelSpec spec;
  std::optional<Tokenizer> tokenizer;
  std::string chat_template;       // a file to use in place of the model's own; written beside the trained model
  std::vector<std::string> notes;  // for people, one sentence each
};

/// Errors  bad_file, usage: no such model; absent weights without --from-scratch;
///         a tokenizer in MODEL and another in --tokenizer; a tokenizer larger
///         than the model's vocabulary; --seq beyond the learned positions.
TrainInputs load_inputs(const TrainSettings&);

/// What can be known of the data files before OUT is touched. Errors: bad_file: not there; usage: text without a
/// tokenizer.
void check_data_files(const TrainSettings&, const TrainInputs&);

/// The data as a Feed: a token file is opened, text or JSONL packed into `cache_dir` once, through the Io.
/// Errors  bad_file, usage: no tokenizer for text; ids beyond the model's vocabulary; too little data for one window.
Feed open_feed(const TrainSettings&, const TrainInputs&, const std::string& data, const std::string& cache_dir,
               FeedConfig, PackOptions = {}, Io& = real_io());

/// Identities for the manifest. Data: the number of tokens and documents, and a CRC-32C of the ids (of more than 64 Mi
/// tokens, of 1,024 evenly spaced stretches) and of where documents begin. Model: the CRC-32C of the configuration, and of
/// every file that its weights lie in, the index included (of a file over 16 MiB, of 256 evenly spaced stretches).
RunIdentity identify(const TrainSettings&, const TrainInputs&, const Feed&);

}  // namespace tern
