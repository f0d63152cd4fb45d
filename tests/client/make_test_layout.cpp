// SPDX-License-Identifier: Apache-2.0
// make_test_layout DIR KEYFILE [name=v1] [serial=1] [expires=0] [targets=a,b] [channel=prod]…
// [note=x] [revoke=DIGEST]… Adds a release to the layout DIR, signed by KEYFILE (made with
// KEYFILE.pub when missing;
// "-": not signed). For tests that drive the programs.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/file.hpp"
#include "tests/client/test_layout.hpp"

using namespace cubinary;

static core::Result<void> run(int argc, char** argv) {
  test::TestRelease release;
  core::RevocationList revocations;  // serial=N revoke=DIGEST…: only this list is written
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    const auto equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (key == "name") {
      release.name = value;
    } else if (key == "serial") {
      release.serial = std::stoull(value);
    } else if (key == "expires") {
      release.expires = std::stoll(value);
    } else if (key == "targets") {
      release.targets.clear();
      for (std::size_t at = 0; at <= value.size();) {
        const auto end = std::min(value.find(',', at), value.size());
        release.targets.push_back(value.substr(at, end - at));
        at = end + 1;
      }
    } else if (key == "channel") {
      release.channels.push_back(value);
    } else if (key == "revoke") {
      TRY_ASSIGN(const core::Digest digest, core::Digest::parse(value));
      revocations.revoked.push_back({digest, "as a test asked", 1'700'000'000});
    } else if (key == "note") {
      release.note = value;
    } else {
      return core::fail(core::ErrorCode::usage, "unknown word " + text);
    }
  }
  const std::string key_path = argv[2];
  std::vector<core::PrivateKey> keys;
  if (key_path != "-") {
    if (auto there = core::PrivateKey::load(key_path)) {
      keys.push_back(*std::move(there));
    } else {
      TRY_ASSIGN(auto made, core::PrivateKey::generate());
      TRY(core::write_file_atomic(key_path, core::as_bytes(made.to_pem()), 0600));
      TRY(core::write_file_atomic(key_path + ".pub", core::as_bytes(made.public_key().to_pem())));
      keys.push_back(std::move(made));
    }
  }
  if (!revocations.revoked.empty()) {
    revocations.serial = release.serial;
    return test::write_revocations(argv[1], revocations, keys);
  }
  TRY_ASSIGN(const core::Digest digest, test::write_release(argv[1], release, keys));
  std::printf("%s\n", digest.text().c_str());
  return {};
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: make_test_layout DIR KEYFILE [name=value]...\n");
    return 2;
  }
  if (const auto done = run(argc, argv); !done) {
    std::fprintf(stderr, "make_test_layout: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
