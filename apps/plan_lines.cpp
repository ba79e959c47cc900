#include "apps/plan_lines.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/common.h"
#include "planner/words/columns.h"

namespace tern {

void print_lines(std::string_view text) {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  known ? print_out(fit_columns(text, size.ws_col)) : print_out(text);
}

}  // namespace tern
