#include "train/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/io.h"
#include "base/mapped_file.h"
#include "base/units.h"
#include "formats/chat/template_files.h"
#include "formats/chat/training.h"
#include "formats/data/data_files.h"
#include "formats/data/mixture.h"
#include "formats/data/pack.h"
#include "formats/safetensors/index.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/coded_base.h"
#include "model/model_files.h"
#include "model/saved_modules.h"
#include "model/taken_factors.h"
#include "model/visit_weights.h"
#include "spec/presets.h"
#include "train/adapter_targets.h"

namespace tern {
namespace {

std::optional<Tokenizer> choose_tokenizer(const TrainSettings& s, TrainInputs& in) {
  const bool own = in.dir.has_tokenizer();
  if (!own && s.tokenizer.empty()) return {};
  if (!own) return Tokenizer::load(s.tokenizer);
  Tokenizer tokenizer = Tokenizer::load(in.dir.path);
  if (!s.tokenizer.empty() && Tokenizer::load(s.tokenizer).hash() != tokenizer.hash()) {
    if (!s.from_scratch || !in.dir.bare_config)
      throw Error(
          ErrorKind::usage,
          "--tokenizer: {} is another tokenizer than the one in {}, which the model knows; leave --tokenizer out",
          s.tokenizer, in.dir.path);
    in.notes.push_back(fmt::format("--tokenizer {} is used, not the one beside {}", s.tokenizer, in.dir.config));
    return Tokenizer::load(s.tokenizer);
  }
  return tokenizer;
}

void check_lengths(const TrainSettings& s, const TrainInputs& in) {
  const int64_t positions = in.spec.embed().positions;
  if (positions > 0 && s.context && *s.context != positions && !s.from_scratch)
    throw Error(ErrorKind::usage, "--context: {}, the model has {} learned positions, which are weights; leave it out",
                *s.context, positions);
  if (positions > 0 && s.seq > positions)
    throw Error(ErrorKind::usage, "--seq: {} tokens, the model has {} learned positions; choose at most that", s.seq,
                positions);
  if (s.seq > in.spec.context)
    throw Error(
        ErrorKind::usage,
        "--seq: {} tokens, the model declares {} (max_position_embeddings{}); say --seq {} or less, or --context "
        "{} to make it a model for longer sequences",
        s.seq, in.spec.context, s.context ? " by --context" : fmt::format(" in {}", in.dir.config), in.spec.context,
        s.seq);
}

void tell_dropout(TrainInputs& in) {
  const HfConfig& c = in.config;
  if (c.attention_dropout > 0 || c.residual_dropout > 0 || c.embedding_dropout > 0)
    in.notes.push_back(
        fmt::format("{}: dropout (attention {}, residual {}, embedding {}) is not followed: tern trains without",
                    in.dir.config, c.attention_dropout, c.residual_dropout, c.embedding_dropout));
}

TokenData open_without_tokenizer(const TrainSettings& s, const std::string& data) {
  if (!data.ends_with(".safetensors") && !is_token_file(data))
    throw Error(ErrorKind::usage, "{} has no tokenizer to read {} with; give --tokenizer DIR", s.model, data);
  try {
    return TokenData::open(data);
  } catch (const Error& e) {
    throw Error(ErrorKind::usage, "{} has no tokenizer, and {} is no token file ({}); give --tokenizer DIR", s.model,
                data, e.what());
  }
}

// A new model ends texts as its tokenizer does; one with weights keeps what it was trained with.
void adopt_special_tokens(TrainInputs& in) {
  if (!in.tokenizer) return;
  const auto adopt = [&](std::optional<int32_t> id) { return id && *id < in.spec.vocab; };
  if (adopt(in.tokenizer->bos())) in.config.bos_token_id = *in.tokenizer->bos();
  if (adopt(in.tokenizer->eos())) in.config.eos_token_ids = {*in.tokenizer->eos()};
}

// Of one file: the whole, or 256 stretches of 64 KiB from its beginning to its end.
uint32_t sampled_crc(const std::string& path, uint32_t crc) {
  constexpr size_t kStretch = size_t{64} << 10, kStretches = 256;
  const MappedFile file(path);
  if (file.size() <= kStretch * kStretches) return crc32c(file.bytes(), crc);
  for (size_t i = 0; i < kStretches; ++i) {
    const size_t begin = static_cast<size_t>(static_cast<double>(file.size() - kStretch) * static_cast<double>(i) /
                                             static_cast<double>(kStretches - 1));
    crc = crc32c(file.bytes().subspan(begin, kStretch), crc);
  }
  return crc;
}

// Of every file the weights lie in: an index says where tensors are, not what they are.
uint32_t weights_crc(const std::string& path) {
  uint32_t crc = sampled_crc(path, 0);
  if (!path.ends_with(".json")) return crc;
  std::set<std::string> shards;
  const SafetensorsIndex index = parse_safetensors_index(real_io().read(path), path);
  for (const auto& [tensor, file] : index.weight_map) shards.insert(file);
  for (const std::string& shard : shards) crc = sampled_crc(join_path(parent_path(path), shard), crc);
  return crc;
}

ModelSpec adapted(ModelSpec spec, const AdapterSettings& adapter) {
  const PeftConfig& config = adapter.config;
  require_targets(spec, config);
  try {
    if (config.saved.empty() || !adapter.begin.empty()) return with_adapters(std::move(spec), config, "--target");
    spec = with_adapters(std::move(spec), config, "--save-modules", AdapterParts::all);
    return with_saved_modules(std::move(spec), config, "--save-modules");
  } catch (const Error& e) { throw Error(ErrorKind::usage, "{}", e.what()); }
}

// Adapters that leave so many of their inputs out.
ModelSpec with_dropout(ModelSpec spec, double share) {
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.dropout = share;
  return spec;
}

// Adapters that read means of so many inputs, and whose outputs count for so many rows.
ModelSpec balanced(ModelSpec spec, const AdapterSettings& adapter) {
  const int64_t pool = adapter.pool, repeat = adapter.repeat;
  ModelWeights shapes = empty_weights(spec);
  const auto require = [&](const ParameterInfo& info, const char* option, int64_t n, std::string_view what,
                           int64_t group) {
    if (n % group != 0)
      throw Error(ErrorKind::usage,
                  "--{} {}: '{}' has {} {}, which are no whole groups of {}; choose another number, or others by "
                  "--target",
                  option, group, info.fragments.front().name, n, what, group);
  };
  for_each_linear(spec, shapes, [&](const ParameterInfo& info, const Linear& linear) {
    if (linear.branches.empty()) return;
    require(info, "pool", linear.in, "inputs", pool);
    for (const Branch& b : linear.branches) require(info, "repeat", b.row_end - b.row_begin, "outputs", repeat);
  });
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.pool = pool, a.repeat = repeat;
  return spec;
}

// A branch has at most as many directions as the shorter side of its part of the matrix.
void check_rank(const ModelSpec& spec, const AdapterSettings& adapter, TrainInputs& in) {
  if (!adapter.begin.empty()) return;  // it is as it is
  int64_t modules = 0, short_ones = 0, most = 0;
  std::string shortest;
  int64_t least = INT64_MAX;
  ModelWeights shapes = empty_weights(spec);
  for_each_linear(spec, shapes, [&](const ParameterInfo& info, const Linear& linear) {
    for (const Branch& b : linear.branches) {
      const int64_t side = std::min((b.row_end - b.row_begin) / adapter.repeat, linear.in / adapter.pool);
      ++modules, short_ones += side < b.rank, most = std::max(most, side);
      if (side < least) least = side, shortest = fmt::format("{} of '{}'", name_of(b.module), info.name);
    }
  });
  const int64_t rank = adapter.config.rank;
  if (short_ones == 0) return;
  if (short_ones == modules)
    throw Error(
        ErrorKind::usage,
        "--rank {}: the largest of the adapted matrices' shorter sides is {}, and B·A has no higher rank; choose at "
        "most {}",
        rank, most, most);
  in.notes.push_back(fmt::format(
      "--rank {}: {} of {} matrices with an adapter have fewer directions ({} has {}); there the rest is of no use",
      rank, short_ones, modules, shortest, least));
}

ModelSpec with_elastic_connections(ModelSpec spec) {
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.elastic = true;
  return spec;
}

std::string tell_stored(const TrainInputs& in) {
  int64_t bytes = 0, elements = 0;
  for (const Unit& unit : in.spec.units) bytes += unit.stored.bytes, elements += unit.stored.elements;
  return fmt::format("{}: matrices of {} numbers stay in codes, {}, which the adapter learns beside", in.dir.path,
                     format_count(static_cast<double>(elements)), format_bytes(bytes));
}

}  // namespace

TrainInputs load_inputs(const TrainSettings& s) {
  TrainInputs in;
  refuse_preset(s.model);
  in.dir = resolve_model(s.model, {.need_weights = false, .environment = {}});
  if (in.dir.weights.empty() && !s.from_scratch)
    throw Error(ErrorKind::usage,
                "{}: has no weights (model.safetensors); to train a new model from random weights say --from-scratch",
                s.model);
  if (!in.dir.weights.empty() && s.from_scratch)
    in.notes.push_back(fmt::format("--from-scratch: the weights in {} are NOT used", in.dir.weights));
  in.config = read_model_config(in.dir);
  if (s.context && *s.context != in.config.max_position_embeddings) {
    in.notes.push_back(fmt::format("--context: the model declares {} positions from now on, not {}", *s.context,
                                   in.config.max_position_embeddings));
    in.config.max_position_embeddings = *s.context;
  }
  in.spec = model_spec(in.config);
  if (!in.spec.predicts)
    throw Error(
        ErrorKind::usage,
        "train: an encoder ({}); tern trains by the next token, which it has not; masked words are not there yet",
        in.spec.family);
  if (s.adapter) {
    in.spec = balanced(adapted(std::move(in.spec), *s.adapter), *s.adapter);
    check_rank(in.spec, *s.adapter, in);
    if (s.adapter->elastic) in.spec = with_elastic_connections(std::move(in.spec));
    in.spec = with_stored_matrices(with_dropout(std::move(in.spec), s.adapter->config.dropout), in.dir.path, s.dtype);
  }
  if (has_stored_matrices(in.spec)) {
    if (s.adapter && takes_factors(s.adapter->init))
      throw Error(ErrorKind::usage,
                  "--init {}: takes a part of the weights away, and codes of {} stay as they lie; leave it out",
                  name_of(s.adapter->init), in.dir.path);
    in.notes.push_back(tell_stored(in));
  }
  in.notes.insert(in.notes.end(), in.dir.notes.begin(), in.dir.notes.end());
  if (!s.from_scratch)
    for (std::string& note : notes_on_weights(in.dir.path)) in.notes.push_back(std::move(note));
  in.notes.insert(in.notes.end(), in.config.notes.begin(), in.config.notes.end());
  in.config.predicting_layers = 0;  // they are not trained, and OUT/model does not have them
  in.tokenizer = choose_tokenizer(s, in);
  if (in.tokenizer && in.tokenizer->vocab_size() > in.spec.vocab)
    throw Error(
        ErrorKind::usage,
        "tokenizer: {} ids, the model's vocab_size is {}; make vocab_size at least {} in {}, or use another tokenizer",
        in.tokenizer->vocab_size(), in.spec.vocab, in.tokenizer->vocab_size(), in.dir.config);
  if (s.from_scratch && !in.dir.generation_config.empty()) {
    in.notes.push_back(
        fmt::format("{} is not copied to the new model: it describes other weights", in.dir.generation_config));
    in.dir.generation_config.clear();
  }
  if (s.from_scratch) adopt_special_tokens(in);
  in.config.dtype = s.dtype;
  in.chat_template = s.chat_template;
  if (!s.chat_template.empty() && !real_io().stat(s.chat_template))
    throw Error(ErrorKind::bad_file, "--chat-template: {} is not there; is the path right?", s.chat_template);
  check_lengths(s, in);
  tell_dropout(in);
  return in;
}

static bool learns_pairs(const TrainSettings& s) { return s.adapter && s.adapter->preference; }

void check_data_files(const TrainSettings& s, const TrainInputs& in) {
  for (const auto& [option, path] : {std::pair("--data", s.data), std::pair("--valid-data", s.valid_data)}) {
    if (path.empty()) continue;
    if (!real_io().stat(path))
      throw Error(ErrorKind::bad_file, "{}: {} is not there; is the path right?", option, path);
    std::error_code ignored;
    if (std::filesystem::is_other(path, ignored))
      throw Error(ErrorKind::bad_file, "{}: {} is a device or a pipe, not a file; write the text to a file first",
                  option, path);
    const std::vector<DataSource> sources = data_sources(path);
    if (sources.size() > 1 && option == std::string_view("--valid-data"))
      throw Error(ErrorKind::usage, "--valid-data: {} is a mixture; give one text, JSONL, token file or folder", path);
    if (sources.size() > 1 && learns_pairs(s))
      throw Error(ErrorKind::usage, "--data: {} is a mixture; --method dpo learns from one file of pairs", path);
    for (const DataSource& source : sources) {
      for (const std::string& file : data_files(source.path))
        if (const auto info = real_io().stat(file); source.path == file && info && info->size_bytes == 0)
          throw Error(ErrorKind::bad_file, "{}: {} is empty; give it a text", option, file);
      if (!in.tokenizer) open_without_tokenizer(s, source.path);
    }
  }
}

namespace {

// Tokens that were packed for other windows, or no pairs.
void require_pairs(const TokenData& tokens, int64_t seq, const std::string& data) {
  const std::span<const int64_t> begins = tokens.documents();
  bool fits =
      tokens.has_loss() && tokens.num_documents() % 2 == 1 && tokens.num_tokens() == begins[begins.size() - 2] + 1;
  for (size_t i = 0; fits && i + 1 < begins.size(); ++i) fits = begins[i] == static_cast<int64_t>(i) * seq;
  if (!fits)
    throw Error(ErrorKind::bad_file, "{}: no pairs of answers packed for --seq {}; give the JSONL file that has them",
                data, seq);
}

// Where templates are: --chat-template, MODEL, the directory of --tokenizer.
std::optional<ChatTraining> chat_of(const TrainSettings& s, const TrainInputs& in) {
  if (!in.tokenizer) return {};
  ChatTemplates templates = read_chat_templates(in.dir.path);
  if (templates.empty() && !s.tokenizer.empty()) templates = read_chat_templates(s.tokenizer);
  replace_chat_templates(templates, s.chat_template);
  if (templates.empty()) return {};
  return ChatTraining(std::move(templates), *in.tokenizer, learns_pairs(s) ? Answers::last : s.answers);
}

}  // namespace

static TokenData open_source(const TrainSettings& s, const TrainInputs& in, const std::string& path,
                             const std::string& cache_dir, const PackOptions& pack_options, Io& io) {
  TokenData tokens =
      in.tokenizer ? load_or_pack(path, *in.tokenizer, cache_dir, pack_options, io) : open_without_tokenizer(s, path);
  if (tokens.info().vocab_size > in.spec.vocab)
    throw Error(ErrorKind::usage,
                "{}: made for a vocabulary of {}, the model's is {}; use the tokenizer the model was made for", path,
                tokens.info().vocab_size, in.spec.vocab);
  if (learns_pairs(s)) require_pairs(tokens, s.seq, path);
  return tokens;
}

Feed open_feed(const TrainSettings& s, const TrainInputs& in, const std::string& data, const std::string& cache_dir,
               FeedConfig config, PackOptions pack_options, Io& io) {
  const std::vector<DataSource> named = data_sources(data);
  bool lines = false;
  for (const DataSource& source : named)
    for (const std::string& file : data_files(source.path)) lines |= is_jsonl(file);
  const std::optional<ChatTraining> chat = lines ? chat_of(s, in) : std::nullopt;
  pack_options.chat = chat ? &*chat : nullptr;
  pack_options.invalid_utf8 = s.invalid_utf8;
  if (learns_pairs(s)) pack_options.window = s.seq, config.together = 2;
  int64_t most_bytes = 0;  // of any source
  std::vector<Feed::Source> sources;
  for (const DataSource& source : named) {
    sources.push_back({.data = open_source(s, in, source.path, cache_dir, pack_options, io),
                       .share = source.share,
                       .place = source.path});
    if (pack_options.most_bytes) most_bytes = std::max(most_bytes, *pack_options.most_bytes);
  }
  if (pack_options.most_bytes) *pack_options.most_bytes = most_bytes;
  return Feed(std::move(sources), config);
}

namespace {

// Tokens and documents of one source, as the manifest says it.
std::string identity_of(const TokenData& data) {
  constexpr int64_t kAll = int64_t{64} << 20, kStretches = 1024, kStretch = kAll / kStretches;
  uint32_t crc = 0;
  std::vector<int32_t> ids;
  const auto add = [&](int64_t first, int64_t count) {
    ids.resize(static_cast<size_t>(count));
    data.read(first, ids);
    crc = crc32c(std::as_bytes(std::span(ids)), crc);
    data.let_go();
  };
  const int64_t n = data.num_tokens();
  if (n <= kAll) {
    for (int64_t first = 0; first < n; first += kStretch) add(first, std::min(kStretch, n - first));
  } else {
    for (int64_t i = 0; i < kStretches; ++i)
      add(static_cast<int64_t>(static_cast<__int128>(n - kStretch) * i / (kStretches - 1)), kStretch);
  }
  crc = crc32c(std::as_bytes(data.documents()), crc);
  return fmt::format("{} tokens, {} documents, CRC-32C {:08x}", n, data.num_documents(), crc);
}

}  // namespace

RunIdentity identify(const TrainSettings& s, const TrainInputs& in, const Feed& feed) {
  const std::vector<Feed::Source>& sources = feed.sources();
  std::string data = identity_of(sources.front().data);
  if (sources.size() > 1) {
    data.clear();
    for (const Feed::Source& source : sources)
      data += fmt::format("{}{} of {}: {}", data.empty() ? "" : "; ", source.of_block, kMixtureBlock,
                          identity_of(source.data));
  }
  HfConfig shape = in.config;
  shape.notes.clear();
  shape.dtype.reset();
  std::string model = fmt::format("config {:08x}", crc32c(hf_config_json(shape)));
  if (s.from_scratch) {
    model += ", from scratch";
  } else {
    model += fmt::format(", weights {} {:08x}", file_name(in.dir.weights), weights_crc(in.dir.weights));
  }
  return {.model = model,
          .tokenizer = in.tokenizer ? in.tokenizer->hash() : sources.front().data.info().tokenizer_hash,
          .data = std::move(data)};
}

}  // namespace tern
