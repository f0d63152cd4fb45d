// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/command.hpp"
#include "server/server.hpp"

namespace cubinary::cli {

void add_serve(Cli& cli) {
  auto options = std::make_shared<server::ServeOptions>();
  CLI::App* app = cli.app.add_subcommand(
      "serve",
      "Serve a store over HTTP: its releases to clients, the rest to builders, tuners, auditors");
  app->footer(
      "Example: cubinary serve --store kernels.cubinary --listen 127.0.0.1:8421\n"
      "Other machines need TLS and a token: cubinary serve --store kernels.cubinary \\\n"
      "    --listen 0.0.0.0:8421 --tls-cert server.pem --tls-key server.key --host build.example\n"
      "Tokens are made with: cubinary token create --scope read --store kernels.cubinary");
  app->add_option("--store", options->store, "The store to serve")->required()->type_name("FILE");
  app->add_option_function<std::string>(
         "--server",
         [](const std::string&) {
           throw CLI::ValidationError(
               "--server", "serve owns the file that --store names; the others' --server is it");
         })
      ->group("");
  app->add_flag("--read-only", options->read_only,
                "Do not own the store: it may be changed beside the server, never through it");
  app->add_option("--listen", options->listen, "Address and port; port 0 takes a free one")
      ->type_name("ADDR:PORT")
      ->capture_default_str();
  app->add_option("--tls-cert", options->tls_certificate, "Certificate chain, PEM")
      ->type_name("FILE");
  app->add_option("--tls-key", options->tls_key, "The certificate's private key, PEM")
      ->type_name("FILE");
  app->add_flag("--behind-proxy", options->behind_proxy,
                "A TLS proxy stands before this server: serve plain HTTP, and ask everybody for a "
                "token");
  app->add_option("--host", options->hosts, "Another name clients may call this server by")
      ->type_name("NAME");
  app->add_option("--repo", options->repository, "Repository name the releases are served under")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option("--access-log", options->access_log,
                  "Append a JSON line a request here instead of standard error; \"none\": no log")
      ->type_name("FILE");
  app->add_option_function<std::int64_t>(
         "--drain-seconds",
         [options](std::int64_t value) { options->drain_time = std::chrono::seconds(value); },
         "Time for requests under way when told to stop")
      ->type_name("N")
      ->default_str("30")
      ->check(CLI::Range(0, 3600));
  app->add_option_function<std::int64_t>(
         "--head-seconds",
         [options](std::int64_t value) { options->head_time = std::chrono::seconds(value); },
         "Time a client has to send a whole request")
      ->type_name("N")
      ->default_str("10")
      ->check(CLI::Range(1, 3600));
  app->add_option("--workers", options->workers, "Threads that answer")
      ->type_name("N")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->add_option("--max-connections", options->max_connections, "Open connections in all")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app->add_option_function<std::size_t>(
         "--max-per-peer", [options](std::size_t value) { options->max_per_peer = value; },
         "Open connections of one address, 0 for any number (default 512; any number from this "
         "machine and behind a proxy)")
      ->type_name("N");
  app->add_option("--cache-mib", options->cache_mib, "Memory for often wanted blobs, in MiB")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app->add_option("--body-mib", options->body_mib, "Memory for uploads under way, in MiB")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->callback([&cli, options] { cli.run = [options] { return server::serve(*options); }; });
}

}  // namespace cubinary::cli
