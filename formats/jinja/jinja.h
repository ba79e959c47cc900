#pragma once
// Chat templates are Jinja programs written by strangers. This is a Jinja of our own: the subset that chat templates
// use, rendered byte for byte as transformers configures Jinja2, bounded in steps, memory, output and depth, with no
// access to anything but the values it is given.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "formats/jinja/marked_text.h"

namespace tern {

/// Bounds of one rendering (and, where named, of loading).
struct JinjaLimits {
  int64_t max_steps = 1'000'000;        // statements, turns of loops, calls, filters, tests
  int64_t max_work = int64_t{1} << 31;  // bytes moved or compared, with 32 for each evaluated node
  int64_t max_memory_bytes = 48 << 20;  // values alive at one time, the variables given not counted
  size_t max_output_bytes = 4 << 20;    // of the text, and of any string on the way to it
  int depth = 1200;                     // nesting of statements, expressions and macro calls while rendering
  int64_t max_range = 100'000;          // elements of range(), as Jinja2's sandbox has it
};
inline constexpr size_t kJinjaMaxSourceBytes = 1 << 20;
inline constexpr int kJinjaMaxNesting = 200;  // of the source: brackets, blocks, chains of operators
inline constexpr int kJinjaMaxValueDepth = 100;

/// Why a template failed.
enum class JinjaFault {
  syntax,       // loading: not Jinja
  unsupported,  // loading: Jinja, and not of the subset
  raised,       // the template called raise_exception: the conversation does not suit it
  undefined,    // a value that is not there was used
  security,     // something Jinja2's sandbox forbids
  runtime,      // types, arguments, unknown names
  limit,        // a bound of JinjaLimits
};

/// `reason` is what Jinja2 would say where it would say something; what() puts place and line in front.
/// Its kind is usage for `raised` (the conversation is the user's), bad_file otherwise.
class JinjaError : public Error {
 public:
  JinjaError(JinjaFault fault, const std::string& place, int line, std::string reason);
  JinjaFault fault() const { return fault_; }
  int line() const { return line_; }
  const std::string& reason() const { return reason_; }

 private:
  JinjaFault fault_;
  int line_;
  std::string reason_;
};

/// A variable of the template. Texts within `value` (keys of objects too) are marked kMarkUser where `from_user` is
/// set.
struct JinjaVariable {
  std::string name;
  const Json* value = nullptr;
  bool from_user = false;
};

/// How a template is rendered.
struct JinjaRenderOptions {
  std::tm now = {};  // what strftime_now() formats: local time
  JinjaLimits limits;
};

/// A loaded template: immutable, cheap to copy, safe to use from many threads at once.
/// Subset  text, {{ }}, {# #}, if, for (with if, else, break, continue), set (blocks, namespaces, tuples), macro, call,
///         filter, with, raw, print, generation; all operators; the filters, tests and methods of docs/templates; the
///         globals range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
/// Source  Jinja2 3.1.6 and transformers 5.23, judged by their output (dev/golden/chat_templates.py).
/// Own     integers beyond 128 bits, format specifications and a list of rarely used filters are errors, at loading
///         where the source shows them; addresses never print.
class JinjaTemplate {
 public:
  /// Errors  JinjaError syntax, unsupported: "PLACE: line N: …".
  static JinjaTemplate parse(std::string_view source, std::string place);

  /// Errors  JinjaError of the other faults.
  MarkedText render(const std::vector<JinjaVariable>& variables, const JinjaRenderOptions& options = {}) const;

  bool has_generation_tag() const;
  /// Whether the source names this variable anywhere (transformers asks this before it passes some on).
  bool uses(std::string_view variable) const;
  /// What loads but fails when it is reached: filters and tests unknown to Jinja inside an {% if %}.
  const std::vector<std::string>& notes() const;
  const std::string& place() const;

  struct Program;

 private:
  std::shared_ptr<const Program> program_;
};

}  // namespace tern
