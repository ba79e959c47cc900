#include "train/run_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/fast_matmul.h"
#include "train/settings_facts.h"

namespace tern {

// Ranks that share out rows, matrices or experts sum parts of a gradient that depend on the number of replicas too.
static std::string of_replicas(int group, const TrainSettings& s) {
  return group == 1 ? "1" : fmt::format("{} of {} ranks", group, s.ranks);
}

Facts made_by(const TrainSettings& s, int threads) {
  return {{"tern", TERN_VERSION},
          {"instruction set", std::string(name_of(active_isa()))},
          {"threads", fmt::format("{}", threads)},
          {"tensor-parallel", of_replicas(s.tensor, s)},
          {"context-parallel", of_replicas(s.context_ranks, s) + (s.context_ring ? " in a ring" : "")},
          {"expert-parallel", of_replicas(s.expert_ranks, s)},
          {"multiplier", s.multiply == Multiply::fast ? std::string(fast_matmul_name()) : "own kernels"}};
}

std::string plan_difference(const TrainSettings& s, uint32_t checksum) {
  if (!s.plan || !s.plan->program || s.plan->program->checksum == checksum) return "";
  return fmt::format(
      "--plan {}: the plan was priced as the Program {:08x}, this run's is {:08x}: the plan is of another processor "
      "or number of threads, of another --multiply or other options of the optimizer, or of another tern; the run "
      "goes on, the plan's time and bytes may not hold",
      s.plan_path, s.plan->program->checksum, checksum);
}

void count_documents(const Feed& feed, int64_t ranks, int64_t room_bytes, PredictedMemory& predicted) {
  int64_t documents = 0, bytes = 0;
  for (const Feed::Source& source : feed.sources()) {
    documents += source.data.num_documents();
    bytes += ranks * static_cast<int64_t>(source.data.documents().size_bytes());
  }
  if (bytes < int64_t{1} << 20) return;
  predicted.data += bytes;
  const int64_t needed = predicted.total() - predicted.process;
  if (needed <= room_bytes) return;
  throw Error(
      ErrorKind::does_not_fit,
      "data: the ends of {} documents take {}; with them the run needs {} beside the program, there are {}: join "
      "documents, or allow more memory (--memory)",
      format_with_commas(documents), format_bytes(bytes), format_bytes(needed),
      format_bytes(std::max<int64_t>(room_bytes, 0)));
}

std::string describe_windows(const Feed& feed, int64_t seq) {
  int64_t dropped = 0, documents = 0;  // dropped: answers behind the last window
  bool has_loss = false;
  for (const Feed::Source& source : feed.sources()) {
    const TokenData& data = source.data;
    for (int64_t i = data.num_tokens() - source.left_over(seq); i < data.num_tokens(); ++i) dropped += data.loss(i);
    documents += data.num_documents(), has_loss |= data.has_loss();
  }
  std::string text = fmt::format(
      "data: {} in {}: {} of {}{}; the last {}{} make{} no window", counted(feed.num_tokens(), "token"),
      counted(documents, "document"), counted(feed.num_windows(), "window"), seq,
      has_loss ? fmt::format(", {} of their tokens with a loss", format_with_commas(feed.num_loss_targets())) : "",
      counted(feed.left_over(), "token"), has_loss ? fmt::format(" ({} with a loss)", dropped) : "",
      feed.left_over() == 1 ? "s" : "");
  if (feed.sources().size() > 1)
    for (const Feed::Source& source : feed.sources())
      text += fmt::format("\n  {:.1f} % of the samples from {}: {} in {}",
                          100.0 * static_cast<double>(source.of_block) / kMixtureBlock, source.place,
                          counted(source.data.num_tokens(), "token"), counted(source.num_windows, "window"));
  return text;
}

void require_loss(const TrainSettings& s, const Feed& feed) {
  if (feed.num_loss_targets() > 0) return;
  int64_t anywhere = 0;
  for (const Feed::Source& source : feed.sources())
    for (int64_t i = 0; i < source.data.num_tokens(); ++i) anywhere += source.data.loss(i);
  throw Error(
      ErrorKind::usage,
      "{}: none of the tokens in {} of {} has a loss, so nothing would be learnt ({} of {} in the data have one; "
      "{} make no window); choose another --seq, or more data",
      s.data, counted(feed.num_windows(), "window"), s.seq, format_with_commas(anywhere),
      counted(feed.num_tokens(), "token"), counted(feed.left_over(), "token"));
}

CheckpointSearch look_for_checkpoint(Io& io, const RunDirectory& run, Resume resume, const Note& tell) {
  const auto note = [&](const std::string& text) {
    if (tell) tell(text);
  };
  if (resume == Resume::never) {
    for (const std::string& aside : run.put_aside())
      note(fmt::format("--resume never: what an earlier run left is now in {}", aside));
    return {};
  }
  CheckpointSearch search = find_checkpoint(io, run.checkpoints());
  for (const std::string& text : search.notes) note(text);
  if (!search.newest && search.num_broken > 0)
    throw Error(
        ErrorKind::no_checkpoint,
        "{}: none of {} checkpoints verifies (see the lines above); --resume never puts them aside and begins anew",
        run.checkpoints(), search.num_broken);
  if (!search.newest && resume == Resume::must)
    throw Error(ErrorKind::no_checkpoint, "{}: no checkpoint there, and --resume must asks for one; is --output right?",
                run.checkpoints());
  return search;
}

void require_same_settings(const FoundCheckpoint& found, const Facts& settings, const Facts& made, const Note& note) {
  const SettingsChange change = compare_settings(found.manifest, settings, made);
  if (note)
    for (const std::string& text : change.warned) note(text);
  if (change.refused.empty()) return;
  std::string all;
  for (const std::string& text : change.refused) all += "\n  " + text;
  throw Error(ErrorKind::usage,
              "{}: this is another run than the one that was begun there:{}\nchange it back, choose another "
              "--output, or say --resume never",
              found.path, all);
}

}  // namespace tern
