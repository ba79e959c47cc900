#include "apps/load_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/options.h"
#include "apps/signals.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

namespace tern {
namespace {

// Ids for prompts are drawn from those of this text, so that they are ones that the model's tokenizer writes.
constexpr std::string_view kPage =
    "The old man looked at the sea, and then he went slowly back to the house, where his daughter had lit the lamp. "
    "She asked him whether the boats were home; he said that two of them were, that the third would come with the "
    "morning tide, and that nobody need be afraid. Still, she put another log on the fire, for the wind had turned to "
    "the north, and from the window one could see nothing but rain. \"What would you do,\" she said, \"if you were "
    "young again?\" He thought about it for a long time. Numbers and names, 1, 2, 34, 567, London and Paris, Monday, "
    "river, bread, iron, glass, question, answer, above, below, between, never, always, perhaps.";

void start_server(const Options& options, int64_t context, int64_t at_once, LoadTarget& target) {
  std::vector<std::string> words = options.command();
  words.insert(words.begin(), options.positional("MODEL"));
  const Options asked = resolve_options(tern_options(), "serve", words, process_environment());
  for (const char* name : {"port", "host", "json", "api-key-file"})
    if (asked.given(name) && asked.value(name).origin == Origin::command_line)
      throw Error(ErrorKind::usage, "--{} behind --: this command chooses it for the server that it starts", name);
  words.insert(words.end(), {"--port", "0", "--host", "127.0.0.1", "--json"});
  if (!asked.given("context")) words.insert(words.end(), {"--context", fmt::format("{}", context)});
  if (!asked.given("max-running"))
    words.insert(words.end(), {"--max-running", fmt::format("{}", std::max(at_once, asked.integer("max-running")))});
  target.serve = resolve_options(tern_options(), "serve", words, process_environment());
  words.insert(words.begin(), {own_program(), "serve"});
  target.child = std::make_unique<ChildBeside>(words);
  std::string text;
  do {  // one object over several lines
    const std::string line = target.child->line(stop_requested);
    if (line.empty()) break;
    text += line + "\n";
  } while (!text.ends_with("\n}\n"));
  if (text.empty()) {
    const int code = target.child->end();
    throw Error(stop_requested() ? ErrorKind::interrupted : kind_of_exit(code),
                "the server did not start (exit code {})", code);
  }
  const Json ready = parse_json(text, "what the server told");
  target.ready = text;
  target.address = server_address(ready.at("url").get<std::string>());
  target.context = ready.at("context");
}

Json ask_json(const ServerAddress& at, std::string_view method, std::string_view path, std::string_view body) {
  const ServerReply reply = ask_server(at, method, path, body);
  if (reply.status != 200)
    throw Error(ErrorKind::usage, "{} of the server at {}:{} answers {}: {}", path, at.host, at.port, reply.status,
                make_printable(reply.body.substr(0, 300)));
  return parse_json(reply.body, fmt::format("the server's {}", path));
}

}  // namespace

ProcessFigures process_figures(pid_t pid) {
  ProcessFigures f;
  const std::string folder = fmt::format("/proc/{}", pid);
  std::error_code gone;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder + "/fd", gone)) ++f.open_files;
  const std::string status = real_io().read(folder + "/status");
  for (const std::string_view line : split(status, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2) continue;
    if (words[0] == "VmRSS:") f.resident_bytes = 1024 * std::stoll(std::string(words[1]));
    if (words[0] == "VmHWM:") f.peak_resident_bytes = 1024 * std::stoll(std::string(words[1]));
  }
  return f;
}

LoadTarget load_target(const Options& options, int64_t context, int64_t at_once) {
  LoadTarget target;
  if (options.has_positional("MODEL") == options.has("url"))
    throw Error(ErrorKind::usage, "bench serve: give MODEL, which is then served here, or --url of a server; {}",
                options.has("url") ? "not both" : "neither is given");
  if (options.has("url")) {
    if (!options.command().empty())
      throw Error(ErrorKind::usage,
                  "bench serve: what stands behind -- is for a server that is started; --url names one");
    target.address = server_address(options.text("url"));
  } else {
    start_server(options, context, at_once, target);
  }
  target.address.key = options.text("api-key");
  const Json models = ask_json(target.address, "GET", "/v1/models", "");
  if (!models.contains("data") || models["data"].empty())
    throw Error(ErrorKind::usage, "the server at {}:{} has no model", target.address.host, target.address.port);
  const Json& first = models["data"][0];
  target.model = options.has("model-name") ? options.text("model-name") : first.value("id", "");
  if (first.contains("max_model_len") && first["max_model_len"].is_number_integer())
    target.context = first["max_model_len"];
  if (target.context > 0 && context > target.context)
    throw Error(ErrorKind::usage, "the longest prompt and answer have {} tokens, the server takes {}", context,
                target.context);
  std::set<int32_t> ids;
  for (const char* name : {"prompt", "content"}) {  // as tern and vLLM, or as llama.cpp's server calls it
    const Json asked = {{"model", target.model}, {name, kPage}, {"add_special_tokens", false}};
    const ServerReply reply = ask_server(target.address, "POST", "/tokenize", dump_json(asked));
    if (reply.status != 200) continue;
    const Json tokens = parse_json(reply.body, "the server's /tokenize");
    if (tokens.contains("tokens"))
      for (const Json& id : tokens["tokens"]) ids.insert(id.get<int32_t>());
    if (!ids.empty()) break;
  }
  target.ids.assign(ids.begin(), ids.end());
  if (target.ids.empty()) throw Error(ErrorKind::usage, "the server's /tokenize makes no tokens of a page of English");
  return target;
}

}  // namespace tern
