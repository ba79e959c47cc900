#include "serve/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace tern {
namespace {

TEST(Base64, IsThatOfTheRfc) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(base64_of(bytes), text);
}

}  // namespace
}  // namespace tern
