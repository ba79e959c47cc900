#pragma once
// Two kinds of failure. Bad input or a failure of the system throws Error, whose one-sentence message says where, what was expected,
// what was found and what to do. A broken promise of tern's own code fails a TERN_CHECK, which throws Bug. Only apps/ prints or exits.

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tern {

/// Kinds of failure, by who can fix them. The values are the exit codes of the command (docs/exit-codes.md).
enum class ErrorKind {
  bug = 1,            // a bug in tern, or an exception that nobody foresaw
  usage = 2,          // a wrong flag, recipe key or value
  does_not_fit = 3,   // memory or disk: the message says what would fit
  bad_file = 4,       // a model, tokenizer, data or adapter file that is missing, unreadable or malformed
  peer = 5,           // another rank was lost or late
  no_checkpoint = 6,  // no checkpoint is intact, or none is there for --resume must
  diverged = 7,       // training produced a number that is not finite; the last checkpoint is kept
  undecided = 8,      // time or methods were not enough to prove an answer
  interrupted = 75,   // stopped on request; the same command continues the work
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

/// TERN_CHECK(condition, "where: {} facts", …) checks a promise of tern's own code, in release builds too. Errors: bug.
#define TERN_CHECK(condition, ...)                                                                      \
  do {                                                                                                  \
    if (!(condition)) ::tern::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
