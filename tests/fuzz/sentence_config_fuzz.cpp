// Bytes parted at NULs as sentence-transformers' files in the order below; a part that is not there or empty is a file
// that is not there. An Error, or settings that mean something.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/hf/sentence_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto read = [&](const std::string& name) -> std::optional<std::string> {
    std::string_view rest = all;
    for (const char* file :
         {"modules.json", "1_Pooling/config.json", "2_Normalize/config.json", "sentence_bert_config.json",
          "config_sentence_transformers.json", "tokenizer_config.json"}) {
      const std::string_view part = rest.substr(0, rest.find('\0'));
      if (name == file) return part.empty() ? std::nullopt : std::optional<std::string>(part);
      rest = part.size() < rest.size() ? rest.substr(part.size() + 1) : std::string_view();
    }
    if (name.find("..") != std::string::npos || name.starts_with('/')) std::abort();
    return {};
  };
  try {
    const auto config = parse_sentence_config("fuzz", read);
    if (config && (name_of(config->pooling).empty() || config->max_tokens.value_or(1) < 1)) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file || std::string_view(error.what()).size() > 4000) std::abort();
  }
  return 0;
}
