#pragma once
// Tests of tern adapt: a folder with a text, and the commands on it.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/io.h"
#include "base/json.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"

namespace tern {

class Adapt : public InFolder<Adapt> {
 protected:
  static void SetUpTestSuite() {
    make_root("adapt");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += "Log of the tern, day " + std::to_string(i) + ": wind north, sea calm, fuel " +
              std::to_string(900 - 7 * i) + " litres.\n";
    write("log.txt", text);
  }
  static Json json(const std::string& rest) {
    const Outcome o = tern(rest + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << rest << "\n" << real_io().read(root_ + "/errors");
    return o.code == 0 ? parse_json(o.text, "out") : Json::object();
  }
  // Nats per token.
  static double loss_of(const std::string& eval) { return std::log(json(eval)["perplexity"].get<double>()); }
  static std::string train(const std::string& output, const std::string& rest) {
    return "adapt " + kNovels + " --data log.txt --output " + output +
           " --seq 32 --batch 4 --schedule constant --warmup-steps 0 --learning-rate 3e-3 " + rest;
  }
  static std::string file(const std::string& name) { return real_io().read(root_ + "/" + name); }
};
using AdaptSlow = Adapt;

}  // namespace tern
