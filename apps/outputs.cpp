#include "apps/outputs.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "base/publish.h"
#include "base/text.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
constexpr std::array<std::string_view, 6> kOutputs{"output", "emit-output", "html", "picture", "trace", "report"};

struct Named {
  std::string name, path;
};

bool is_output(std::string_view name) { return std::find(kOutputs.begin(), kOutputs.end(), name) != kOutputs.end(); }

std::vector<Named> outputs_of(const Options& o) {
  std::vector<Named> out;
  for (const auto& [name, value] : o.values())
    if (is_output(name) && !value.text.empty()) out.push_back({"--" + name, value.text});
  return out;
}

std::vector<Named> inputs_of(const Options& o) {
  std::vector<Named> in;
  for (const auto& [name, value] : o.values()) {
    if (!value.set || is_output(name)) continue;
    if (value.spec->type == OptionType::path) in.push_back({"--" + name, value.text});
    if (value.spec->type == OptionType::list && value.spec->unit == "FILE")
      for (const std::string& path : value.list) in.push_back({"--" + name, path});
  }
  for (const auto& [name, value] : o.positionals())
    if (value.set) in.push_back({name, value.text});
  if (!o.recipe().empty()) in.push_back({"the recipe", o.recipe()});
  return in;
}

// Two names of one file that is there.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// A file that a model or a tokenizer is read from, in its directory.
bool is_of_model(const fs::path& file) {
  const std::string name = file.filename().string(), end = file.extension().string();
  return end == ".safetensors" || end == ".gguf" || end == ".model" || name.ends_with(".safetensors.index.json") ||
         name == "config.json" || name == "generation_config.json" || name == "vocab.json" || name == "merges.txt" ||
         name == "special_tokens_map.json" || name.starts_with("tokenizer");
}

}  // namespace

void refuse_overwrites(const Options& o) {
  const std::vector<Named> outputs = outputs_of(o);
  std::error_code ignored;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    for (size_t j = 0; j < i; ++j)
      if (outputs[j].path == path || same_file(outputs[j].path, path) ||
          fs::weakly_canonical(outputs[j].path, ignored) == fs::weakly_canonical(path, ignored))
        throw Error(ErrorKind::usage, "{} and {} name the same file, {}; choose another", outputs[j].name, option,
                    make_printable(path));
    const bool picture = option == "--picture" || (option == "--output" && o.value("output").spec->verbs == "bench");
    if (const std::string end = lowercase(fs::path(path).extension().string());
        picture && (end == ".png" || end == ".jpg" || end == ".jpeg" || end == ".pdf"))
      throw Error(ErrorKind::usage, "{} {}: the picture is an SVG; let its name end in .svg", option,
                  make_printable(path));
    if (!fs::exists(path, ignored) || fs::is_directory(path, ignored)) continue;
    const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
    for (const Named& in : inputs_of(o))
      if (same_file(path, in.path) ||
          (fs::is_directory(in.path, ignored) && is_of_model(path) && same_file(folder, in.path)))
        throw Error(ErrorKind::usage, "{} {}: is the file that is read ({} {}); choose another", option,
                    make_printable(path), in.name, make_printable(in.path));
  }
}

void check_writable(const std::string& path, std::string_view option) {
  if (path.empty()) return;
  const std::string folder = parent_path(path).empty() ? "." : parent_path(path);
  const auto file = real_io().stat(path), parent = real_io().stat(folder);
  if (!parent || !parent->is_directory)
    throw Error(ErrorKind::usage, "{} {}: there is no folder {}; make it, or choose another", option,
                make_printable(path), make_printable(folder));
  if (file && file->is_directory)
    throw Error(ErrorKind::usage, "{} {}: is a folder; name a file in it", option, make_printable(path));
}

void require_writable(const Options& o) {
  for (const auto& [option, path] : outputs_of(o)) {
    check_writable(path, option);
    const OutputFile trial(real_io(), path);
  }
}

}  // namespace tern
