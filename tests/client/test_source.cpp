// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "client/source.hpp"
#include "tests/scratch.hpp"

using cubinary::client::SourceName;
using cubinary::core::ErrorCode;

namespace {
SourceName parsed(std::string_view text) {
  auto name = SourceName::parse(text);
  INFO(text << ": " << (name ? "" : name.error().message));
  REQUIRE(name);
  return *name;
}
}  // namespace

TEST_CASE("a source that is a server") {
  const auto plain = parsed("http://127.0.0.1:8421");
  CHECK(plain.kind == SourceName::Kind::registry);
  CHECK(plain.origin == "http://127.0.0.1:8421");
  CHECK(plain.repository == "cubinary");
  CHECK(plain.tag.empty());

  const auto tagged = parsed("http://127.0.0.1:8421:v1");
  CHECK(tagged.origin == "http://127.0.0.1:8421");
  CHECK(tagged.tag == "v1");
  CHECK(parsed("https://kernels.example.com:prod").origin == "https://kernels.example.com");
  CHECK(parsed("https://kernels.example.com:prod").tag == "prod");
  CHECK(parsed("https://kernels.example.com:8443").tag.empty());

  const auto full = parsed("https://host:5000/team/kernels:v1.2-rc_3");
  CHECK(full.origin == "https://host:5000");
  CHECK(full.repository == "team/kernels");
  CHECK(full.tag == "v1.2-rc_3");
  CHECK(full.place() == "https://host:5000/team/kernels");

  CHECK(parsed("oci://ghcr.example/org/repo:v1").origin == "https://ghcr.example");
  CHECK(parsed("http://[::1]:8421").origin == "http://[::1]:8421");
  CHECK(parsed("http://[::1]:8421:v1").tag == "v1");
  CHECK(parsed("http://[::1]").tag.empty());
  CHECK(parsed("http://host/").repository == "cubinary");
}

TEST_CASE("a source that is a folder") {
  const cubinary::test::Scratch scratch;
  const auto with_colon = (scratch / "a:b").string();
  std::filesystem::create_directories(with_colon);
  CHECK(parsed(with_colon).directory == with_colon);
  CHECK(parsed(with_colon).tag.empty());
  CHECK(parsed(with_colon + ":v1").directory == with_colon);
  CHECK(parsed(with_colon + ":v1").tag == "v1");
  CHECK(parsed("missing/dir:v2").directory == "missing/dir");
  CHECK(parsed("missing/dir:v2").tag == "v2");
  CHECK(parsed("./dir").tag.empty());
}

TEST_CASE("what is no source says what one looks like") {
  for (const std::string_view text :
       {"", "ftp://host/x", "http://", "http://host:/repo", "http://ho st/repo", "oci://host",
        "http://host/UPPER", "http://host/repo:", "http://host:99999999/repo", "http://user@host/r",
        "dir:bad tag", "http://host/repo:sp ace"}) {
    const auto name = SourceName::parse(text);
    INFO(text);
    REQUIRE(!name);
    CHECK(name.error().code == ErrorCode::usage);
    CHECK(name.error().message.find("DIR[:TAG]") != std::string::npos);
  }
}
