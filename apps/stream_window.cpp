#include "apps/stream_window.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "apps/weights_options.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

constexpr int64_t kMostBlocks = 1 << 20;

StreamWindow parse_stream_window(const std::string& text) {
  const Error refusal(ErrorKind::usage,
                      "--stream-window {}: expected blocks:W, layers:K or layers:K,STEP: how many blocks (attention, "
                      "MLP, head) or layers lie in memory at a time, from 1 on, and how many are given back at a time, "
                      "1 to as many as lie there",
                      make_printable(text));
  const size_t colon = text.find(':');
  const std::string_view unit = std::string_view(text).substr(0, colon);
  if (colon == std::string::npos || (unit != "blocks" && unit != "layers")) throw refusal;
  std::vector<int64_t> numbers;
  for (const std::string_view part : split(std::string_view(text).substr(colon + 1), ',')) {
    try {
      numbers.push_back(parse_integer(trim(part), "--stream-window"));
    } catch (const Error&) { throw refusal; }
  }
  if (numbers.size() == 1) numbers.push_back(1);
  const bool fine = numbers.size() == 2 && 1 <= numbers[1] && numbers[1] <= numbers[0] && numbers[0] <= kMostBlocks;
  if (!fine) throw refusal;
  return {.of = unit == "blocks" ? WindowOf::block : WindowOf::layer,
          .resident = static_cast<int>(numbers[0]),
          .step = static_cast<int>(numbers[1])};
}

}  // namespace

std::optional<StreamWindow> stream_window(const Options& options, const ModelDescription& model) {
  if (!options.has("stream-window")) return std::nullopt;
  const std::string text = options.text("stream-window");
  const StreamWindow window = parse_stream_window(text);
  const std::string in_memory = weights_option(options) != "auto" ? "--weights " + weights_option(options)
                                : model.dtype == DType::f64       ? "--dtype f64"
                                                                  : "";
  if (!in_memory.empty())
    throw Error(ErrorKind::usage,
                "--stream-window {}: weights are read for each pass, and {} takes weights in memory; leave one of them "
                "out",
                text, in_memory);
  return window;
}

std::string window_words(const StreamPlan& plan) {
  return fmt::format("a window of {} moves over the model's {} ({} at most)", describe(*plan.window),
                     plan.ring.window.blocks.size(), format_bytes(window_bytes(plan.bands, plan.ring.window)));
}

Json window_json(const StreamPlan& plan) {
  return {{"of", name_of(plan.window->of)},
          {"resident", plan.window->resident},
          {"step", plan.window->step},
          {"count", plan.ring.window.blocks.size()},
          {"bytes", window_bytes(plan.bands, plan.ring.window)}};
}

}  // namespace tern
