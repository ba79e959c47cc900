#pragma once
// The numbers of a run, written while it runs: one JSON object per row in LOGS/metrics.jsonl, and the same values in a
// TensorBoard event file beside it. Rows are appended, and synced before a checkpoint is committed. A crash may lose or
// tear rows that were written after the last checkpoint; resuming from that checkpoint drops the rows of later steps, so
// that a run that was killed leaves the same rows as one that was not.
//
// Tags of training: train/{loss,lr,grad_norm,preference_accuracy,preference_margin}, perf/{tokens_per_s,flops_per_s,mfu},
// mem/peak_bytes, async/{worker,delay}, eval/TASK/METRIC. A row has those for which its step has a value.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/io.h"

namespace tern {

/// The values of one step.
struct MetricRow {
  int64_t step = 0;
  double time_s = 0;                                   // seconds since 1970; 0: append() fills in the present
  std::vector<std::pair<std::string, double>> values;  // tag, value; in the order they are to be shown
};

/// A row as one line of metrics.jsonl, without the newline: {"step":10,"time":1795280000.25,"train/loss":2.5}.
/// Values that JSON has no number for are the strings "NaN", "Infinity", "-Infinity": a diverged run stays readable.
/// Errors  bug: the tag "step" or "time", an empty tag, or a tag twice.
std::string metric_line(const MetricRow& row);

/// Reads a line that metric_line wrote. `place` begins the message of an error ("FILE:LINE").
/// Errors  bad_file: anything metric_line would not write.
MetricRow parse_metric_line(std::string_view line, const std::string& place);

/// What a metrics file holds. A killed writer may leave a last line without its newline; a power loss may leave zero bytes
/// where rows had not reached the disk. `rows` has the rows before such damage.
struct MetricsFile {
  std::vector<MetricRow> rows;
  bool torn = false;  // whether there is such damage
};

/// Reads a metrics file. Errors  bad_file: it cannot be read, or has a malformed line (file and line are named).
MetricsFile read_metrics(const std::string& path);
/// The same from the file's bytes; `path` names it in errors.
MetricsFile parse_metrics(std::string_view text, const std::string& path);

/// Appends rows to DIRECTORY/metrics.jsonl and DIRECTORY/events.out.tfevents.tern. One writer at a time.
class MetricsLog {
 public:
  /// Starts or continues the log. `last_step`: the step of the checkpoint from which the run resumes, or -1 to begin anew.
  /// Rows of later steps, and a torn last line, are dropped first. The directory is made if needed. `clock` gives rows their
  /// time. Errors  bad_file: the log cannot be written, or another program wrote what is there; does_not_fit: the disk is
  /// full.
  MetricsLog(Io& io, const std::string& directory, int64_t last_step, Clock& clock = real_clock());

  /// Writes one row to both files at once (one write() each, so a killed run keeps every row appended before).
  /// Errors  does_not_fit: the disk is full; bad_file: another refusal of the system.
  void append(MetricRow row);
  /// Waits until all rows so far are on the disk. To be called before a checkpoint is committed, as a resume from it needs
  /// these rows. Errors: those of IoFile::sync.
  void sync();

 private:
  Clock& clock_;
  std::unique_ptr<IoFile> jsonl_, events_;
};

}  // namespace tern
