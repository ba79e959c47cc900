// The bytes of a .model file: as much of the protocol buffers' wire format as it needs.
#include "formats/tokenizer/sentencepiece_file.h"

#include <bit>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"

namespace tern {

namespace {

constexpr size_t kMaxModelBytes = size_t{1} << 28, kMaxPieceBytes = 1 << 16;

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  uint64_t number;
  Wire wire;
  uint64_t value;          // of varint and fixed
  std::string_view bytes;  // of bytes
};

// The fields of a message, one by one.
class Message {
 public:
  Message(std::string_view bytes, const std::string& place) : rest_(bytes), size_(bytes.size()), place_(place) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const uint64_t tag = varint();
    Field f{tag >> 3, static_cast<Wire>(tag & 7), 0, {}};
    if (f.number == 0 || f.number > (1u << 29)) fail("a field numbered " + std::to_string(f.number));
    switch (f.wire) {
      case Wire::varint:
        f.value = varint();
        return f;
      case Wire::fixed64:
        f.value = fixed(8);
        return f;
      case Wire::fixed32:
        f.value = fixed(4);
        return f;
      case Wire::bytes: {
        const uint64_t size = varint();
        if (size > rest_.size()) fail("a field of " + std::to_string(size) + " bytes");
        f.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return f;
      }
    }
    fail("wire type " + std::to_string(tag & 7));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::bad_file, "{}: byte {} of {}: {}; is the file damaged, or no SentencePiece model?", place_,
                size_ - rest_.size(), size_, what);
  }
  void want(const Field& f, Wire wire) const {
    if (f.wire != wire)
      fail("field " + std::to_string(f.number) + " has wire type " + std::to_string(static_cast<int>(f.wire)));
  }
  bool flag(const Field& f) const {
    want(f, Wire::varint);
    return f.value != 0;
  }
  std::string_view text(const Field& f) const {
    want(f, Wire::bytes);
    return f.bytes;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) fail("a number without an end");
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than ten bytes");
  }
  uint64_t fixed(size_t size) {
    if (rest_.size() < size) fail("a number without an end");
    uint64_t value = 0;
    for (size_t k = size; k-- > 0;) value = value << 8 | static_cast<uint8_t>(rest_[k]);
    rest_.remove_prefix(size);
    return value;
  }

  std::string_view rest_;
  size_t size_;
  const std::string& place_;
};

SentencePiece read_piece(std::string_view bytes, const std::string& place) {
  SentencePiece piece;
  Message m(bytes, place);
  while (const auto f = m.next()) {
    if (f->number == 1) {
      if (m.text(*f).size() > kMaxPieceBytes) m.fail("a piece of " + std::to_string(f->bytes.size()) + " bytes");
      piece.text = f->bytes;
    } else if (f->number == 2) {
      m.want(*f, Wire::fixed32);
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(f->value));
      if (!(piece.score - piece.score == 0)) m.fail("a score that is not finite");
    } else if (f->number == 3) {
      m.want(*f, Wire::varint);
      if (f->value < 1 || f->value > 6) m.fail("piece type " + std::to_string(f->value));
      piece.type = static_cast<PieceType>(f->value);
    }
  }
  if (piece.text.empty()) m.fail("an empty piece");
  if (!is_valid_utf8(piece.text)) m.fail("a piece that is not UTF-8");
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& place, SentencePieceModel& model) {
  const std::string at = place + ": trainer_spec";
  Message fields(bytes, at);
  while (const auto f = fields.next()) {
    switch (f->number) {
      case 3:
        fields.want(*f, Wire::varint);
        if (f->value != 1 && f->value != 2)
          throw Error(ErrorKind::bad_file, "{}: model type {}; tern reads 1 (Unigram) and 2 (BPE)", at, f->value);
        model.is_unigram = f->value == 1;
        break;
      case 24:
        model.whitespace_as_suffix = fields.flag(*f);
        break;
      case 35:
        model.byte_fallback = fields.flag(*f);
        break;
      case 46:
        model.bos = fields.text(*f);
        break;
      case 47:
        model.eos = fields.text(*f);
        break;
      case 48:
        model.pad = fields.text(*f);
        break;
      default:
        break;  // how it was trained
    }
  }
}

void read_normalizer(std::string_view bytes, const std::string& place, SentencePieceModel& model) {
  const std::string at = place + ": normalizer_spec";
  Message fields(bytes, at);
  while (const auto f = fields.next()) {
    switch (f->number) {
      case 2:
        model.charsmap = fields.text(*f);
        break;
      case 3:
        model.add_dummy_prefix = fields.flag(*f);
        break;
      case 4:
        model.remove_extra_whitespaces = fields.flag(*f);
        break;
      case 5:
        model.escape_whitespaces = fields.flag(*f);
        break;
      default:
        break;  // the rules' name and source
    }
  }
}

void put_varint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_number(uint64_t field, uint64_t value, std::string& out) {
  put_varint(field << 3, out);
  put_varint(value, out);
}
void put_bytes(uint64_t field, std::string_view bytes, std::string& out) {
  put_varint(field << 3 | 2, out);
  put_varint(bytes.size(), out);
  out += bytes;
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& place) {
  if (bytes.size() > kMaxModelBytes)
    throw Error(ErrorKind::bad_file, "{}: {} bytes, at most {} are read", place, bytes.size(), kMaxModelBytes);
  SentencePieceModel model;
  Message m(bytes, place);
  while (const auto f = m.next()) {
    if (f->number == 1) {
      model.pieces.push_back(read_piece(m.text(*f), place));
    } else if (f->number == 2) {
      read_trainer(m.text(*f), place, model);
    } else if (f->number == 3) {
      read_normalizer(m.text(*f), place, model);
    } else if (f->number == 5) {
      Message rules(m.text(*f), place);
      while (const auto rule = rules.next())
        if (rule->number == 2 && !rule->bytes.empty())
          throw Error(ErrorKind::bad_file, "{}: rules for decoded text (denormalizer_spec), which tern does not read",
                      place);
    }
  }
  if (model.pieces.empty())
    throw Error(ErrorKind::bad_file, "{}: no pieces; is the file complete, and a SentencePiece model?", place);
  return model;
}

std::string write_sentencepiece(const SentencePieceModel& model) {
  std::string out;
  for (const SentencePiece& piece : model.pieces) {
    std::string fields;
    put_bytes(1, piece.text, fields);
    put_varint(2 << 3 | 5, fields);
    const auto score = std::bit_cast<uint32_t>(piece.score);
    for (int k = 0; k < 4; ++k) fields += static_cast<char>(score >> (8 * k));
    if (piece.type != PieceType::normal) put_number(3, static_cast<uint64_t>(piece.type), fields);
    put_bytes(1, fields, out);
  }
  std::string trainer, normalizer;
  put_number(3, model.is_unigram ? 1 : 2, trainer);
  put_number(4, model.pieces.size(), trainer);
  put_number(24, model.whitespace_as_suffix, trainer);
  put_number(35, model.byte_fallback, trainer);
  const auto place_of = [&](std::string_view text) -> uint64_t {  // -1 has ten bytes
    for (size_t id = 0; id < model.pieces.size(); ++id)
      if (model.pieces[id].text == text) return id;
    return std::numeric_limits<uint64_t>::max();
  };
  for (size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == PieceType::unknown) {
      put_number(40, id, trainer);
      put_bytes(45, model.pieces[id].text, trainer);
    }
  put_number(41, place_of(model.bos), trainer);
  put_number(42, place_of(model.eos), trainer);
  put_number(43, place_of(model.pad), trainer);
  put_bytes(46, model.bos, trainer);
  put_bytes(47, model.eos, trainer);
  put_bytes(48, model.pad, trainer);
  put_bytes(2, trainer, out);
  put_bytes(1, model.charsmap.empty() ? "identity" : "user_defined", normalizer);
  put_bytes(2, model.charsmap, normalizer);
  put_number(3, model.add_dummy_prefix, normalizer);
  put_number(4, model.remove_extra_whitespaces, normalizer);
  put_number(5, model.escape_whitespaces, normalizer);
  put_bytes(3, normalizer, out);
  return out;
}

}  // namespace tern
