#include "serve/server.h"
#include "serve/embeddings_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/exact_json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "infer/constrain/constraint.h"
#include "model/not_finite.h"

namespace tern {
namespace {

struct Endpoint {
  std::string_view path, method;
  bool open;  // without a key
};
constexpr Endpoint kEndpoints[] = {{"/", "GET", true},
                                   {"/health", "GET", true},
                                   {"/ready", "GET", true},
                                   {"/metrics", "GET", false},
                                   {"/metrics.json", "GET", false},
                                   {"/v1/models", "GET", false},
                                   {"/v1/chat/completions", "POST", false},
                                   {"/v1/completions", "POST", false},
                                   {"/v1/embeddings", "POST", false},
                                   {"/tokenize", "POST", false},
                                   {"/detokenize", "POST", false}};
constexpr std::string_view kModelPath = "/v1/models/";

const Endpoint* endpoint_of(std::string_view path) {
  if (path.starts_with(kModelPath) && path.size() > kModelPath.size()) path = "/v1/models";
  for (const Endpoint& e : kEndpoints)
    if (e.path == path) return &e;
  return nullptr;
}

HttpReply reply_of(const ApiError& e) {
  HttpReply r{.status = e.status, .body = error_body(e)};
  if (e.status == 401) r.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (e.status == 503) r.headers.emplace_back("Retry-After", "5");
  return r;
}

uint64_t random_number() {
  static std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

// 2^53: a seed that every JSON reader gives back as it was.
uint64_t fresh_seed() { return random_number() >> 11; }

ApiError error_of(std::exception_ptr what) {
  try {
    std::rethrow_exception(what);
  } catch (const NotFinite& e) { return {500, e.what(), "", "not_finite"}; } catch (const Error& e) {
    return {e.kind() == ErrorKind::usage ? 400 : 500, e.what()};
  } catch (const std::bad_alloc&) {
    return {503, "the machine had no memory left for this batch; try again later"};
  } catch (const std::exception& e) {
    return {500, fmt::format("{}; this is a bug in tern, please report it", e.what())};
  }
}

}  // namespace

Server::Server(const ServerRules& rules, const Clock& clock, std::string version)
    : rules_(rules), clock_(clock), version_(std::move(version)) {}

void Server::ready(std::vector<const ServedModel*> models, EngineLoop& loop) {
  models_ = std::move(models), loop_ = &loop;
  for (const ServedModel* model : models_) metrics_.models.emplace_back().name = model->name;
  live_samples_.resize(models_.size());
}

std::vector<std::pair<std::string, std::string>> Server::cors(const std::string& origin) const {
  if (origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", origin}, {"Vary", "Origin"}};
}

HttpReply Server::reply(HttpReply r, const HttpRequest& request) {
  const Endpoint* e = endpoint_of(request.path);
  ++metrics_.replies[{e ? std::string(e->path) : "other", r.status}];
  if (r.status != 403)
    for (auto& header : cors(request.origin)) r.headers.push_back(std::move(header));
  return r;
}

HttpReply Server::fault(int status, std::string_view message) {
  ++metrics_.replies[{"other", status}];
  return reply_of(ApiError(status, std::string(message)));
}

// In the order in which less is told to whom it is not meant for.
std::optional<HttpReply> Server::refuse(const HttpRequest& request) try {
  const Endpoint* e = endpoint_of(request.path);
  // Browsers always say a Host; probes of load balancers may not, and see only what anybody may.
  const bool probes = request.host.empty() && e && e->open;
  if (!probes && !host_is_known(rules_.access, request.host))
    throw ApiError(403,
                   fmt::format("Host: {}: this server is not known by that name; --allow-host gives it one",
                               make_printable(request.host.substr(0, 80))),
                   "", "host_not_allowed");
  if (!origin_is_known(rules_.access, request.origin, request.host))
    throw ApiError(403,
                   fmt::format("Origin: {}: its pages may not ask here; --allow-origin lets them",
                               make_printable(request.origin.substr(0, 80))),
                   "", "origin_not_allowed");
  if (request.method == "OPTIONS" && !request.asked_method.empty()) {
    HttpReply r{.status = 204, .type = ""};
    r.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                 {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
                 {"Access-Control-Max-Age", "600"}};
    return reply(std::move(r), request);
  }
  if ((!e || !e->open) && !key_is_known(rules_.access, request.authorization))
    throw ApiError(401,
                   request.authorization.empty() ? "this server wants a key: Authorization: Bearer KEY"
                                                 : "the key is not one of this server's",
                   "", "invalid_api_key");
  if (!e)
    throw ApiError(
        404,
        fmt::format("there is no {}; docs/serve.md lists what there is", make_printable(request.path.substr(0, 80))),
        "", "not_found");
  if (request.method != e->method && !(request.method == "HEAD" && e->method == "GET")) {
    HttpReply r = reply_of(ApiError(
        405, fmt::format("{} takes {}, not {}", e->path, e->method, make_printable(request.method.substr(0, 20)))));
    r.headers.emplace_back("Allow", e->method);
    return reply(std::move(r), request);
  }
  if (e->method == "POST" && draining_)
    throw ApiError(503, "the server is ending; ask another one", "", "shutting_down");
  if (e->method == "POST" && models_.empty())
    throw ApiError(503, "the model is being loaded; try again in a moment", "", "loading");
  return std::nullopt;
} catch (const ApiError& e) { return reply(reply_of(e), request); }

HttpReply Server::health() const {
  if (models_.empty()) return {.status = 503, .body = "{\"status\":\"loading\"}", .headers = {{"Retry-After", "2"}}};
  return {.status = 200, .body = "{\"status\":\"ok\"}"};
}

Json Server::model_json(const ServedModel& model, int adapter) const {
  Json json = {{"id", model.name_of(adapter)},
               {"object", "model"},
               {"created", model.created_s},
               {"owned_by", "tern"},
               {"parent", nullptr},
               {"max_model_len", model.context},
               {"chat", model.chat != nullptr},
               {"completions", model.writes},
               {"embeddings", adapter == kNoAdapter && model.longest_text > 0}};
  if (adapter != kNoAdapter) json["parent"] = model.name;
  return json;
}

Json Server::models() const {
  Json data = Json::array();
  for (const ServedModel* model : models_)
    for (int adapter = kNoAdapter; adapter < static_cast<int>(model->adapters.size()); ++adapter)
      data.push_back(model_json(*model, adapter));
  return {{"object", "list"}, {"data", std::move(data)}};
}

HttpReply Server::reply_at_once(const HttpRequest& request) {
  if (request.path == "/")
    return {
        .type = "text/html; charset=utf-8",
        .body = std::string(chat_page()),
        .headers = {{"Content-Security-Policy",
                     "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                     "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"}}};
  if (request.path == "/health") return health();
  if (request.path == "/ready") {
    if (draining_) return {.status = 503, .body = "{\"status\":\"ending\"}"};
    return health();
  }
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = prometheus_text(metrics_)};
  if (request.path == "/metrics.json") return {.body = metrics_json(metrics_)};
  if (models_.empty()) throw ApiError(503, "the model is being loaded; try again in a moment", "", "loading");
  if (request.path == "/v1/models") return {.body = dump_json(models())};
  const CalledModel called = model_called(models_, request.path.substr(kModelPath.size()));
  return {.body = dump_json(model_json(*models_[called.model], called.adapter))};
}

void Server::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) try {
  const bool posts = endpoint_of(request.path)->method == "POST";
  if (!posts) return exchange->reply(reply(reply_at_once(request), request));
  Json body;
  try {
    body = parse_exact_json(request.body, "the request body", {.max_bytes = request.body.size() + 1, .max_depth = 64});
  } catch (const Error& e) { throw ApiError(400, e.what(), "", "invalid_json"); }
  request.body = {};
  const size_t model = model_asked(models_, body);
  if (request.path == "/tokenize")
    return exchange->reply(reply({.body = dump_json(tokenize_reply(body, *models_[model]))}, request));
  if (request.path == "/detokenize")
    return exchange->reply(reply({.body = dump_json(detokenize_reply(body, *models_[model]))}, request));
  if (request.path == "/v1/embeddings") return embed(model, request, body, exchange);
  complete(model, request, body, exchange, request.path == "/v1/chat/completions");
} catch (const ApiError& e) {
  HttpReply r = reply_of(e);
  if (e.status == 429) r.headers.emplace_back("Retry-After", std::to_string(seconds_to_wait()));
  exchange->reply(reply(std::move(r), request));
} catch (const std::exception&) { exchange->reply(reply(reply_of(error_of(std::current_exception())), request)); }

// Half of those before a new request are through after as many rounds of answers; how long one takes, those so far tell.
int64_t Server::seconds_to_wait() const {
  double answers = 0, seconds = 0, live = 0;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Histogram& whole = metrics_.models[i].whole;
    answers += static_cast<double>(whole.count()), seconds += whole.sum();
    live += static_cast<double>(live_samples_[i]);
  }
  const double each = answers > 0 ? seconds / answers : 1;
  const double rounds = live / static_cast<double>(std::max<int64_t>(rules_.max_running, 1) * std::ssize(models_)) / 2;
  return static_cast<int64_t>(std::clamp(std::ceil(each * rounds), 1.0, 60.0));
}

void Server::make_room_for_texts(int64_t texts) const {
  if (texts > rules_.max_texts)
    throw ApiError(400, fmt::format("input: {} texts at once, this server takes {}", texts, rules_.max_texts), "input");
  if (live_texts_ + texts <= rules_.max_texts) return;
  throw ApiError(429,
                 fmt::format("the queue is full: {} texts wait for their vectors, {} are taken; try again later",
                             live_texts_, rules_.max_texts),
                 "", "queue_full");
}

void Server::make_room_for_answer(int64_t bytes) const {
  if (bytes > rules_.answers_bytes)
    throw ApiError(400,
                   fmt::format("max_tokens: the whole answer may take {} with what is asked of each token, this server "
                               "holds {} of answers; ask for fewer tokens, samples or logprobs, or for a stream",
                               format_bytes(bytes), format_bytes(rules_.answers_bytes)),
                   "max_tokens");
  if (live_bytes_ + bytes <= rules_.answers_bytes) return;
  throw ApiError(
      429,
      fmt::format("whole answers under way may take {} of {}, and this one {}; try again later, or ask for a "
                  "stream",
                  format_bytes(live_bytes_), format_bytes(rules_.answers_bytes), format_bytes(bytes)),
      "", "queue_full");
}

void Server::make_room_for_grammar(int64_t bytes) const {
  if (bytes > rules_.grammars_bytes)
    throw ApiError(400, fmt::format("the grammar of the answer takes {}, this server holds {} of grammars; make its "
                                    "repetitions smaller",
                                    format_bytes(bytes), format_bytes(rules_.grammars_bytes)));
  if (live_grammar_bytes_ + bytes <= rules_.grammars_bytes) return;
  throw ApiError(
      429,
      fmt::format("grammars and schemas under way take {} of {}, and this one {}; try again later",
                  format_bytes(live_grammar_bytes_), format_bytes(rules_.grammars_bytes), format_bytes(bytes)),
      "", "queue_full");
}

void Server::make_room(size_t model, int64_t samples, const char* field) const {
  const int64_t most = rules_.max_running + rules_.max_queue;
  if (samples > most)
    throw ApiError(
        400, fmt::format("{}: {} at once, this server takes {} (--max-running and --max-queue)", field, samples, most),
        field);
  if (live_samples_[model] + samples <= most) return;
  throw ApiError(429,
                 fmt::format("the queue is full: {} are under way or wait, {} are taken (--max-queue); try again later",
                             live_samples_[model], most),
                 "", "queue_full");
}

uint64_t Server::open(Live live, uint64_t tickets) {
  const uint64_t id = next_live_++;
  live.first_ticket = next_ticket_, live.num_tickets = tickets;
  for (size_t i = 0; i < tickets; ++i) tickets_[next_ticket_++] = {id, i};
  live.begin_ns = clock_.now_ns();
  live_samples_[live.model] += live.samples, live_bytes_ += live.bytes;
  live_grammar_bytes_ += live.grammar_bytes;
  live_texts_ += static_cast<int64_t>(live.vectors.size());
  ModelMetrics& metrics = metrics_.models[live.model];
  live.exchange->on_gone = [this, id, &metrics] {
    ++metrics.gone;
    cancel(id);
  };
  ++metrics.live_requests;
  live_.emplace(id, std::move(live));
  return id;
}

void Server::close(uint64_t id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const Live& live = found->second;
  live.exchange->on_gone = {};
  for (uint64_t t = live.first_ticket; t < live.first_ticket + live.num_tickets; ++t) tickets_.erase(t);
  live_samples_[live.model] -= live.samples, live_bytes_ -= live.bytes;
  live_grammar_bytes_ -= live.grammar_bytes;
  live_texts_ -= static_cast<int64_t>(live.vectors.size());
  --metrics_.models[live.model].live_requests;
  live_.erase(found);
}

void Server::cancel(uint64_t id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const Live& live = found->second;
  for (uint64_t t = live.first_ticket; t < live.first_ticket + live.num_tickets; ++t) loop_->cancel(t, live.model);
  close(id);
}

void Server::complete(size_t model, const HttpRequest& request, const Json& body, std::shared_ptr<Exchange> exchange,
                      bool chat) {
  const ServedModel& served = *models_[model];
  Asked asked = chat ? read_chat(body, served, fresh_seed()) : read_completion(body, served, fresh_seed());
  make_room(model, asked.num_samples(), "n");
  Live live;
  live.model = model;
  live.bytes = answer_bytes(asked);
  make_room_for_answer(live.bytes);
  if (const auto& constraint = asked.prompts[0].constraint) live.grammar_bytes = constraint->grammar_bytes();
  make_room_for_grammar(live.grammar_bytes);
  std::vector<Request> prompts = asked.prompts;
  live.samples = asked.num_samples();
  live.last_ns.resize(static_cast<size_t>(live.samples));
  live.path = request.path, live.origin = request.origin;
  live.exchange = exchange;
  const bool stream = asked.stream;
  auto headers = cors(request.origin);
  headers.emplace_back("X-Tern-Seed", std::to_string(static_cast<int64_t>(asked.seed)));
  live.answer.emplace(std::move(asked), served, fmt::format("{}-{:016x}", chat ? "chatcmpl" : "cmpl", random_number()),
                      clock_.wall_ns() / 1'000'000'000);
  const uint64_t id = open(std::move(live), prompts.size());
  if (stream) {
    ++metrics_.replies[{request.path, 200}];
    exchange->begin_stream(std::move(headers));
  }
  const uint64_t first = live_.at(id).first_ticket;
  for (size_t i = 0; i < prompts.size(); ++i) loop_->submit(first + i, model, std::move(prompts[i]));
}

void Server::embed(size_t model, const HttpRequest& request, const Json& body, std::shared_ptr<Exchange> exchange) {
  Live live;
  live.model = model;
  live.vectors_asked = read_embeddings(body, *models_[model]);
  std::vector<std::vector<int32_t>> texts = std::move(live.vectors_asked.texts);
  make_room_for_texts(static_cast<int64_t>(texts.size()));
  live.vectors.resize(texts.size());
  live.vectors_left = texts.size();
  live.path = request.path, live.origin = request.origin;
  live.exchange = std::move(exchange);
  const uint64_t first = live_.at(open(std::move(live), texts.size())).first_ticket;
  for (size_t i = 0; i < texts.size(); ++i) loop_->embed(first + i, model, std::move(texts[i]));
}

void Server::fail(uint64_t id, const ApiError& e) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  Live& live = found->second;
  const std::shared_ptr<Exchange> exchange = live.exchange;
  const bool streams = live.answer && live.answer->asked().stream;
  HttpReply r = reply_of(e);
  for (auto& header : cors(live.origin)) r.headers.push_back(std::move(header));
  if (!streams) ++metrics_.replies[{live.path, e.status}];
  cancel(id);
  if (!streams) return exchange->reply(std::move(r));
  exchange->send("data: " + r.body + "\n\n");
  exchange->end();
}

void Server::abort(std::string_view why) {
  std::vector<uint64_t> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const uint64_t id : ids) fail(id, ApiError(503, std::string(why), "", "shutting_down"));
}

void Server::count_token(Live& live, size_t sample) {
  const int64_t now = clock_.now_ns();
  ModelMetrics& metrics = metrics_.models[live.model];
  if (!live.has_first) metrics.first_token.add(seconds_between(live.begin_ns, now));
  live.has_first = true;
  if (live.last_ns[sample] != 0) metrics.between_tokens.add(seconds_between(live.last_ns[sample], now));
  live.last_ns[sample] = now;
}

void Server::take_event(const Ticket& ticket, const Event& event) {
  Live& live = live_.at(ticket.live);
  Answer& answer = *live.answer;
  ModelMetrics& metrics = metrics_.models[live.model];
  if (event.finished) {
    ++metrics.ended[std::string(name_of(event.finished->reason))];
    if (event.finished->error) return fail(ticket.live, error_of(event.finished->error));
  }
  const auto n = static_cast<size_t>(answer.asked().prompts[0].num_samples);
  if (event.drawn) count_token(live, ticket.index * n + static_cast<size_t>(event.sample));
  const std::string piece = answer.take(ticket.index, event);
  const std::shared_ptr<Exchange> exchange = live.exchange;
  if (answer.complete()) {
    metrics.whole.add(seconds_between(live.begin_ns, clock_.now_ns()));
    if (answer.asked().stream) {
      const std::string end = piece + answer.stream_end();
      close(ticket.live);
      exchange->send(end);
      return exchange->end();
    }
    HttpReply r{.body = answer.whole()};
    r.headers = cors(live.origin);
    r.headers.emplace_back("X-Tern-Seed", std::to_string(static_cast<int64_t>(answer.asked().seed)));
    ++metrics_.replies[{live.path, 200}];
    close(ticket.live);
    return exchange->reply(std::move(r));
  }
  if (!piece.empty()) exchange->send(piece);
}

void Server::take_vector(const Ticket& ticket, EmbeddingEvent& event) {
  if (event.error) return fail(ticket.live, error_of(event.error));
  Live& live = live_.at(ticket.live);
  live.vectors[ticket.index] = std::move(event.vector);
  if (--live.vectors_left > 0) return;
  metrics_.models[live.model].whole.add(seconds_between(live.begin_ns, clock_.now_ns()));
  HttpReply r{.body = embeddings_reply(live.vectors_asked, live.vectors, *models_[live.model]),
              .headers = cors(live.origin)};
  ++metrics_.replies[{live.path, 200}];
  const std::shared_ptr<Exchange> exchange = live.exchange;
  close(ticket.live);
  exchange->reply(std::move(r));
}

bool Server::awaits_first(uint64_t ticket) const {
  const auto found = tickets_.find(ticket);
  return found != tickets_.end() && !live_.at(found->second.live).has_first;
}

void Server::take(LoopReport report) {
  for (size_t i = 0; i < report.figures.size(); ++i) metrics_.models[i].engine = report.figures[i];
  // Who waits for a first token has waited longest, and there may be hundreds of other tokens.
  std::vector<LoopEvent*> in_turn, others;
  for (LoopEvent& event : report.events) (awaits_first(event.ticket) ? in_turn : others).push_back(&event);
  in_turn.insert(in_turn.end(), others.begin(), others.end());
  for (LoopEvent* event : in_turn) {
    const auto found = tickets_.find(event->ticket);
    if (found == tickets_.end()) continue;  // its client has gone
    const Ticket ticket = found->second;
    try {
      take_one(ticket, *event);
    } catch (const std::exception&) { fail(ticket.live, error_of(std::current_exception())); }
  }
}

void Server::take_one(const Ticket& ticket, LoopEvent& event) {
  if (auto* drawn = std::get_if<Event>(&event.what))
    take_event(ticket, *drawn);
  else if (auto* vector = std::get_if<EmbeddingEvent>(&event.what))
    take_vector(ticket, *vector);
  else
    fail(ticket.live, error_of(std::get<std::exception_ptr>(event.what)));
}

}  // namespace tern
