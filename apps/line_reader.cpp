#include "apps/line_reader.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace tern {
namespace {

void on_interrupt(int) {}  // its only work is to end read()

}  // namespace

std::string LineReader::next(End& end) {
  struct sigaction action {
  }, old{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);  // no SA_RESTART: read() returns
  sigaction(SIGINT, &action, &old);
  sigset_t interrupt, blocked;  // this thread has to get it, as no other one's would end read()
  sigemptyset(&interrupt), sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, &blocked);
  end = End::line;
  size_t newline;
  while ((newline = held_.find('\n')) == std::string::npos) {
    char buffer[4096];
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count > 0) {
      held_.append(buffer, static_cast<size_t>(count));
      continue;
    }
    end = count < 0 && errno == EINTR ? End::interrupt : End::input;
    break;
  }
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  sigaction(SIGINT, &old, nullptr);
  std::string line = held_.substr(0, newline);
  held_.erase(0, newline == std::string::npos ? newline : newline + 1);
  return line;
}

}  // namespace tern
