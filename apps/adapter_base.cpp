#include "apps/adapter_base.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "formats/peft/config.h"
#include "model/adapter_files.h"
#include "model/gated_adapter.h"

namespace tern {
namespace {

std::string last_part(const std::string& name) {
  constexpr std::string_view kCached = "models--";  // models--ORG--NAME/snapshots/HASH
  std::string last;
  for (const std::filesystem::path& part : std::filesystem::path(name).lexically_normal()) {
    const std::string text = part.string();
    if (text.starts_with(kCached)) return text.substr(text.rfind("--") + 2);
    if (!text.empty()) last = text;
  }
  return last;
}

}  // namespace

bool names_one_model(const std::string& one, const std::string& other) {
  std::error_code no_one, no_other;
  const std::filesystem::path at = std::filesystem::canonical(one, no_one);
  const std::filesystem::path other_at = std::filesystem::canonical(other, no_other);
  if (!no_one && !no_other) return at == other_at;
  return last_part(no_one ? one : at.string()) == last_part(no_other ? other : other_at.string()) ||
         last_part(one) == last_part(other);
}

void warn_of_other_base(const std::string& model, const std::string& dir) {
  const std::vector<std::string> parts =
      is_gated_adapter(dir) ? read_gated_adapter(dir).branches : std::vector<std::string>{dir};
  for (const std::string& part : parts) {
    const std::string base = read_peft_config(peft_config_file(part)).base_model;
    if (base.empty() || names_one_model(base, model)) continue;
    log_warn("{} was trained on '{}', the model is '{}'; beside another model it may mean nothing", dir,
             make_printable(base), model);
    return;
  }
}

}  // namespace tern
