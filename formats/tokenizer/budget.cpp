#include "formats/tokenizer/budget.h"

#include "base/error.h"

namespace tern {

void TextBudget::check_bytes(size_t bytes, const char* who) const {
  if (bytes <= bytes_left()) return;
  throw Error(
      ErrorKind::bad_file,
      "{} makes more than {} bytes for each byte of the text, as no known tokenizer does; is the tokenizer to be "
      "trusted?",
      who, kBytesPerByte);
}

void TextBudget::spend_bytes(size_t bytes, const char* who) {
  check_bytes(bytes, who);
  bytes_ -= static_cast<int64_t>(bytes);
}

void TextBudget::spend_work(size_t work, const char* who) {
  if (spend_work(static_cast<int64_t>(work))) return;
  throw Error(ErrorKind::bad_file,
              "{} takes more than {} times the work of reading each byte of the text, as no known tokenizer does; is "
              "the tokenizer to be trusted?",
              who, kWorkPerByte);
}

}  // namespace tern
