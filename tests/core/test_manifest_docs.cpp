// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "core/manifest/manifest.hpp"

using namespace cubinary::core;

namespace {

std::string read(const std::string& name) {
  std::ifstream file(std::string(CUBINARY_SOURCE) + "/" + name);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> fenced(const std::string& page, const std::string& language) {
  std::vector<std::string> blocks;
  const std::string open = "```" + language + "\n";
  for (std::size_t at = 0; (at = page.find(open, at)) != std::string::npos;) {
    at += open.size();
    const std::size_t end = page.find("```", at);
    blocks.push_back(page.substr(at, end - at));
    at = end;
  }
  return blocks;
}

}  // namespace

TEST_CASE("the manifests of the reference page parse and cover every shape") {
  const std::vector<std::string> examples = fenced(read("docs/manifest.md"), "toml");
  REQUIRE(examples.size() == 2);
  for (const std::string& example : examples) {
    const auto manifest = parse_manifest(example, "docs/manifest.md");
    if (!manifest) {
      FAIL(manifest.error().message);
    }
    const auto covered = check_default_covers(*manifest);
    if (!covered) {
      FAIL(covered.error().message);
    }
  }
}

TEST_CASE("the kernels' manifests parse and cover every shape") {
  int count = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(std::string(CUBINARY_SOURCE) + "/kernels")) {
    const auto path = folder.path() / "kernel.toml";
    if (!std::filesystem::exists(path)) {
      continue;
    }
    ++count;
    const auto manifest = load_manifest(path);
    if (!manifest) {
      FAIL(manifest.error().message);
    }
    const auto covered = check_default_covers(*manifest);
    if (!covered) {
      FAIL(covered.error().message);
    }
  }
  CHECK(count >= 3);
}

TEST_CASE("the interface page states the digest of the reference page's example") {
  const auto manifest = parse_manifest(fenced(read("docs/manifest.md"), "toml").at(0), "example");
  REQUIRE(manifest.has_value());
  const std::string page = read("schema/interface.md");
  CHECK(page.find("`" + interface_digest(*manifest).text() + "`") != std::string::npos);
  CHECK(page.find("```\n" + interface_text(manifest->arguments) + "```") != std::string::npos);
}
