#pragma once
// What a run checks before its first step: its plan, its data, and what an earlier run left.

#include <functional>
#include <string>

#include "train/checkpoint.h"
#include "train/feed.h"
#include "train/fit.h"
#include "train/manifest.h"
#include "train/run_dir.h"
#include "train/settings.h"

namespace tern {

/// Gets a sentence for people. May be empty: then nobody reads the sentences.
using Note = std::function<void(const std::string&)>;

/// What fixes a run's bits beside its settings: version, instruction set, threads, multiplier; tensor, context, expert groups.
Facts made_by(const TrainSettings&, int threads);

/// A sentence for people if the settings' plan was priced as another Program than this run's, whose checksum is given; else "".
std::string plan_difference(const TrainSettings&, uint32_t checksum);

/// "data: 5,000 tokens in 12 documents: 39 windows of 128; the last 7 tokens make no window".
std::string describe_windows(const Feed&, int64_t seq);

/// Refuses data none of whose tokens has a loss: such a run would end with the weights that it began with. Errors: usage.
void require_loss(const TrainSettings&, const Feed&);

/// Each of `ranks` ranks has a list of the documents' ends in memory. Adds these lists to PredictedMemory::data if the lists take a mebibyte
/// or more (PredictedMemory::process covers less). Errors: does_not_fit: the run then takes more than `room_bytes` beside the process.
void count_documents(const Feed&, int64_t ranks, int64_t room_bytes, PredictedMemory&);

/// Finds the checkpoint from which the run resumes, if there is one. --resume never: finds none, and puts aside what an earlier run left.
/// Errors: no_checkpoint: there are checkpoints but none verifies, or there are none and --resume is `must`.
CheckpointSearch look_for_checkpoint(Io&, const RunDirectory&, Resume, const Note&);

/// Refuses a checkpoint of another run, and notes differences that may change the bits (compare_settings). Errors: usage.
void require_same_settings(const FoundCheckpoint&, const Facts& settings, const Facts& made_by, const Note&);

}  // namespace tern
