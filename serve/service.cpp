#include "serve/service.h"

#include <algorithm>
#include <future>
#include <thread>

#include "base/clock.h"

namespace tern {

struct Service::Impl {
  explicit Impl(const ServiceSettings& s)
      : settings(s),
        server(s.rules, real_clock(), s.version),
        http(s.host, s.port, s.http,
             {.refuse = [this](const HttpRequest& r) { return server.refuse(r); },
              .handle =
                  [this](HttpRequest r, std::shared_ptr<Exchange> e) {
                    server.metrics().connections = http.num_connections();
                    server.handle(std::move(r), std::move(e));
                  },
              .fault = [this](int status, std::string_view message) { return server.fault(status, message); }}),
        io([this] { http.run(); }) {}
  ~Impl() {
    http.stop(0);
    io.join();
  }
  // On the I/O thread, waited for.
  template <class Task>
  auto ask(Task task) {
    std::promise<decltype(task())> answer;
    http.post([&] {
      try {
        answer.set_value(task());
      } catch (...) { answer.set_exception(std::current_exception()); }
    });
    return answer.get_future().get();
  }

  ServiceSettings settings;
  Server server;
  HttpServer http;
  std::thread io;
};

Service::Service(const ServiceSettings& settings) : impl_(std::make_unique<Impl>(settings)) {}
Service::~Service() = default;
uint16_t Service::port() const { return impl_->http.port(); }

int64_t Service::run(std::span<const DrivenModel> models, const std::atomic<bool>& stop,
                     const std::function<void()>& ready) {
  Impl& s = *impl_;
  std::vector<const ServedModel*> offers;
  std::vector<ModelDrive> drives;
  for (const DrivenModel& model : models) offers.push_back(model.offer), drives.push_back(model.drive);
  EngineLoop loop(drives, [&s](LoopReport report) {
    s.http.post([&s, held = std::make_shared<LoopReport>(std::move(report))] { s.server.take(std::move(*held)); });
  });
  s.ask([&] {
    s.server.ready(offers, loop);
    return 0;
  });
  if (ready) ready();
  int64_t end_ns = 0, looked_ns = 0, cut_off = 0;
  loop.run([&] {
    if (!stop) return true;
    const int64_t now = real_clock().now_ns();
    if (end_ns == 0) {
      end_ns = now + static_cast<int64_t>(s.settings.drain_s * 1e9);
      s.http.post([&s] { s.server.drain(); });
    }
    if (seconds_between(looked_ns, now) < 0.02) return true;
    looked_ns = now;
    if (s.ask([&] { return s.server.idle(); })) return false;
    return now < end_ns;
  });
  s.ask([&] {
    cut_off = s.server.num_live();
    s.server.abort("the server has ended");
    return 0;
  });
  s.http.stop(std::max(1.0, seconds_between(real_clock().now_ns(), end_ns)));
  s.io.join();
  s.io = std::thread([] {});
  return cut_off;
}

}  // namespace tern
