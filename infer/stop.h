#pragma once
// Finds stop strings in text that comes piece by piece. It holds back what may still become a stop string.

#include <string>
#include <string_view>
#include <vector>

namespace tern {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);
  /// Takes the next piece and returns the text that can no longer be part of a stop string. When a stop string is complete, it returns the text
  /// before it, and nothing after that.
  std::string push(std::string_view text);
  /// Called when the text ends without a stop string: returns what was held back.
  std::string finish();
  bool stopped() const { return !matched_.empty(); }
  const std::string& matched() const { return matched_; }  // the stop string that ended it

 private:
  std::vector<std::string> stops_;
  std::string held_, matched_;
};

}  // namespace tern
