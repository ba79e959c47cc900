#pragma once
// Two kinds of failure. Bad input or a bad world throws Error: place, expectation, fact, remedy, in one sentence a
// newcomer can act on. A broken promise of ours is a TERN_CHECK. Only apps/ prints or exits.

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tern {

/// Kinds of failure, told apart by who can mend them. The values are the exit codes of the command (docs/exit-codes).
enum class ErrorKind {
  bug = 1,            // our own broken promise, or anything unforeseen
  usage = 2,          // a flag, a recipe key, a value
  does_not_fit = 3,   // memory or disk: the message says what would fit
  bad_file = 4,       // a model, tokenizer, data or adapter file; unreadable, malformed, missing
  peer = 5,           // another rank was lost or late
  no_checkpoint = 6,  // resume asked for, and no checkpoint verifies
  diverged = 7,       // training met a number that is not finite; the last checkpoint stands
  undecided = 8,      // time or means ended before an answer was proven
  interrupted = 75,   // stopped on request; the same command goes on
};

class Error : public std::runtime_error {
 public:
  template <class... Args>
  Error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace tern

/// TERN_CHECK(condition, "where: {} facts", …): a promise of our own code, kept in release builds.
#define TERN_CHECK(condition, ...)                                                                      \
  do {                                                                                                  \
    if (!(condition)) ::tern::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
