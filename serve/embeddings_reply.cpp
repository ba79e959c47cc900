#include "serve/embeddings_reply.h"

#include <nlohmann/json.hpp>

#include "serve/base64.h"

namespace tern {

std::string embeddings_reply(const AskedVectors& asked, const std::vector<std::vector<float>>& vectors,
                             const ServedModel& model) {
  Json json = {{"object", "list"}, {"data", Json::array()}, {"model", model.name}};
  for (size_t i = 0; i < vectors.size(); ++i) {
    Json one = {{"object", "embedding"}, {"index", i}};
    if (asked.base64)
      one["embedding"] =
          base64_of({reinterpret_cast<const char*>(vectors[i].data()), vectors[i].size() * sizeof(float)});
    else
      one["embedding"] = vectors[i];
    json["data"].push_back(std::move(one));
  }
  json["usage"] = {{"prompt_tokens", asked.num_tokens}, {"total_tokens", asked.num_tokens}};
  return dump_json(json);
}

}  // namespace tern
