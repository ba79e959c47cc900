// The chat page in a real browser: headless Chromium, told what to do through chromedriver (the WebDriver protocol).
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "serve/client_testing.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ::close(fd);
  return ntohs(at.sin_port);
}

// Asks until `true_now` or a time has passed.
template <class Condition>
bool within(double seconds, Condition true_now) {
  const int64_t begin_ns = real_clock().now_ns();
  while (!true_now()) {
    if (seconds_between(begin_ns, real_clock().now_ns()) > seconds) return false;
    ::usleep(10'000);
  }
  return true;
}

// One page in one browser.
class Browser {
 public:
  Browser(const std::string& root) : port_(free_port()), driver_(driver_command(root), root + "/driver") {
    within(20, [&] { return ask("GET", "/status").value("ready", false); });
    const Json options = {{"args",
                           {"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                            "--window-size=900,700", "--user-data-dir=" + root + "/profile"}}};
    const Json made = ask("POST", "/session", {{"capabilities", {{"alwaysMatch", {{"goog:chromeOptions", options}}}}}});
    if (made.contains("sessionId")) session_ = "/session/" + made["sessionId"].get<std::string>();
  }
  ~Browser() {
    if (is_open()) ask("DELETE", session_);
    driver_.signal(SIGTERM);
    driver_.wait();
  }
  bool is_open() const { return !session_.empty(); }
  void go(const std::string& url) { ask("POST", session_ + "/url", {{"url", url}}); }
  void type(const std::string& where, const std::string& text) {
    ask("POST", element(where) + "/value", {{"text", text}});
  }
  void click(const std::string& where) { ask("POST", element(where) + "/click", Json::object()); }
  // What the page's own script makes of an expression.
  Json value(const std::string& expression) {
    return ask("POST", session_ + "/execute/sync", {{"script", "return " + expression}, {"args", Json::array()}});
  }
  // The text of the last element of that kind.
  std::string text(const std::string& where) {
    const Json found = value("[...document.querySelectorAll('" + where + "')].map(e => e.textContent).pop() || ''");
    return found.is_string() ? found.get<std::string>() : "";
  }
  void keep_picture(const std::string& file) {
    const Json picture = ask("GET", session_ + "/screenshot");
    write_file_atomically(real_io(), file + ".base64", picture.get<std::string>());
    run_shell("base64 -d " + file + ".base64 > " + file + "; rm " + file + ".base64");
  }

 private:
  std::vector<std::string> driver_command(const std::string& root) const {
    return {"/bin/sh", "-c",
            "HOME=" + root + " exec chromedriver --port=" + std::to_string(port_) + " >" + root + "/driver_out"};
  }
  Json ask(const std::string& method, const std::string& path, const Json& body = nullptr) {
    const ClientReply r = Client(port_).ask(method, path, body.is_null() ? "" : dump_json(body));
    return r.body.empty() ? Json::object() : r.json().value("value", Json());
  }
  std::string element(const std::string& where) {
    const Json found = ask("POST", session_ + "/element", {{"using", "css selector"}, {"value", where}});
    EXPECT_EQ(found.size(), 1u) << where << ": " << found;
    return session_ + "/element/" + (found.empty() ? "none" : found.begin()->get<std::string>());
  }
  uint16_t port_;
  Child driver_;
  std::string session_;
};

class ChatPage : public InFolder<ChatPage> {
 protected:
  static void SetUpTestSuite() { make_root("chat-page"); }
};

TEST_F(ChatPage, AnswersAreStreamedStoppedAndRefusedInABrowser) {
  if (run_shell("command -v chromedriver").code != 0)
    GTEST_SKIP() << "no chromedriver on this machine (Debian: chromium-driver): the page is not tried in a browser";
  write("template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const uint16_t port = free_port();
  Child server({TERN_PROGRAM, "serve", kNovels, "--port", std::to_string(port), "--chat-template",
                root_ + "/template.jinja", "--model-name", "tales"},
               root_ + "/log");
  ASSERT_TRUE(within(30, [&] { return Client(port).ask("GET", "/ready").status == 200; }))
      << real_io().read(root_ + "/log");
  Browser browser(root_);
  if (!browser.is_open()) GTEST_SKIP() << "Chromium does not start here: " << real_io().read(root_ + "/driver_out");
  browser.go("http://127.0.0.1:" + std::to_string(port) + "/");
  ASSERT_TRUE(within(10, [&] { return browser.text("#model") == "tales"; })) << browser.text("#model");

  // From a stop the server runs for 20 ms at a time: an answer does not end before this machine, however busy, has looked at it.
  const auto run_a_little = [&] {
    server.signal(SIGCONT);
    ::usleep(20'000);
    server.signal(SIGSTOP);
  };
  // Typed, sent, and seen as it is written.
  browser.value("document.querySelector('details').open = true");
  browser.type("#seed", "3");
  browser.type("#max_tokens", "300");
  browser.type("#text", "The old man looked at the sea, and");
  server.signal(SIGSTOP);
  browser.click("#send");
  std::vector<size_t> lengths = {0};
  EXPECT_TRUE(within(60, [&] {
    run_a_little();
    const size_t now = browser.text(".assistant").size();
    if (now > lengths.back()) lengths.push_back(now);
    return lengths.size() > 5 || !browser.text(".figures").empty();
  }));
  EXPECT_GT(lengths.size(), 5u) << "all at once";
  server.signal(SIGCONT);
  EXPECT_TRUE(within(60, [&] { return !browser.text(".figures").empty(); }));
  EXPECT_NE(browser.text(".figures").find("300 tokens"), std::string::npos) << browser.text(".figures");
  const Json alone = Client(port)
                         .ask("POST", "/v1/chat/completions",
                              R"({"messages":[{"role":"user","content":"The old man looked at the sea, and"}],
"seed":3,"max_tokens":300})")
                         .json();
  EXPECT_EQ(browser.text(".assistant"), alone["choices"][0]["message"]["content"]);
  if (const char* file = std::getenv("TERN_SCREENSHOT")) browser.keep_picture(file);

  // Stopped in the middle: the server hears of it.
  browser.click("#fresh");
  server.signal(SIGSTOP);
  browser.type("#text", "She went\n");  // Enter sends
  EXPECT_TRUE(within(20, [&] {
    run_a_little();
    return browser.text(".assistant").size() > 10;
  }));
  browser.click("#stop");
  EXPECT_TRUE(within(10, [&] { return browser.text(".figures").find("stopped") != std::string::npos; }));
  server.signal(SIGCONT);
  EXPECT_TRUE(within(5, [&] {
    const Json figures = Client(port).ask("GET", "/metrics.json").json();
    return figures["client_disconnects_total"] == 1 && figures["num_requests_live"] == 0;
  }));

  // A refusal is explained, and what was typed comes back.
  browser.value("document.querySelector('#max_tokens').value = 100000");
  browser.type("#text", "And then\n");
  EXPECT_TRUE(within(10, [&] { return !browser.text(".refusal").empty(); }));
  EXPECT_NE(browser.text(".refusal").find("the context holds 512"), std::string::npos) << browser.text(".refusal");
  EXPECT_NE(browser.text(".refusal").find("New begins an empty conversation"), std::string::npos);
  EXPECT_EQ(browser.value("document.querySelector('#text').value"), "And then");

  // The server goes: the page says so.
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  browser.click("#send");
  EXPECT_TRUE(within(10, [&] {
    return browser.text(".refusal").find("Is the server still running?") != std::string::npos;
  })) << browser.text(".refusal");
}

}  // namespace
}  // namespace tern
