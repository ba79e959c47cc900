#include "serve/access.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Access, HostsAndOrigins) {
  const AccessRules rules{.keys = {}, .hosts = {"Box.lan"}, .origins = {"https://a.example"}};
  for (const char* good : {"127.0.0.1", "127.0.0.1:80", "10.1.2.3:8080", "localhost", "LOCALHOST:1", "x.localhost",
                           "box.lan:9", "[::1]", "[::1]:80"})
    EXPECT_TRUE(host_is_known(rules, good)) << good;
  for (const char* bad :
       {"", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "[::1]evil",
        "[evil]:80", "127.0.0.1:80:80", "localhost:80@evil", "0x7f000001", "xlocalhost"})
    EXPECT_FALSE(host_is_known(rules, bad)) << bad;
  EXPECT_TRUE(origin_is_known(rules, "", "x"));
  EXPECT_TRUE(origin_is_known(rules, "http://127.0.0.1:80", "127.0.0.1:80"));
  EXPECT_FALSE(origin_is_known(rules, "http://127.0.0.1:81", "127.0.0.1:80"));
  EXPECT_FALSE(origin_is_known(rules, "null", "127.0.0.1"));
  EXPECT_TRUE(origin_is_known(rules, "https://a.example", "127.0.0.1"));
  EXPECT_FALSE(origin_is_known(rules, "https://a.example.evil", "127.0.0.1"));
  EXPECT_TRUE(origin_is_known({.origins = {"*"}}, "https://x", "y"));
}

TEST(Access, KeysAreEqualOrNot) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcabc", "abca", "Abc"})
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
  EXPECT_FALSE(equal_in_constant_time("", ""));
  EXPECT_TRUE(key_is_known({}, ""));
  EXPECT_TRUE(key_is_known({.keys = {"k"}}, "bearer k "));
  EXPECT_FALSE(key_is_known({.keys = {"k"}}, "k"));
}

}  // namespace
}  // namespace tern
