#pragma once
// Stop strings over streamed text: what may still become a stop string is held back.

#include <string>
#include <string_view>
#include <vector>

namespace tern {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);
  /// Text that can no longer be part of a stop string. Once a stop string is complete, the text before it is the last.
  std::string push(std::string_view text);
  /// At an end without a stop string: the text that was held back.
  std::string finish();
  bool stopped() const { return !matched_.empty(); }
  const std::string& matched() const { return matched_; }  // the stop string that ended it

 private:
  std::vector<std::string> stops_;
  std::string held_, matched_;
};

}  // namespace tern
