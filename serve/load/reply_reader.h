#pragma once
// Reads an HTTP/1.1 reply as it comes over a socket, and the server-sent events in its body.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// Takes the bytes of a reply in pieces of any size. Source: RFC 9112, sections 6 and 7.1 (recalled).
class ReplyReader {
 public:
  /// Errors: bad_file: the bytes are no HTTP/1.1 reply.
  void take(std::string_view bytes);
  /// Called when the server has closed its side. Errors: bad_file: the reply is not complete.
  void close();
  int status() const { return status_; }  // 0: it has not come yet
  bool done() const { return state_ == State::done; }
  /// The part of the body that has come and that the caller has not removed, without the frames of chunks.
  std::string& body() { return body_; }
  /// Removes the next whole server-sent event from the front of the body, and gives its data. False: no event is whole yet.
  bool next_event(std::string& data);

 private:
  enum class State : uint8_t { head, sized, until_closed, chunk_size, chunk, chunk_end, trailer, done };
  bool take_head();
  bool take_line(std::string_view& line);
  bool advance();

  State state_ = State::head;
  int status_ = 0;
  int64_t left_ = 0;  // bytes of the body, or of the chunk
  std::string raw_, body_;
  size_t read_ = 0;  // of raw_
};

}  // namespace tern
