#include "serve/load/reply_reader.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr size_t kLongestHead = 64 << 10;

int64_t number_of(std::string_view digits, int base) {
  int64_t n = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n, base);
  if (error != std::errc{} || end != digits.data() + digits.size() || n < 0)
    throw Error(ErrorKind::bad_file, "the server's reply: {} is no length", quote_json(digits));
  return n;
}

}  // namespace

void ReplyReader::take(std::string_view bytes) {
  raw_ += bytes;
  while (advance()) {}
  raw_.erase(0, read_), read_ = 0;
}

void ReplyReader::close() {
  if (state_ == State::until_closed) state_ = State::done;
  if (!done()) throw Error(ErrorKind::bad_file, "the server closed the connection in the middle of its reply");
}

// A step to the next state; false: more bytes are needed, or the reply is whole.
bool ReplyReader::advance() {
  std::string_view line;
  switch (state_) {
    case State::head:
      return take_head();
    case State::sized:
    case State::chunk: {
      const auto n = std::min<int64_t>(left_, static_cast<int64_t>(raw_.size() - read_));
      body_.append(raw_, read_, static_cast<size_t>(n));
      read_ += static_cast<size_t>(n), left_ -= n;
      if (left_ > 0) return false;
      state_ = state_ == State::sized ? State::done : State::chunk_end;
      return true;
    }
    case State::until_closed:
      body_.append(raw_, read_), read_ = raw_.size();
      return false;
    case State::chunk_size:
      if (!take_line(line)) return false;
      left_ = number_of(trim(line.substr(0, line.find(';'))), 16);
      state_ = left_ > 0 ? State::chunk : State::trailer;
      return true;
    case State::chunk_end:
      if (!take_line(line)) return false;
      state_ = State::chunk_size;
      return true;
    case State::trailer:
      if (!take_line(line)) return false;
      if (line.empty()) state_ = State::done;
      return true;
    case State::done:
      return false;
  }
  return false;
}

bool ReplyReader::take_line(std::string_view& line) {
  const size_t end = raw_.find("\r\n", read_);
  if (end == std::string::npos) {
    if (raw_.size() - read_ > kLongestHead)
      throw Error(ErrorKind::bad_file, "the server's reply: a line without an end");
    return false;
  }
  line = std::string_view(raw_).substr(read_, end - read_);
  read_ = end + 2;
  return true;
}

bool ReplyReader::take_head() {
  const size_t end = raw_.find("\r\n\r\n", read_);
  if (end == std::string::npos) {
    if (raw_.size() - read_ > kLongestHead)
      throw Error(ErrorKind::bad_file, "the server's reply: a head without an end");
    return false;
  }
  const std::string_view head = std::string_view(raw_).substr(read_, end - read_);
  read_ = end + 4;
  if (!head.starts_with("HTTP/1.") || head.size() < 12)
    throw Error(ErrorKind::bad_file, "the server's reply: {} is no HTTP/1.1", quote_json(head.substr(0, 40)));
  status_ = static_cast<int>(number_of(head.substr(9, 3), 10));
  state_ = State::until_closed;
  for (const std::string_view line : split(head, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = lowercase(std::string(line.substr(0, colon)));
    const std::string_view value = trim(line.substr(colon + 1));
    if (name == "content-length") left_ = number_of(value, 10), state_ = State::sized;
    if (name == "transfer-encoding" && lowercase(std::string(value)) == "chunked") {
      state_ = State::chunk_size;
      break;
    }
  }
  return true;
}

bool ReplyReader::next_event(std::string& data) {
  const size_t end = body_.find("\n\n");
  if (end == std::string::npos) return false;
  data.clear();
  for (std::string_view line : split(std::string_view(body_).substr(0, end), '\n')) {
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (!data.empty()) data += '\n';
    data += line.starts_with(' ') ? line.substr(1) : line;
  }
  body_.erase(0, end + 2);
  return true;
}

}  // namespace tern
