#pragma once
// What a run starts from: the model's directory, the tokenizer and the data. They are found and checked before anything large is allocated.

#include <optional>
#include <string>
#include <vector>

#include "formats/data/pack.h"
#include "formats/hf/config.h"
#include "formats/model_dir.h"
#include "formats/tokenizer/tokenizer.h"
#include "train/feed.h"
#include "train/settings.h"
#include "train/settings_facts.h"

namespace tern {

/// The model and its tokenizer, without weights.
struct TrainInputs {
  ModelDir dir;
  HfConfig config;
  ModelSpec spec;
  std::optional<Tokenizer> tokenizer;
  std::string chat_template;       // a file that takes the place of the model's own; empty: none
  std::vector<std::string> notes;  // for people, one sentence each
};

/// Finds and reads the model's configuration and tokenizer.
/// Errors  bad_file, usage: no such model; no weights, and no --from-scratch; one tokenizer in MODEL and another in --tokenizer; a
///         tokenizer with more tokens than the model; --seq beyond the learned positions.
TrainInputs load_inputs(const TrainSettings&);

/// Checks the data files as far as possible before OUT is touched. Errors: bad_file: a file is missing; usage: text without a
/// tokenizer.
void check_data_files(const TrainSettings&, const TrainInputs&);

/// The data as a Feed. A token file is opened; text or JSONL is packed into `cache_dir` once, through the Io.
/// Errors  bad_file, usage: no tokenizer for text; ids that the model's vocabulary lacks; too little data for one window.
Feed open_feed(const TrainSettings&, const TrainInputs&, const std::string& data, const std::string& cache_dir,
               FeedConfig, PackOptions = {}, Io& = real_io());

/// Identities for the manifest.
/// Data   the numbers of tokens and documents, and a CRC-32C of the ids and of where documents begin. If there are more than 64 Mi tokens,
///        the CRC-32C covers only 1,024 evenly spaced stretches of them.
/// Model  the CRC-32C of the configuration and of every file of its weights, the index included. Of a file over 16 MiB it covers only 256
///        evenly spaced stretches.
RunIdentity identify(const TrainSettings&, const TrainInputs&, const Feed&);

}  // namespace tern
