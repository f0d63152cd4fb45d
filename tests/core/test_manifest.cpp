// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "core/manifest/manifest.hpp"
#include "tests/core/manifest_fixture.hpp"

using namespace cubinary::core;

namespace {

Manifest parsed(std::string_view text) {
  auto manifest = parse_manifest(text, "kernel.toml");
  if (!manifest) {
    FAIL(manifest.error().message);
  }
  return std::move(*manifest);
}

std::string replaced_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

TEST_CASE("a manifest of one launch") {
  const Manifest m = parsed(k_manifest);
  CHECK(m.name == "rmsnorm");
  CHECK(m.sources == std::vector<std::string>{"rmsnorm.cu"});
  CHECK(m.backend == Backend::nvrtc);
  CHECK(m.path == "kernel.toml");
  CHECK(m.text == k_manifest);
  REQUIRE(m.targets.size() == 2);
  CHECK(m.targets[1].text() == "sm_120");

  REQUIRE(m.types.size() == 1);
  CHECK(m.types[0].values == std::vector<std::string>{"f32", "f16"});

  REQUIRE(m.axes.size() == 2);
  CHECK(m.axes[0].name == "rows");
  CHECK(m.axes[0].bucket == Bucket::log2);
  CHECK_FALSE(m.axes[0].compile);
  CHECK(m.axes[1].compile);
  CHECK(m.axes[1].tune == std::vector<std::int64_t>{64, 128});

  REQUIRE(m.tunables.size() == 2);
  CHECK(m.tunables[0].use == TunableUse::template_argument);
  CHECK(m.tunables[1].use == TunableUse::launch);
  CHECK(to_json(m.default_config()) == R"({"VEC":1,"WARPS":2})");
  REQUIRE(m.prefer.size() == 2);
  CHECK(to_json(m.prefer[0]) == R"({"VEC":4,"WARPS":8})");

  REQUIRE(m.rules.size() == 3);
  CHECK(m.rules[1].expression.text() == "head_dim % VEC == 0");
  CHECK(m.rules[1].location.line == 21);
  CHECK(m.rules[1].location.column == 31);

  REQUIRE(m.arguments.size() == 4);
  CHECK(m.arguments[0].kind == ArgumentKind::out);
  CHECK(m.arguments[0].length->expression.text() == "rows * head_dim");
  CHECK(m.arguments[1].fill == "normal(0, 1)");
  CHECK(m.arguments[2].is->expression.text() == "rows");
  CHECK(m.arguments[3].default_value == 1e-6);

  REQUIRE(m.steps.size() == 1);
  CHECK(m.steps[0].name == "main");
  CHECK(m.steps[0].entry == "rmsnorm<{T}, {VEC}, {head_dim}>");
  CHECK(m.steps[0].arguments == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(m.steps[0].launch.cluster.empty());
  CHECK(m.steps[0].launch.smem->expression.text() == "smem");

  REQUIRE(m.reference.has_value());
  CHECK(m.reference->source.empty());
  CHECK(m.reference->arguments == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(m.tolerance.at("f16").relative == 2e-3);
  CHECK(m.tolerance.at("f16").absolute == 1e-3);
  CHECK(m.also == std::vector<Shape>{{{"rows", 3}, {"head_dim", 64}}});
  CHECK(m.cold_cache);
  CHECK(m.bytes.has_value());
  CHECK_FALSE(m.flops.has_value());

  CHECK(m.find_axis("head_dim") == &m.axes[1]);
  CHECK(m.find_axis("T") == nullptr);
  CHECK(m.find_type("T") == &m.types[0]);
  CHECK(m.find_argument("x") == &m.arguments[1]);
  CHECK(m.find_tunable("WARPS") == &m.tunables[1]);
}

TEST_CASE("a manifest of several steps") {
  const Manifest m = parsed(k_steps_manifest);
  CHECK(m.sources == std::vector<std::string>{"row_sum.cu", "finish.cu"});
  REQUIRE(m.steps.size() == 2);
  CHECK(m.steps[0].name == "partial");
  CHECK(m.steps[0].arguments == std::vector<std::size_t>{2, 1, 3, 4});
  CHECK(m.steps[0].launch.cooperative);
  REQUIRE(m.steps[0].launch.cluster.size() == 3);
  CHECK(m.steps[0].launch.cluster[0].expression.text() == "2");
  CHECK(m.steps[0].launch.cluster[2].expression.text() == "1");
  CHECK(m.steps[1].arguments == std::vector<std::size_t>{0, 2});
  CHECK(m.arguments[2].kind == ArgumentKind::workspace);
  CHECK(m.arguments[2].zeroed);
  CHECK(m.arguments[4].kind == ArgumentKind::handle);
  CHECK(m.arguments[4].byte_size == 8);
  CHECK(m.reference->source == "ref.cu");
  CHECK(m.reference->arguments == std::vector<std::size_t>{0, 1});
  REQUIRE(m.prepare.has_value());
  CHECK(m.prepare->arguments == std::vector<std::size_t>{1});
  CHECK(m.axes[1].tune.empty());
}

TEST_CASE("`vector` adds the rule that the pointer is aligned to it") {
  const Manifest m = parsed(k_steps_manifest);
  REQUIRE(m.rules.size() == 1);
  CHECK(m.rules[0].expression.text() == "align(x) % ((VEC) * sizeof(f16)) == 0");
  CHECK(m.rules[0].location.line == 6);
}

TEST_CASE("lets come in dependency order, whatever their order in the file") {
  const Manifest m = parsed(replaced(k_manifest, R"(threads = "32 * WARPS", smem = "4 * WARPS")",
                                     R"(smem = "b + a", b = "a + 1", a = "WARPS", threads = 32)"));
  std::vector<std::string> names;
  for (const auto& [name, value] : m.lets) {
    names.push_back(name);
  }
  CHECK(names == std::vector<std::string>{"a", "b", "smem", "threads"});
}

TEST_CASE("a byte order mark and CRLF change nothing but the text") {
  const std::string crlf = replaced_all(std::string(k_manifest), "\n", "\r\n");
  const Manifest plain = parsed(k_manifest);
  for (const std::string& text :
       {crlf, "\xEF\xBB\xBF" + crlf, "\xEF\xBB\xBF" + std::string(k_manifest)}) {
    const Manifest m = parsed(text);
    CHECK(m.name == plain.name);
    CHECK(m.steps[0].entry == plain.steps[0].entry);
    CHECK(m.rules[2].expression.text() == plain.rules[2].expression.text());
    CHECK(m.rules[2].location.column == plain.rules[2].location.column);
    CHECK(interface_digest(m) == interface_digest(plain));
  }
  const auto broken =
      parse_manifest("\xEF\xBB\xBF" + replaced_all(crlf, "32 * WARPS", "32 * WARP"), "k");
  REQUIRE_FALSE(broken.has_value());
  CHECK(broken.error().message ==
        "k:20:25: let \"threads\": unknown name \"WARP\" (did you mean \"WARPS\"?)");
}

TEST_CASE(
    "columns count characters, and escapes or long texts fall back to where the text begins") {
  const auto message = [](std::string_view to) {
    const auto m = parse_manifest(replaced(k_manifest, R"(let = { threads = "32 * WARPS")",
                                           std::string("let = { threads = ") + std::string(to)),
                                  "k");
    REQUIRE_FALSE(m.has_value());
    return m.error().message;
  };
  CHECK(message("'32 * WARP'").starts_with("k:20:25:"));
  CHECK(message("\"32\\u0020* WARP\"").starts_with("k:20:19:"));
  CHECK(message("\"\"\"\n32 * WARP\"\"\"").starts_with("k:20:19:"));
  const auto accents = parse_manifest(replaced(k_manifest, R"(types.T = ["f32", "f16"])",
                                               "types.T = { values = [\"f32\", \"f16\"], "
                                               "spelling = { f32 = \"é\", f64 = \"x\" } }"),
                                      "k");
  REQUIRE_FALSE(accents.has_value());
  CHECK(accents.error().message.starts_with("k:8:62: \"f64\" is none of types.T's dtypes"));
}

TEST_CASE("forms that mean the same") {
  const Manifest a = parsed(k_manifest);
  const Manifest b = parsed(
      replaced(k_manifest, "[rules]\nlet = { threads = \"32 * WARPS\", smem = \"4 * WARPS\" }\n",
               "[rules.let]\nthreads = \"32 * WARPS\"\nsmem = \"4 * WARPS\"\n[rules]\n"));
  CHECK(a.lets.size() == b.lets.size());
  const Manifest c =
      parsed(replaced(k_manifest, "types.T = [\"f32\", \"f16\"]",
                      "types = { T = { values = [\"f32\", \"f16\"], macro = \"DTYPE\" } }"));
  CHECK(c.types[0].macro == "DTYPE");
  const Manifest d = parsed(replaced(k_manifest, "block = [\"threads\"]", "block = [64]"));
  CHECK(d.steps[0].launch.block[0].expression.text() == "64");
}

TEST_CASE("tunables of every use") {
  const Manifest m = parsed(replaced(
      k_manifest, "WARPS = {",
      "LAYOUT = { values = [\"A\", \"B\"], default = \"B\", as = \"define\", macro = \"LAY\" }\n"
      "FAST = { values = [true, false], default = false, as = \"define\" }\n"
      "REGS = { values = [64, 128], default = 64, as = \"flag\", flag = \"-maxrregcount={}\" }\n"
      "WARPS = {"));
  CHECK(m.find_tunable("LAYOUT")->macro == "LAY");
  CHECK(m.find_tunable("FAST")->macro == "FAST");
  CHECK(m.find_tunable("REGS")->flag == "-maxrregcount={}");
  CHECK(changes_code(m.find_tunable("REGS")->use));
  CHECK_FALSE(changes_code(m.find_tunable("WARPS")->use));
  CHECK(to_json(m.default_config()) ==
        R"({"FAST":false,"LAYOUT":"B","REGS":64,"VEC":1,"WARPS":2})");
}

TEST_CASE("structs by value have a size and an alignment") {
  const auto with = [](std::string_view kind) {
    return parsed(replaced(k_manifest, R"(scalar = "f32", default = 1e-6)", kind)).arguments[3];
  };
  CHECK(with("bytes = 128").byte_align == 8);
  CHECK(with("bytes = 12").byte_align == 4);
  CHECK(with("bytes = 3").byte_align == 1);
  CHECK(with("bytes = 128, align = 64").byte_align == 64);
}

TEST_CASE("fills") {
  const auto accepts = [](const std::string& fill) {
    return parse_manifest(replaced(k_manifest, "normal(0, 1)", fill), "k").has_value();
  };
  for (const char* fill : {"normal(0, 1)", "normal(-1.5,2e-3)", "uniform(-1, 1)", "const(7)",
                           "zero", "range", "file(data/x.bin)"}) {
    INFO(fill);
    CHECK(accepts(fill));
  }
  for (const char* fill :
       {"", "normal", "normal()", "normal(1, -1)", "uniform(2, 1)", "const(x)", "const(1, 2)",
        "zero()", "file()", "normal(0, 1", "const(inf)", "Zero"}) {
    INFO(fill);
    CHECK_FALSE(accepts(fill));
  }
  const std::string indices =
      replaced(replaced(k_manifest, "{ name = \"x\", in = \"T\"", "{ name = \"x\", in = \"i32\""),
               "normal(0, 1)", "index(rows * 2)");
  CHECK(parse_manifest(indices, "k").has_value());
  const auto unknown = parse_manifest(replaced(indices, "rows * 2", "row * 2"), "k");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message.ends_with("(did you mean \"rows\"?)"));
}

TEST_CASE("broken bytes are errors, not crashes") {
  for (const std::string& text :
       {std::string(), std::string("\0", 1), std::string("\xFF\xFE\x00\x00", 4),
        std::string("a = \"\xFF\""), std::string(5000, '['),
        std::string("x = ") + std::string(5000, '['), std::string("manifest = 1e9"),
        std::string("manifest = 1979-05-27")}) {
    const auto m = parse_manifest(text, "k");
    REQUIRE_FALSE(m.has_value());
    CHECK(m.error().code == ErrorCode::manifest);
    CHECK(m.error().message.starts_with("k:"));
  }
}

TEST_CASE("loading a file") {
  const auto missing = load_manifest("/nonexistent/kernel.toml");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::not_found);
}

TEST_CASE("the interface is the digest of what the caller passes") {
  const Manifest m = parsed(k_manifest);
  CHECK(interface_text(m.arguments) == "cubinary interface 1\ny out T\nx in T\neps scalar f32\n");
  CHECK(interface_digest(m).hex() ==
        "9028562103e257ea67620b59d1ac6d1cc7d913f34818fa5ea84ef17c2c4b8fee");
  const auto same = [&](std::string_view from, std::string_view to) {
    return interface_digest(parsed(replaced(k_manifest, from, to))) == interface_digest(m);
  };
  CHECK(same("default = 1e-6", "default = 1e-5"));
  CHECK(same("fill = \"normal(0, 1)\"", "nullable = true"));
  CHECK(same("name = \"rmsnorm\"", "name = \"other\""));
  CHECK(same("{ name = \"n\", scalar", "{ name = \"m\", scalar"));
  CHECK_FALSE(same("{ name = \"eps\"", "{ name = \"epsilon\""));
  CHECK_FALSE(same("scalar = \"f32\"", "scalar = \"f64\""));
  CHECK_FALSE(same("{ name = \"y\", out", "{ name = \"y\", inout"));
  CHECK_FALSE(same("scalar = \"i32\", is = \"rows\"", "scalar = \"i32\""));
  CHECK_FALSE(same("scalar = \"f32\", default = 1e-6", "bytes = 128"));

  const Manifest steps = parsed(k_steps_manifest);
  CHECK(interface_text(steps.arguments) ==
        "cubinary interface 1\nsums out f32\nx in f16\nmap handle\n");
}
