// SPDX-License-Identifier: Apache-2.0
#include "cli/store_choice.hpp"

namespace cubinary::cli {

void add_store_options(CLI::App& app, StoreChoice& choice, const char* store_help) {
  CLI::Option_group* group = app.add_option_group("Store", "where the store is");
  CLI::Option* file = group->add_option("--store", choice.file, store_help)->type_name("FILE");
  CLI::Option* server = group->add_option("--server", choice.server, "a server that owns the store")
                            ->type_name("URL")
                            ->excludes(file);
  app.parse_complete_callback([&choice] {
    if (choice.file.empty() && choice.server.empty()) {
      throw CLI::RequiredError("--store FILE or --server URL");
    }
  });
  app.add_option("--token-file", choice.token_file,
                 "the server's token, first line of a file (or CUBINARY_TOKEN)")
      ->type_name("F")
      ->needs(server);
}

}  // namespace cubinary::cli
