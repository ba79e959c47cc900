#include "apps/eval_flags.h"

#include "base/error.h"
#include "base/options.h"

namespace tern {

void check_eval_flags(const Options& options) {
  const bool data = options.has("data"), task = options.has("task"), reference = options.has("reference");
  if (data && task) throw Error(ErrorKind::usage, "--data and --task are both given; give one of them");
  if (!data && !task)
    throw Error(ErrorKind::usage,
                "--data is not given; name a text, JSONL or token file to measure on, or questions with --task");
  if (task && reference) throw Error(ErrorKind::usage, "--reference belongs to --data; a task has its answers");
  for (const char* flag : {"convention", "window", "stride", "answers", "chat-template"})
    if (task && options.given(flag)) throw Error(ErrorKind::usage, "--{} belongs to --data, not to --task", flag);
  for (const char* flag : {"extract", "extract-which", "ignore-case", "ignore-punctuation"})
    if (data && options.given(flag)) throw Error(ErrorKind::usage, "--{} belongs to --task, not to --data", flag);
  if (options.given("extract-which") && !options.has("extract"))
    throw Error(ErrorKind::usage, "--extract-which does nothing without --extract");
}

}  // namespace tern
