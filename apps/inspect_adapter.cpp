#include "apps/inspect_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "base/shell.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/peft/config.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/safetensors.h"
#include "model/adapter_files.h"
#include "model/not_finite.h"

namespace tern {
namespace {

std::string words_of(const PeftTargets& targets) {
  if (targets.all_linear) return "every linear layer but the head";
  if (!targets.regex.empty()) return fmt::format("modules that match {}", make_printable(targets.regex));
  return make_printable(fmt::format("{}", fmt::join(targets.names, ", ")));
}
// What departs from the one rank and scale.
std::string exceptions_of(const PeftConfig& c) {
  std::string text;
  if (!c.rank_pattern.empty() || !c.alpha_pattern.empty()) text += "; other ranks or scales by pattern";
  if (c.layers) text += "; of some layers";
  if (!c.excluded.empty()) text += "; but not " + words_of(c.excluded);
  return text;
}

void print_row(std::string_view key, const std::string& text) { print_out(fmt::format("{:<12} {}\n", key, text)); }

}  // namespace

bool is_adapter_folder(const std::string& path) {
  return real_io().stat(join_path(path, "adapter_config.json")) && !real_io().stat(join_path(path, "config.json"));
}

int inspect_adapter(const Options& options, const std::string& path) {
  const PeftConfig config = read_peft_config(peft_config_file(path));
  const Safetensors file(peft_weights_file(path));
  int64_t numbers = 0;
  for (size_t i = 0; i < file.size(); ++i) {
    int64_t count = 1;
    for (const int64_t size : file[i].shape) count *= size;
    numbers += count;
  }
  const std::string bad = find_not_finite(Weights(file.path()));
  if (options.flag("json"))
    print_json({{"adapter", path},
                {"base_model", config.base_model},
                {"rank", config.rank},
                {"alpha", config.alpha},
                {"rank_stabilized", config.rank_stabilized},
                {"dora", config.magnitude},
                {"targets", words_of(config.targets)},
                {"exceptions", !exceptions_of(config).empty()},
                {"saved_modules", config.saved},
                {"tensors", file.size()},
                {"numbers", numbers},
                {"bytes", file.data_bytes()},
                {"finite", bad.empty()}});
  else {
    print_row("adapter", fmt::format("{} (a PEFT directory)", make_printable(path)));
    print_row("of model", config.base_model.empty() ? "not said" : make_printable(config.base_model));
    print_row("form", fmt::format("{} of rank {}, scale {} {}", config.magnitude ? "DoRA" : "LoRA", config.rank,
                                  config.alpha, config.rank_stabilized ? "/ √rank" : "/ rank"));
    print_row("on", words_of(config.targets) + exceptions_of(config));
    if (!config.saved.empty()) print_row("whole", make_printable(fmt::format("{}", fmt::join(config.saved, ", "))));
    print_row("file",
              fmt::format("{} numbers in {}, {}", format_count(static_cast<double>(numbers)),
                          counted(static_cast<int64_t>(file.size()), "tensor"), format_bytes(file.data_bytes())));
    print_out("\ntry: tern generate MODEL --adapter " + shell_quoted(path) + " --prompt 'Once upon a time'\n");
  }
  if (!bad.empty()) throw Error(ErrorKind::bad_file, "{}", bad);
  return 0;
}

}  // namespace tern
