#include "quantize/code_store.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/format_test_support.h"

namespace tern {
namespace {

// A byte that changed, a file cut short: the unit is coded anew, not taken.
TEST(CodeStore, DamagedCodesAreNotTaken) {
  const TemporaryDirectory dir;
  CodeStore store(real_io(), dir.path() + "/x.partial", "settings");
  UnitCodes codes;
  codes["w"].rows.assign(40, std::byte{7});
  codes["w"].tables.assign(16, 3);
  store.write(2, 5, codes);
  const std::string path = store.directory() + "/unit-00002.safetensors", whole = real_io().read(path);
  ASSERT_TRUE(store.read(2, 5));
  EXPECT_EQ(store.read(2, 5)->at("w").rows, codes["w"].rows);
  EXPECT_FALSE(store.read(1, 5));
  EXPECT_THROW(store.read(2, 6), Error);   // of other weights
  for (const size_t back : {1, 20, 50}) {  // in tables or rows
    std::string changed = whole;
    changed[changed.size() - back] ^= 1;
    write_bytes(path, changed);
    EXPECT_FALSE(store.read(2, 5)) << back;
  }
  write_bytes(path, whole.substr(0, whole.size() - 9));
  EXPECT_FALSE(store.read(2, 5));
  write_bytes(path, whole);
  EXPECT_TRUE(store.read(2, 5));
}

}  // namespace
}  // namespace tern
