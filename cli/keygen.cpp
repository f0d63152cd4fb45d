// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/wire/signature.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Options {
  std::string path;
  bool json = false;
};

/// Writes a file that must not exist yet; removes it again when it could not be written whole.
Result<void> create_file(const fs::path& path, std::string_view text, unsigned mode) {
  const std::string what = "cannot write " + path.string();
  const core::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) {
    if (errno == EEXIST) {
      return fail(ErrorCode::exists, path.string() +
                                         " exists already and keys are never overwritten: choose "
                                         "another path, or move the old key away");
    }
    return fail(core::errno_error(what, errno));
  }
  while (!text.empty()) {
    const ssize_t count = ::write(fd.get(), text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      const int number = errno;
      ::unlink(path.c_str());
      return fail(core::errno_error(what, number));
    }
    text.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  if (::fchmod(fd.get(), mode) != 0 || ::fsync(fd.get()) != 0) {
    const int number = errno;
    ::unlink(path.c_str());
    return fail(core::errno_error(what, number));
  }
  return {};
}

Result<int> run(const Options& options) {
  const std::string public_path = options.path + ".pub";
  TRY_ASSIGN(const core::PrivateKey key, core::PrivateKey::generate());
  // The public key first: what a failure leaves behind is then never a lone secret.
  TRY(create_file(public_path, key.public_key().to_pem(), 0644));
  if (auto written = create_file(options.path, key.to_pem(), 0600); !written) {
    ::unlink(public_path.c_str());
    return fail(std::move(written).error());
  }
  const std::string key_id = key.public_key().key_id();
  if (options.json) {
    std::printf("%s\n", core::json::to_text(core::json::Object{{"private_key", options.path},
                                                               {"public_key", public_path},
                                                               {"key_id", key_id}})
                            .c_str());
  } else {
    std::printf(
        "private key  %s  (keep it where releases are signed, never on a server)\n"
        "public key   %s  (pin it on clients: --key %s)\n"
        "key id       %s\n",
        options.path.c_str(), public_path.c_str(), public_path.c_str(), key_id.c_str());
  }
  return 0;
}

}  // namespace

void add_keygen(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand("keygen", "Make a key pair to sign releases with");
  auto options = std::make_shared<Options>();
  app->add_option("PATH", options->path, "private key to write (mode 0600); PATH.pub beside it")
      ->required();
  app->add_flag("--json", options->json, "one JSON object");
  app->footer(
      "Example:\n  cubinary keygen release.key\nECDSA P-256; neither file is ever "
      "overwritten.");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
