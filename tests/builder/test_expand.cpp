// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <catch2/catch_test_macros.hpp>

#include "builder/expand/expand.hpp"
#include "builder/expand/specialise.hpp"
#include "builder/key/build_key.hpp"

using namespace cubinary;
using builder::Count;
using builder::Variant;
using store::CandidateRole;

namespace {

struct Text {
  std::string types = "types.T  = [\"f32\", \"f16\"]";
  std::string entry = "k<{T}, {VEC}>";
  std::string axes = "n = { tune = [1024] }";
  std::string tunables =
      "VEC = { values = [1, 2, 4, 8], default = 1 }\n"
      "WARPS = { values = [1, 4, 64], default = 1, as = \"launch\" }";
  std::string rules = "require = [\"VEC * sizeof(T) <= 16\", \"32 * WARPS <= 1024\"]";
  std::string block = "32 * WARPS";
};

core::Manifest manifest(const Text& text) {
  auto parsed = core::parse_manifest(
      "manifest = 1\nname = \"k\"\nsummary = \"a kernel\"\nsource = \"k.cu\"\nentry = \"" +
          text.entry + "\"\ntargets = [\"sm_90\"]\n" + text.types + "\n[axes]\n" + text.axes +
          "\n[tunables]\n" + text.tunables + "\n[rules]\n" + text.rules +
          "\n[launch]\ngrid = [\"n\"]\nblock = [\"" + text.block +
          "\"]\nargs = [{ name = \"y\", out = \"f32\", len = \"n\" }]\n"
          "[check]\nreference = { entry = \"r\", grid = [\"n\"], block = [1] }\n"
          "tolerance = { f32 = [0, 0] }\n",
      "k/kernel.toml");
  INFO((parsed ? "" : parsed.error().message));
  REQUIRE(parsed.has_value());
  return *parsed;
}

const core::Target k_target = *core::Target::parse("sm_90");

std::vector<std::string> shown(const std::vector<Variant>& variants) {
  std::vector<std::string> texts;
  for (const Variant& variant : variants) {
    texts.push_back(std::string(store::role_name(variant.role)) + " " +
                    core::to_display(variant.types) + " " + core::to_display(variant.config));
  }
  return texts;
}

/// The space by brute force, for comparison.
std::set<std::pair<std::string, std::int64_t>> by_hand() {
  std::set<std::pair<std::string, std::int64_t>> kept;
  for (const auto& [type, bytes] : {std::pair<std::string, int>{"f32", 4}, {"f16", 2}}) {
    for (const std::int64_t vec : {1, 2, 4, 8}) {
      if (vec * bytes <= 16) {
        kept.emplace(type, vec);
      }
    }
  }
  return kept;
}

}  // namespace

TEST_CASE("types and code-changing tunables expand; launch tunables do not") {
  const auto variants = *builder::expand(manifest({}), k_target);
  std::set<std::pair<std::string, std::int64_t>> kept;
  std::size_t references = 0;
  for (const Variant& variant : variants) {
    if (variant.role == CandidateRole::reference) {
      ++references;
      CHECK(variant.config.empty());
      continue;
    }
    CHECK(variant.config.size() == 1);
    kept.emplace(variant.types.at("T"), std::get<std::int64_t>(variant.config.at("VEC")));
  }
  CHECK(kept == by_hand());
  CHECK(references == 2);
  CHECK(variants.size() == kept.size() + 2);
  CHECK(shown(variants).front() == "kernel T=f16 VEC=1");
}

TEST_CASE("a rule over code and launch tunables keeps what some launch choice completes") {
  Text text;
  text.rules = "require = [\"VEC * WARPS == 16\", \"sizeof(T) == 4 || VEC != 4\"]";
  text.tunables =
      "VEC = { values = [1, 2, 4, 8, 16], default = 16 }\n"
      "WARPS = { values = [1, 4, 8], default = 1, as = \"launch\" }";
  const auto variants = *builder::expand(manifest(text), k_target);
  std::set<std::string> kept;
  for (const Variant& variant : variants) {
    if (variant.role == CandidateRole::kernel) {
      kept.insert(core::to_display(variant.types) + " " + core::to_display(variant.config));
    }
  }
  // 16 needs one warp, 4 needs four (f32 only), 2 needs eight; 1 would need sixteen, 8 two.
  CHECK(kept == std::set<std::string>{"T=f16 VEC=16", "T=f32 VEC=16", "T=f32 VEC=4", "T=f16 VEC=2",
                                      "T=f32 VEC=2"});
  const builder::SpaceCount count = builder::count_space(manifest(text), k_target);
  CHECK(count.raw == Count(30));
  CHECK(count.candidates == Count(5));
  CHECK(count.configs == Count(5));
  Count sum = count.configs;
  for (const auto& rule : count.rules) {
    sum += rule.killed;
  }
  CHECK(sum == count.raw);
  REQUIRE(count.dead.size() == 2);
  CHECK(count.dead[0].tunable == "VEC");
  CHECK(count.dead[0].value == "1");
  CHECK(count.dead[1].value == "8");
}

TEST_CASE("rules over shape, alignment and lets: only what is known prunes") {
  Text text;
  text.rules =
      "let = { bytes = \"VEC * sizeof(T)\", wide = \"bytes > 8\" }\n"
      "require = [\"n % VEC == 0\", \"align(y) % VEC == 0 || VEC > 99\", \"!wide\","
      " \"16 / (4 - VEC) != 0 || VEC > 0\"]";
  const auto variants = *builder::expand(manifest(text), k_target);
  std::set<std::string> kept;
  for (const Variant& variant : variants) {
    if (variant.role == CandidateRole::kernel) {
      kept.insert(core::to_display(variant.types) + " " + core::to_display(variant.config));
    }
  }
  // `wide` leaves f32 up to 2 and f16 up to 4; the last rule divides by zero at 4.
  CHECK(kept == std::set<std::string>{"T=f32 VEC=1", "T=f32 VEC=2", "T=f16 VEC=1", "T=f16 VEC=2"});
  const builder::SpaceCount count = builder::count_space(manifest(text), k_target);
  CHECK(count.rules[0].at_launch);
  CHECK(count.rules[1].at_launch);
  CHECK_FALSE(count.rules[2].at_launch);
  CHECK(count.rules[0].killed == Count(0));
}

TEST_CASE("compile axes and the target's limits take part") {
  Text text;
  text.axes = "n = { tune = [1024] }\nhead_dim = { tune = [64, 128, 256], compile = true }";
  text.entry = "k<{T}, {VEC}, {head_dim}>";
  text.rules = "require = [\"head_dim * VEC <= 512\", \"target.cc >= 90 || VEC == 1\"]";
  const auto on_90 = *builder::expand(manifest(text), k_target);
  const auto on_80 = *builder::expand(manifest(text), *core::Target::parse("sm_80"));
  const auto kernels = [](const std::vector<Variant>& variants) {
    return std::count_if(variants.begin(), variants.end(), [](const Variant& variant) {
      return variant.role == CandidateRole::kernel;
    });
  };
  CHECK(kernels(on_90) == 2 * (4 + 3 + 2));
  CHECK(kernels(on_80) == 2 * 3);
  text.rules = "require = [\"target.specific || VEC == 1\"]";
  CHECK(kernels(*builder::expand(manifest(text), k_target)) == 2 * 3);
  CHECK(kernels(*builder::expand(manifest(text), *core::Target::parse("sm_90a"))) == 2 * 3 * 4);
  CHECK(on_90.size() - static_cast<std::size_t>(kernels(on_90)) == 6);  // a reference each
}

TEST_CASE("rules that leave out every untuned choice are an error") {
  Text text;
  text.rules = "require = [\"VEC * sizeof(T) >= 4\"]";
  const auto variants = builder::expand(manifest(text), k_target);
  REQUIRE_FALSE(variants.has_value());
  CHECK(variants.error().code == core::ErrorCode::manifest);
  CHECK(variants.error().message.find("T=f16") != std::string::npos);
}

TEST_CASE("a hundred million combinations with few valid ones are counted exactly") {
  Text text;
  text.tunables = "VEC = { values = [1, 2, 4, 8], default = 1 }\n";
  text.rules = "require = [\"VEC * sizeof(T) <= 16\"";
  text.block = "32";
  std::string product = "1";
  for (int i = 0; i < 9; ++i) {
    const std::string name = "P" + std::to_string(i);
    text.tunables += name + " = { values = [0, 1, 2, 3, 4, 5, 6, 7], default = 0 }\n";
    if (i != 0) {
      text.rules += ", \"P" + std::to_string(i - 1) + " <= " + name + "\"";
    }
  }
  text.rules += ", \"P8 - P0 <= 1\"]";
  text.entry = "k<{T}, {VEC}, {P0}, {P1}, {P2}, {P3}, {P4}, {P5}, {P6}, {P7}, {P8}>";
  const builder::SpaceCount count = builder::count_space(manifest(text), k_target);
  CHECK(count.raw.text() == std::to_string(8ULL * 134217728ULL));
  // Non-decreasing sequences of nine that span at most one: 8 constant ones, and 7 steps × 8
  // places.
  CHECK(count.candidates == Count((8 + 7 * 8) * 7));
  const auto variants = *builder::expand(manifest(text), k_target);
  CHECK(variants.size() == (8 + 7 * 8) * 7 + 2);
}

TEST_CASE("raw counts beyond 2^63 are exact, and beyond 2^128 said to be") {
  Text text;
  text.block = "32";
  text.rules = "require = [\"VEC * sizeof(T) <= 16\"]";
  const auto with = [&](int tunables) {
    Text more = text;
    more.tunables = "VEC = { values = [1], default = 1 }\n";
    more.entry = "k<{T}, {VEC}";
    for (int i = 0; i < tunables; ++i) {
      const std::string name = "Q" + std::to_string(i);
      more.tunables += name + " = { values = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], default = 0 }\n";
      more.entry += ", {" + name + "}";
    }
    more.entry += ">";
    return builder::count_space(manifest(more), k_target);
  };
  CHECK(with(20).raw.text() == "200000000000000000000");
  CHECK(with(20).candidates.text() == "200000000000000000000");
  CHECK(with(40).raw.text() == "more than 3.4e38");
  Text more = text;
  more.tunables = "VEC = { values = [1], default = 1 }\n";
  more.entry = "k<{T}, {VEC}";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "Q" + std::to_string(i);
    more.tunables += name + " = { values = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], default = 0 }\n";
    more.entry += ", {" + name + "}";
  }
  more.entry += ">";
  const auto refused = builder::expand(manifest(more), k_target);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == core::ErrorCode::too_large);
}

TEST_CASE("placeholders, macros and flags turn into what the compiler is asked for") {
  Text text;
  text.types = "types.T = { values = [\"bf16\"], macro = \"SCALAR\" }";
  text.tunables =
      "VEC = { values = [4], default = 4 }\n"
      "UNROLL = { values = [true], default = true, as = \"define\", macro = \"DO_UNROLL\" }\n"
      "REGS = { values = [64], default = 64, as = \"flag\", flag = \"-maxrregcount={}\" }";
  text.rules = "require = [\"VEC > 0\"]";
  text.block = "32";
  const core::Manifest parsed = manifest(text);
  const auto variants = *builder::expand(parsed, k_target);
  REQUIRE(variants.size() == 2);
  const auto special = *builder::specialise(parsed, variants[0]);
  CHECK(special.entries == std::vector<std::string>{"k<__nv_bfloat16, 4>"});
  CHECK(special.options ==
        std::vector<std::string>{"-DSCALAR=__nv_bfloat16", "-DDO_UNROLL=true", "-maxrregcount=64"});
  const auto reference = *builder::specialise(parsed, variants[1]);
  CHECK(reference.entries == std::vector<std::string>{"r"});
  CHECK(reference.options == std::vector<std::string>{"-DSCALAR=__nv_bfloat16"});
}

TEST_CASE("every part of a candidate is in its key, and nothing else") {
  builder::Inputs inputs;
  inputs.digest = core::sha256("inputs");
  builder::Specialisation special{{"k<float>"}, {"-DA=1"}};
  store::Toolchain toolchain{"nvrtc", {13, 0}, "build 1"};
  builder::KeyParts parts{&inputs, &special, {"../include"}, "sm_90", &toolchain};
  const core::Digest base = builder::code_key(parts);
  std::set<core::Digest> keys{base};
  const auto differs = [&](const builder::KeyParts& changed) {
    return keys.insert(builder::code_key(changed)).second;
  };
  builder::KeyParts changed = parts;
  changed.target = "sm_90a";
  CHECK(differs(changed));
  changed = parts;
  changed.include_spellings = {"include"};
  CHECK(differs(changed));
  builder::Inputs other_inputs;
  other_inputs.digest = core::sha256("other");
  changed = parts;
  changed.inputs = &other_inputs;
  CHECK(differs(changed));
  for (const builder::Specialisation& other :
       {builder::Specialisation{{"k<double>"}, {"-DA=1"}},
        builder::Specialisation{{"k<float>"}, {"-DA=2"}},
        builder::Specialisation{{"k<float>", "-DA=1"}, {}}}) {
    changed = parts;
    changed.special = &other;
    CHECK(differs(changed));
  }
  for (const store::Toolchain& other : {store::Toolchain{"nvcc", {13, 0}, "build 1"},
                                        store::Toolchain{"nvrtc", {13, 0}, "build 2"}}) {
    changed = parts;
    changed.toolchain = &other;
    CHECK(differs(changed));
  }
  Variant variant{CandidateRole::kernel, {{"T", "f32"}}, {}, {}};
  const core::Digest key = builder::build_key(base, "k", variant);
  CHECK(key != base);
  CHECK(key == builder::build_key(base, "k", variant));
  CHECK(key != builder::build_key(base, "other", variant));
  variant.types["T"] = "i32";
  CHECK(key != builder::build_key(base, "k", variant));
}

TEST_CASE("the language standard is ours unless the manifest names one") {
  const auto options = [](std::vector<std::string> flags) {
    return builder::compile_options({{"k"}, std::move(flags)}, "sm_90");
  };
  CHECK(options({}) ==
        std::vector<std::string>{"--gpu-architecture=sm_90", "-std=c++17", "--ptxas-options=-v"});
  CHECK(options({"--std=c++20"}) ==
        std::vector<std::string>{"--gpu-architecture=sm_90", "--ptxas-options=-v", "--std=c++20"});
}
