#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "infer/load.h"

namespace tern {

int apply_threads(const Options& options) {
  return set_compute_threads(options.has("threads") ? static_cast<int>(options.integer("threads")) : 0);
}

std::optional<DType> dtype_option(const Options& options) {
  if (!options.has("dtype")) return std::nullopt;
  return dtype_from_name(options.text("dtype"));
}

MemoryBudget memory_budget(const Options& options) {
  if (options.has("memory")) return {options.integer("memory"), "--memory"};
  return {read_memory_facts().available_bytes, "free on this machine"};
}

void tell_notes(const ModelDescription& model) {
  for (const std::string& note : model.notes) log_info("{}", note);
}

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::bad_file, "{}: cannot be read; is the path right?", path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw Error(ErrorKind::bad_file, "{}: reading stopped half-way; is it a regular file?", path);
  return text;
}

void tell_invalid_utf8(std::string_view text) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
    log_info("byte {} of the text is not UTF-8; such bytes are read as U+FFFD", bad);
}

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorKind::does_not_fit, "standard output cannot be written; is the disk full or the reader gone?");
}

void print_json(const Json& json) { print_out(dump_json(json, 2) + "\n"); }

}  // namespace tern
