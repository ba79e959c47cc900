#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json.h"
#include "base/process_memory.h"
#include "base/text.h"

namespace tern {
namespace {

// One list for both forms.
struct Figure {
  const char *name, *type, *help;
  double value;
};

double number(int64_t n) { return static_cast<double>(n); }

std::array<Figure, 2> figures_of_process(const Metrics& m) {
  return {{{"num_connections", "gauge", "open connections", number(m.connections)},
           {"process_resident_memory_bytes", "gauge", "resident memory of the process",
            number(read_process_memory().resident_bytes)}}};
}

std::vector<Figure> figures_of(const ModelMetrics& m) {
  const EngineFigures& e = m.engine;
  const auto share = [](int64_t part, int64_t whole) { return whole > 0 ? number(part) / number(whole) : 0.0; };
  return {{"num_requests_running", "gauge", "samples that have pages", number(e.running)},
          {"num_requests_waiting", "gauge", "samples and texts that wait", number(e.waiting + e.waiting_texts)},
          {"num_requests_live", "gauge", "HTTP requests that are being answered", number(m.live_requests)},
          {"kv_cache_usage_perc", "gauge", "share of the key-value pages that samples hold (1: all)",
           share(e.held_pages, e.pages)},
          {"kv_cache_cached_perc", "gauge",
           "share of the key-value pages that are kept for later prompts, those that samples hold included",
           share(e.cached_pages, e.pages)},
          {"prefix_cache_queries_total", "counter", "tokens looked up in the prefix cache", number(e.prefix_asked)},
          {"prefix_cache_hits_total", "counter", "tokens found there", number(e.prefix_found)},
          {"engine_steps_total", "counter", "batches run", number(e.steps)},
          {"prompt_tokens_total", "counter", "tokens of prompts computed", number(e.prompt_tokens)},
          {"num_preemptions_total", "counter", "times a sample gave its pages to an older one and was computed again",
           number(e.preemptions)},
          {"generation_tokens_total", "counter", "tokens written", number(e.generated_tokens)},
          {"spec_decode_num_draft_tokens_total", "counter", "guessed tokens that were computed",
           number(e.speculation.guessed)},
          {"spec_decode_num_accepted_tokens_total", "counter", "of them, those that were drawn",
           number(e.speculation.accepted)},
          {"spec_decode_speed_up", "gauge", "how many times as fast texts were written as without guesses (estimated)",
           e.speculation.speed_up()},
          {"client_disconnects_total", "counter", "requests whose client left before the end", number(m.gone)}};
}

struct NamedHistogram {
  const char *name, *help;
  const Histogram& histogram;
};
std::array<NamedHistogram, 3> histograms_of(const ModelMetrics& m) {
  return {{{"time_to_first_token_seconds", "from a request to its first token", m.first_token},
           {"inter_token_latency_seconds", "from a token of a sample to its next", m.between_tokens},
           {"e2e_request_latency_seconds", "from a request to the end of its answer", m.whole}}};
}

// A label's value: backslash, quote and line feed are escaped.
std::string label(const std::string& text) {
  return replace_all(replace_all(replace_all(text, "\\", "\\\\"), "\"", "\\\""), "\n", "\\n");
}

void add(EngineFigures& sum, const EngineFigures& e) {
  sum.running += e.running, sum.waiting += e.waiting, sum.waiting_texts += e.waiting_texts;
  sum.pages += e.pages, sum.cached_pages += e.cached_pages, sum.held_pages += e.held_pages;
  sum.prefix_asked += e.prefix_asked, sum.prefix_found += e.prefix_found;
  sum.steps += e.steps, sum.prompt_tokens += e.prompt_tokens, sum.generated_tokens += e.generated_tokens;
  sum.preemptions += e.preemptions;
  SpeculationFigures& s = sum.speculation;
  s.guessed += e.speculation.guessed, s.accepted += e.speculation.accepted;
  s.seconds += e.speculation.seconds, s.plain_seconds += e.speculation.plain_seconds;
}

ModelMetrics sum_of(std::span<const ModelMetrics> models) {
  ModelMetrics sum;
  for (const ModelMetrics& m : models) {
    sum.first_token.add(m.first_token), sum.between_tokens.add(m.between_tokens), sum.whole.add(m.whole);
    for (const auto& [reason, count] : m.ended) sum.ended[reason] += count;
    sum.gone += m.gone, sum.live_requests += m.live_requests;
    add(sum.engine, m.engine);
  }
  return sum;
}

Json json_of(const ModelMetrics& m) {
  Json json = Json::object();
  for (const Figure& f : figures_of(m)) json[f.name] = f.value;
  json["request_success_total"] = m.ended;
  for (const NamedHistogram& h : histograms_of(m)) {
    Json buckets = Json::array();
    for (size_t i = 0; i < Histogram::kBounds.size(); ++i)
      buckets.push_back({{"le", Histogram::kBounds[i]}, {"count", h.histogram.up_to(i)}});
    json[h.name] = {{"count", h.histogram.count()}, {"sum", h.histogram.sum()}, {"buckets", buckets}};
  }
  return json;
}

void write_histogram(std::string& out, const char* metric, const std::string& model, const Histogram& h) {
  for (size_t i = 0; i < Histogram::kBounds.size(); ++i)
    out += fmt::format("tern_{}_bucket{{model_name=\"{}\",le=\"{}\"}} {}\n", metric, model, Histogram::kBounds[i],
                       h.up_to(i));
  out += fmt::format(
      "tern_{0}_bucket{{model_name=\"{1}\",le=\"+Inf\"}} {2}\ntern_{0}_sum{{model_name=\"{1}\"}} "
      "{3}\ntern_{0}_count{{model_name=\"{1}\"}} {2}\n",
      metric, model, h.count(), h.sum());
}

}  // namespace

void Histogram::add(double seconds) {
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  if (at != kBounds.end()) ++buckets_[static_cast<size_t>(at - kBounds.begin())];
  sum_ += seconds;
  ++count_;
}

void Histogram::add(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  sum_ += other.sum_;
  count_ += other.count_;
}

int64_t Histogram::up_to(size_t i) const {
  int64_t n = 0;
  for (size_t k = 0; k <= i; ++k) n += buckets_[k];
  return n;
}

// A metric is named once, and the models stand below it.
std::string prometheus_text(const Metrics& m) {
  std::string out;
  const auto head = [&](const char* metric, const char* type, const char* help) {
    out += fmt::format("# HELP tern_{0} {2}\n# TYPE tern_{0} {1}\n", metric, type, help);
  };
  for (const Figure& f : figures_of_process(m)) {
    head(f.name, f.type, f.help);
    out += fmt::format("tern_{} {}\n", f.name, f.value);
  }
  head("http_replies_total", "counter", "answers, by path and status");
  for (const auto& [key, count] : m.replies)
    out +=
        fmt::format("tern_http_replies_total{{path=\"{}\",status=\"{}\"}} {}\n", label(key.first), key.second, count);
  std::vector<std::string> names;
  std::vector<std::vector<Figure>> figures;
  for (const ModelMetrics& model : m.models) {
    names.push_back(label(model.name));
    figures.push_back(figures_of(model));
  }
  const std::vector<Figure> every = figures_of({});
  for (size_t k = 0; k < every.size(); ++k) {
    head(every[k].name, every[k].type, every[k].help);
    for (size_t i = 0; i < names.size(); ++i)
      out += fmt::format("tern_{}{{model_name=\"{}\"}} {}\n", every[k].name, names[i], figures[i][k].value);
  }
  head("request_success_total", "counter", "samples that ended, by reason");
  for (size_t i = 0; i < names.size(); ++i)
    for (const auto& [reason, count] : m.models[i].ended)
      out += fmt::format("tern_request_success_total{{model_name=\"{}\",finished_reason=\"{}\"}} {}\n", names[i],
                         reason, count);
  const ModelMetrics none;
  for (size_t k = 0; k < 3; ++k) {
    const NamedHistogram h = histograms_of(none)[k];
    head(h.name, "histogram", h.help);
    for (size_t i = 0; i < names.size(); ++i)
      write_histogram(out, h.name, names[i], histograms_of(m.models[i])[k].histogram);
  }
  return out;
}

std::string metrics_json(const Metrics& m) {
  Json json = json_of(sum_of(m.models));
  if (m.models.size() == 1) json["model"] = m.models[0].name;
  for (const Figure& f : figures_of_process(m)) json[f.name] = f.value;
  json["http_replies_total"] = Json::array();
  for (const auto& [key, count] : m.replies)
    json["http_replies_total"].push_back({{"path", key.first}, {"status", key.second}, {"count", count}});
  if (m.models.size() > 1)
    for (const ModelMetrics& model : m.models) {
      json["models"].push_back(json_of(model));
      json["models"].back()["model"] = model.name;
    }
  return dump_json(json);
}

}  // namespace tern
