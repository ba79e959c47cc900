#pragma once
// Tests only: an HTTP client on plain sockets, and a server in this process.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "infer/chat_prompt.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"
#include "serve/service.h"

namespace tern {

struct ClientReply {
  int status = 0;                              // 0: the server closed without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  Json json() const { return parse_json(body, "the reply"); }
};

/// One connection. Waits at most two minutes for a byte: a busy machine under a sanitizer is slow. receive_bytes: that the system keeps for it; 0: as it likes.
class Client {
 public:
  explicit Client(uint16_t port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET, at.sin_port = htons(port), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 120, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  static std::string request(std::string_view method, std::string_view path, std::string_view body,
                             const std::string& headers = "") {
    std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\n";
    if (headers.find("Host:") == std::string::npos) text += "Host: 127.0.0.1\r\n";
    return text + headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  ClientReply ask(std::string_view method, std::string_view path, std::string_view body = "",
                  const std::string& headers = "") {
    if (!send(request(method, path, body, headers))) return {};
    return read_reply(method == "HEAD");
  }
  /// The head, and the body where it has a length; of a stream the body is read by `piece`. `pause_us` between any two reads.
  ClientReply read_reply(bool no_body = false, int pause_us = 0) {
    ClientReply r;
    pause_us_ = pause_us;
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!fill()) return r;
    const std::vector<std::string_view> lines = split(std::string_view(buffer_).substr(0, end), '\n');
    r.status = std::atoi(std::string(lines[0].substr(9, 3)).c_str());
    for (size_t i = 1; i < lines.size(); ++i) {
      const size_t colon = lines[i].find(':');
      r.headers[lowercase(std::string(lines[i].substr(0, colon)))] = trim(lines[i].substr(colon + 1));
    }
    buffer_.erase(0, end + 4);
    if (no_body || r.headers.contains("transfer-encoding")) return r;
    const size_t length = r.headers.contains("content-length") ? std::stoul(r.headers["content-length"]) : 0;
    while (buffer_.size() < length)
      if (!fill()) break;
    r.body = buffer_.substr(0, length);
    buffer_.erase(0, std::min(length, buffer_.size()));
    return r;
  }
  /// The next chunk of a stream; none at its end, or if the connection broke.
  std::optional<std::string> piece() {
    size_t end;
    while ((end = buffer_.find("\r\n")) == std::string::npos)
      if (!fill()) return std::nullopt;
    const size_t length = std::stoul(buffer_.substr(0, end), nullptr, 16);
    while (buffer_.size() < end + 2 + length + 2)
      if (!fill()) return std::nullopt;
    std::string data = buffer_.substr(end + 2, length);
    buffer_.erase(0, end + 2 + length + 2);
    if (length == 0) return std::nullopt;
    return data;
  }
  std::string rest_of_stream() {
    std::string all;
    while (auto p = piece()) all += *p;
    return all;
  }

 private:
  bool fill() {
    if (pause_us_ > 0) ::usleep(static_cast<useconds_t>(pause_us_));
    char bytes[8192];
    const ssize_t n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  int socket_;
  bool connected_ = false;
  int pause_us_ = 0;
  std::string buffer_;
};

/// The data of server-sent events, [DONE] included.
inline std::vector<std::string> sse_data(const std::string& stream) {
  std::vector<std::string> all;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = std::min(stream.find("\n\n", at), stream.size());
    if (stream.compare(at, 6, "data: ") == 0) all.push_back(stream.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return all;
}

/// A served engine on any executor, run by a thread of its own.
class ServedRig {
 public:
  struct Setup {
    int64_t pages = 512, page_tokens = 16, chunk = 512, running = 16, queue = 256, context = 512, texts = 8192;
    int64_t answers_bytes = 64 << 20;
    int64_t grammars_bytes = 64 << 20;
    bool cache = true;
    SpeculationSettings speculation = {};
    double drain_s = 30;
    HttpLimits http = {};
    AccessRules access = {};
  };
  ServedRig(const ServedModel& model, const KvShape& shape, const BatchExecutor& execute, const Setup& s, Arena& arena,
            Embedder* embedder = nullptr)
      : pool(shape, s.pages, arena),
        engine(pool, execute, model.tokenizer,
               {{.token_budget = s.chunk + s.running, .chunk = s.chunk, .max_running = s.running},
                s.context,
                s.cache,
                s.speculation},
               real_clock()),
        service({.host = "127.0.0.1",
                 .port = 0,
                 .http = s.http,
                 .rules = {.access = s.access,
                           .max_running = s.running,
                           .max_queue = s.queue,
                           .answers_bytes = s.answers_bytes,
                           .grammars_bytes = s.grammars_bytes,
                           .max_texts = s.texts},
                 .drain_s = s.drain_s,
                 .version = "test"}),
        thread([this, driven = DrivenModel{&model, {&engine, embedder}}] {
          cut_off = service.run({&driven, 1}, stop);
        }) {
    Client client(service.port());
    while (client.ask("GET", "/health").status != 200) ::usleep(1000);
  }
  ~ServedRig() { end(); }
  void end() {
    stop = true;
    if (thread.joinable()) thread.join();
  }
  ClientReply ask(std::string_view method, std::string_view path, std::string_view body = "",
                  const std::string& headers = "") {
    return Client(service.port()).ask(method, path, body, headers);
  }
  /// A figure of /metrics.json, once it is as wanted, or after `seconds`.
  double figure(const char* name, double wanted, double seconds = 5) {
    Client client(service.port());
    const int64_t begin = real_clock().now_ns();
    for (;;) {
      const double value = client.ask("GET", "/metrics.json").json()[name];
      if (value == wanted || seconds_between(begin, real_clock().now_ns()) > seconds) return value;
      ::usleep(2000);
    }
  }

  KvPool pool;
  Engine engine;
  Service service;
  std::atomic<bool> stop = false;
  int64_t cut_off = -1;
  std::thread thread;
};

/// Three adapters of unlike ranks and modules with random numbers, written as PEFT directories: "one", "all", "last".
inline std::vector<std::pair<std::string, std::string>> random_adapters(const ModelSpec& base) {
  const PeftConfig configs[] = {{.targets = {.names = {"v_proj"}}, .rank = 5, .alpha = 8},
                                {.targets = {.all_linear = true}, .rank = 16, .alpha = 6, .rank_stabilized = true},
                                {.targets = {.names = {"down_proj", "o_proj"}}, .layers = {{1, 2}}, .rank = 2}};
  const char* names[] = {"one", "all", "last"};
  std::vector<std::pair<std::string, std::string>> written;
  for (size_t i = 0; i < 3; ++i) {
    const ModelSpec spec = with_adapters(base, configs[i], names[i]);
    Arena arena;
    ModelWeights weights = empty_weights(spec);
    for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
      t = arena.allocate(DType::f32, info.shape, MemoryClass::weights);
      for (int64_t k = 0; k < t.count(); ++k)
        t.span<float>()[static_cast<size_t>(k)] =
            0.1f * static_cast<float>(random_normal({hash_name(info.name), i}, static_cast<uint64_t>(k)));
    });
    written.emplace_back(names[i], testing::TempDir() + "adapter_" + names[i]);
    save_adapters(spec, configs[i], weights, written.back().second, real_io());
  }
  return written;
}

/// The model of the repository.
struct Novels {
  using Adapters = std::vector<std::pair<std::string, std::string>>;  // names and directories
  ModelDescription model;
  Arena arena;
  ModelWeights weights;
  RopeTable rope;
  ServedModel served;
  explicit Novels(const Adapters& adapters = {})
      : model(describe_model(source_dir() + "/examples/novels-6m", std::nullopt)),
        rope(rope_table(model.spec, 512, 512)) {
    for (const auto& [name, dir] : adapters) {
      take_adapter_beside(model, name, dir);
      served.adapters.push_back(name);
    }
    weights = load_for_inference(model, arena);
    served.name = "novels";
    served.tokenizer = &*model.tokenizer;
    served.vocab = model.spec.vocab, served.context = 512, served.width = model.spec.width;
    served.sampling.temperature = 1;
    served.ends = end_tokens(model);
    served.why_no_chat = "no template";
    served.longest_text = 64;
  }
  BatchExecutor executor() {
    return model_executor(model.spec, weights, &rope, arena, static_cast<int>(model.beside.size()));
  }
  KvShape shape(int64_t page_tokens = 16) const { return kv_shape(model.spec, page_tokens, model.dtype); }
};

}  // namespace tern
