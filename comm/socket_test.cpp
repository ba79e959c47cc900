#include "comm/socket.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Socket, OnlyAddressesOfThisMachineAreLoopback) {
  for (const char* host : {"127.0.0.1", "127.255.3.4", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host :
       {"127.example.org", "127.0.0.1.example.org", "128.0.0.1", "0.0.0.0", "::", "::2", "example", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace tern
