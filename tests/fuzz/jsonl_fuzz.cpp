// Any bytes as a line of training text, and as a file of questions: an Error, or records with what they must have.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "eval/task_file.h"
#include "formats/data/jsonl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto guarded = [](const auto& run) {
    try {
      run();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file || std::string_view(error.what()).size() > 4000) std::abort();
    }
  };
  guarded([&] {
    const JsonlRecord record = parse_jsonl_record(text, "fuzz line 1");
    if (record.is_chat && record.has_completion) std::abort();
  });
  guarded([&] {
    for (const TaskItem& item : parse_task(text, "fuzz").items)
      if (item.choices.empty() ? item.answers.empty() : item.answer >= static_cast<int64_t>(item.choices.size()))
        std::abort();
  });
  return 0;
}
