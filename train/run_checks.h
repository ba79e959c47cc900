#pragma once
// What a run asks before its first step: of its plan, its data, and what an earlier run left.

#include <functional>
#include <string>

#include "train/checkpoint.h"
#include "train/feed.h"
#include "train/fit.h"
#include "train/manifest.h"
#include "train/run_dir.h"
#include "train/settings.h"

namespace tern {

using Note = std::function<void(const std::string&)>;  // empty: nobody reads it

/// What else than its settings fixes a run's bits: tern's version, the instruction set, threads, the multiplier.
Facts made_by(const TrainSettings&, int threads);

/// A sentence for people if the settings' plan was priced as another Program than this run's; else "".
std::string plan_difference(const TrainSettings&, uint32_t checksum);

/// "data: 5,000 tokens in 12 documents: 39 windows of 128; the last 8 tokens make no window".
std::string describe_windows(const Feed&, int64_t seq);

/// Errors: usage, where no token of the windows has a loss: a run would end with the weights it began with.
void require_loss(const TrainSettings&, const Feed&);

/// Where documents end is kept of all of them, by each of `ranks`: added to the predicted data, if it is a mebibyte or more (less is
/// within what the program itself takes). Errors: does_not_fit, where the run then takes more than `room_bytes` beside the program.
void count_documents(const Feed&, int64_t ranks, int64_t room_bytes, PredictedMemory&);

/// The checkpoint to go on from, if there is one. --resume never puts aside what an earlier run left.
/// Errors: no_checkpoint, where none of those there verifies, or --resume must finds none.
CheckpointSearch look_for_checkpoint(Io&, const RunDirectory&, Resume, const Note&);

/// Errors: usage, where the checkpoint belongs to another run.
void require_same_settings(const FoundCheckpoint&, const Facts& settings, const Facts& made_by, const Note&);

}  // namespace tern
