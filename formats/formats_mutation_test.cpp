// Ten thousand seeded mutations of good files per format: each is read, or refused by an Error; nothing
// else escapes, and memory stays within three files and 64 MiB.
#include <gtest/gtest.h>

#include <vector>

#include "base/io.h"
#include "formats/hf/config.h"
#include "formats/hf/generation_config.h"
#include "formats/mutations_testing.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/safetensors.h"

namespace tern {
namespace {

std::vector<std::string> files_of(const std::string& directory, std::string_view ending) {
  std::vector<std::string> files;
  for (const std::string& name : real_io().list(directory))
    if (name.ends_with(ending) && name != "expected.json") files.push_back(read_bytes(directory + "/" + name));
  return files;
}

TEST(FormatMutationsSlow, Safetensors) {
  const std::vector<std::string> seeds = files_of(golden("safetensors"), ".safetensors");
  ASSERT_GE(seeds.size(), 3u);
  survive_mutations(seeds, [](const std::string& bytes) {
    const Safetensors file = Safetensors::over(std::as_bytes(std::span(bytes)), "mutated");
    size_t sum = 0;
    for (size_t i = 0; i < file.size(); ++i) {
      const TensorView t = file[i];
      for (const std::byte b : t.bytes) sum += static_cast<size_t>(b);  // every view lies within the file
      if (t.num_elements() < 0) throw std::logic_error("negative size");
    }
    if (sum == 1) throw std::logic_error("unlikely");
  });
}

TEST(FormatMutationsSlow, SafetensorsIndex) {
  survive_mutations(
      {R"({"metadata":{"total_size":180},"weight_map":{"model.embed_tokens.weight":"model-00001-of-00002.safetensors",)"
       R"("lm_head.weight":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors"}})"},
      [](const std::string& text) {
        for (const auto& [tensor, file] : parse_safetensors_index(text, "mutated").weight_map)
          if (file.find('/') != std::string::npos) throw std::logic_error("a way out of the directory");
      });
}

TEST(FormatMutationsSlow, HfConfig) {
  const std::vector<std::string> seeds = files_of(golden("hf_config"), ".json");
  ASSERT_GE(seeds.size(), 20u);
  survive_mutations(seeds, [](const std::string& text) {
    HfConfig config = parse_hf_config(text, "mutated");
    check_hf_config(config);
    for (const HfForm form : {HfForm::v5, HfForm::v4}) {
      const HfConfig back = parse_hf_config(hf_config_json(config, form), "written");
      if (back.hidden_size != config.hidden_size || back.rope != config.rope)
        throw std::logic_error("writing changed the config");
    }
  });
}

TEST(FormatMutationsSlow, GenerationConfig) {
  survive_mutations(
      {R"({"bos_token_id":1,"do_sample":true,"eos_token_id":[2,3],"temperature":0.6,"top_p":0.9,"top_k":40,"min_p":0.1,)"
       R"("repetition_penalty":1.1,"max_new_tokens":100,"stop_strings":["a"],"num_beams":1,"transformers_version":"4.42.3"})"},
      [](const std::string& text) { generation_config_json(parse_generation_config(text, "mutated")); });
}

}  // namespace
}  // namespace tern
