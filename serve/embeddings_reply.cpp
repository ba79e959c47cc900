#include "serve/embeddings_reply.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tern {

std::string base64_of(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t rest = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < rest ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= rest ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

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
