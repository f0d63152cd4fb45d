// SPDX-License-Identifier: Apache-2.0
// load SOURCE KEY.pub [ROUNDS]: what a release costs to load through the client, against reading
// the same code from plain files and loading it by hand. Both sides end with every function loaded.
// Needs a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "client/session.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/driver/driver.hpp"

namespace {

using namespace cubinary;
using core::Result;
namespace fs = std::filesystem;

/// One artifact that this device loads, and the functions in it.
struct Code {
  const core::KernelTable* table;
  core::Digest digest;
  std::uint64_t size;
  std::vector<std::string> symbols;
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

Result<void> load_functions(const core::Driver& driver, core::cuda::Module module,
                            const Code& code) {
  for (const std::string& symbol : code.symbols) {
    core::cuda::Function function = nullptr;
    TRY(driver.check(driver.module_function(&function, module, symbol.c_str()),
                     "cuModuleGetFunction"));
    if (driver.function_load != nullptr) {
      TRY(driver.check(driver.function_load(function), "cuFuncLoad"));
    }
  }
  return {};
}

Result<double> by_hand(const core::Driver& driver, const fs::path& folder,
                       const std::vector<Code>& codes) {
  std::vector<core::cuda::Module> modules;
  const auto begin = std::chrono::steady_clock::now();
  for (const Code& code : codes) {
    TRY_ASSIGN(const core::Bytes bytes, core::read_file(folder / code.digest.hex(), code.size));
    core::cuda::Module module = nullptr;
    TRY(driver.check(driver.module_load(&module, bytes.data()), "cuModuleLoadData"));
    modules.push_back(module);
    TRY(load_functions(driver, module, code));
  }
  const double took = milliseconds_since(begin);
  for (const auto module : modules) {
    TRY(driver.check(driver.module_unload(module), "cuModuleUnload"));
  }
  return took;
}

Result<double> through_client(const core::Driver& driver, const client::SessionOptions& options,
                              const std::vector<Code>& codes) {
  const auto begin = std::chrono::steady_clock::now();
  TRY_ASSIGN(const auto session, client::Session::open(options));
  TRY_ASSIGN(const auto current, session->current_context(driver));
  TRY_ASSIGN(const auto scope, client::ContextScope::enter(driver, current));
  for (const Code& code : codes) {
    TRY_ASSIGN(const auto module, session->load(driver, current, *code.table, code.digest));
    TRY(load_functions(driver, module->module, code));
  }
  return milliseconds_since(begin);
}

Result<int> run(const std::string& source, const std::string& key, int rounds) {
  const auto driver_or = core::Driver::get();
  if (!driver_or) {
    std::printf("SKIPPED: %s\n", driver_or.error().message.c_str());
    return 125;
  }
  const core::Driver& driver = **driver_or;
  TRY_ASSIGN(const core::TemporaryFolder folder, core::TemporaryFolder::make({}, "cubinary-load-"));
  const fs::path& scratch = folder.path();

  client::SessionOptions options;
  TRY_ASSIGN(options.source, client::SourceName::parse(source));
  TRY_ASSIGN(core::PublicKey public_key, core::PublicKey::load(key));
  options.trust.keys.push_back(std::move(public_key));
  options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };

  // A session of its own holds the context and the tables all the while, and fills the plain files.
  options.cache = scratch / "fill";
  TRY_ASSIGN(const auto holder, client::Session::open(options));
  TRY_ASSIGN(const auto current, holder->current_context(driver));
  TRY_ASSIGN(const auto scope, client::ContextScope::enter(driver, current));
  TRY_ASSIGN(const auto device, holder->device(driver, current.device));
  auto cache = std::make_shared<client::Cache>(
      client::Cache::Options{.directory = options.cache, .log = options.log});
  TRY_ASSIGN(const auto release, client::Release::open(options.source,
                                                       {.trust = options.trust,
                                                        .offline = false,
                                                        .token = {},
                                                        .deadline = client::deadline_after(600),
                                                        .log = options.log},
                                                       cache));
  std::vector<Code> codes;
  std::vector<std::shared_ptr<const client::TargetTables>> owners;  // of what `codes` points to
  std::uint64_t bytes = 0;
  for (const auto& target : release->targets()) {
    if (!target.runs_on(device.device_class.capability)) {
      continue;
    }
    TRY_ASSIGN(const auto tables, release->tables(target, client::deadline_after(600)));
    owners.push_back(tables);
    for (std::size_t i = 0; i < tables->size(); ++i) {
      TRY_ASSIGN(const core::KernelTable* table_read, tables->table(i));
      const core::KernelTable& table = *table_read;
      std::map<core::Digest, Code> distinct;
      for (const auto& entry : table.entries) {
        std::vector<std::string> symbols;
        for (const auto& symbol : entry.symbols) {
          symbols.push_back(symbol.symbol);
        }
        distinct.try_emplace(entry.artifact, Code{&table, entry.artifact, entry.size, symbols});
      }
      for (auto& [digest, code] : distinct) {
        TRY_ASSIGN(const client::SharedBytes data,
                   release->artifact(table, digest, client::deadline_after(600)));
        TRY(core::write_file_atomic(scratch / "plain" / digest.hex(), data.view()));
        bytes += code.size;
        codes.push_back(std::move(code));
      }
    }
  }

  std::vector<double> hand;
  std::vector<double> cold;
  std::vector<double> warm;
  for (int round = 0; round < rounds; ++round) {
    TRY_ASSIGN(const double a, by_hand(driver, scratch / "plain", codes));
    options.cache = scratch / ("cache" + std::to_string(round));
    TRY_ASSIGN(const double b, through_client(driver, options, codes));
    TRY_ASSIGN(const double c, through_client(driver, options, codes));
    hand.push_back(a);
    cold.push_back(b);
    warm.push_back(c);
  }
  const auto median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const double base = median(hand);
  std::printf("%s (%s): %zu artifacts, %llu bytes, median of %d rounds\n", device.name.c_str(),
              device.device_class.text().c_str(), codes.size(),
              static_cast<unsigned long long>(bytes), rounds);
  std::printf("read files + cuModuleLoadData + cuFuncLoad   %8.2f ms\n", base);
  std::printf("client, empty cache (open, fetch, verify)    %8.2f ms   %.2fx, %+.2f ms\n",
              median(cold), median(cold) / base, median(cold) - base);
  std::printf("client, from its cache (open, verify)        %8.2f ms   %.2fx\n", median(warm),
              median(warm) / base);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: load SOURCE KEY.pub [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc == 4 ? std::max(1, std::atoi(argv[3])) : 9;
  const auto status = run(argv[1], argv[2], rounds);
  if (!status) {
    std::fprintf(stderr, "load: %s\n", status.error().message.c_str());
    return core::error_info(status.error().code).exit_status;
  }
  return *status;
}
