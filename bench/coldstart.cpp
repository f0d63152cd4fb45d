// SPDX-License-Identifier: Apache-2.0
// coldstart SOURCE KEY.pub [--source URL]... [--rounds N] [--kernels 1,10,100] [--compile MS]
//
// From a process's start to loaded code, phase by phase, each time in a fresh process: with an
// empty cache, the same with prefetch, from the cache, and by hand from plain files. "Loaded" means
// that cuFuncLoad returned, on all sides. --source adds further ways to the same release (http,
// https).
// --compile: milliseconds one kernel takes to compile here, for the comparison. Needs a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "client/http.hpp"
#include "client/kernel.hpp"
#include "client/session.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/driver/driver.hpp"
#include "core/launch/names.hpp"

namespace {

using namespace cubinary;
using core::Result;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// One artifact that this device loads, and an entry that uses it.
struct Code {
  const core::KernelTable* table = nullptr;
  const core::TableEntry* entry = nullptr;
};

using Times = std::map<std::string, double>;

struct Wanted {
  std::string mode;  ///< empty, prefetch, cache, raw; late, late-cache: CUDA was begun before
  std::string source;
  std::string key;
  fs::path cache;
  fs::path plain;
  std::size_t kernels = 0;
};

client::SessionOptions session_options(const Wanted& wanted) {
  client::SessionOptions options;
  options.source = client::SourceName::parse(wanted.source).value();
  options.trust.keys.push_back(core::PublicKey::load(wanted.key).value());
  options.cache = wanted.cache;
  options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return options;
}

/// Kernels take turns, so that few are not all of one.
Result<std::vector<Code>> choose(client::Release& release, core::Capability capability,
                                 std::size_t count,
                                 std::vector<std::shared_ptr<const client::TargetTables>>& keep) {
  std::vector<std::vector<Code>> by_kernel;
  for (const auto& target : release.targets()) {
    if (!target.runs_on(capability)) {
      continue;
    }
    TRY_ASSIGN(auto tables, release.tables(target, client::deadline_after(60)));
    for (std::size_t i = 0; i < tables->size(); ++i) {
      TRY_ASSIGN(const core::KernelTable* read, tables->table(i));
      const core::KernelTable& table = *read;
      std::set<core::Digest> seen;
      std::vector<Code> codes;
      for (const auto& entry : table.entries) {
        if (seen.insert(entry.artifact).second) {
          codes.push_back({&table, &entry});
        }
      }
      by_kernel.push_back(std::move(codes));
    }
    keep.push_back(std::move(tables));
  }
  std::vector<Code> chosen;
  for (std::size_t row = 0; chosen.size() < count; ++row) {
    const std::size_t before = chosen.size();
    for (const auto& codes : by_kernel) {
      if (row < codes.size() && chosen.size() < count) {
        chosen.push_back(codes[row]);
      }
    }
    if (chosen.size() == before) {
      break;
    }
  }
  return chosen;
}

Result<void> load_functions(const core::Driver& driver, core::cuda::Module module,
                            const core::TableEntry& entry) {
  for (const auto& symbol : entry.symbols) {
    core::cuda::Function function = nullptr;
    TRY(driver.check(driver.module_function(&function, module, symbol.symbol.c_str()),
                     "cuModuleGetFunction"));
    if (driver.function_load != nullptr) {
      TRY(driver.check(driver.function_load(function), "cuFuncLoad"));
    }
  }
  return {};
}

/// What the table's entry was made for, and 1024 for every other axis.
client::Session::Query query_of(const Code& code) {
  client::Session::Query query;
  query.kernel = code.table->name;
  query.types = code.entry->types;
  query.shape = code.entry->shape;
  for (const auto& axis : code.table->axes) {
    query.shape.try_emplace(axis.name, 1024);
  }
  for (const auto& argument : code.table->arguments) {
    if (core::is_pointer(argument.kind)) {
      query.alignments.emplace(argument.name, 256);
    }
  }
  return query;
}

/// Launches the first of the kernels whose arguments are only pointers and defaults, and waits.
Result<void> launch_one(client::Session& session, const std::vector<Code>& codes) {
  const char* named = std::getenv("CUBINARY_LIBCUDA");
  void* library = ::dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW);
  const auto allocate = reinterpret_cast<int (*)(unsigned long long*, std::size_t)>(
      library == nullptr ? nullptr : ::dlsym(library, "cuMemAlloc_v2"));
  const auto synchronize = reinterpret_cast<int (*)()>(
      library == nullptr ? nullptr : ::dlsym(library, "cuCtxSynchronize"));
  for (const Code& code : codes) {
    auto kernel = session.resolve(query_of(code));
    if (!kernel || allocate == nullptr || synchronize == nullptr ||
        (*kernel)->plan().workspace_bytes != 0) {
      continue;
    }
    const auto& arguments = (*kernel)->plan().arguments;
    std::vector<unsigned long long> pointers(arguments.size());
    std::vector<client::ArgumentValue> values;
    bool simple = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool pointer = arguments[i].buffer_bytes != 0;
      simple = simple && (pointer || arguments[i].default_value);
      if (pointer && allocate(&pointers[i], arguments[i].buffer_bytes) != 0) {
        simple = false;
      }
      values.push_back(pointer ? client::ArgumentValue{&pointers[i], 8}
                               : client::ArgumentValue{nullptr, 0});
    }
    if (simple) {
      TRY((*kernel)->launch(values, nullptr));
      (void)synchronize();
      return {};
    }
  }
  return {};
}

/// What connecting costs, TLS and its certificates included: the first exchange of a connection
/// less a second one. On a connection of its own, so that it disturbs no other number; 0 for a
/// folder.
double connect_milliseconds(const Wanted& wanted) {
  const client::SourceName name = client::SourceName::parse(wanted.source).value();
  if (name.kind != client::SourceName::Kind::registry) {
    return 0;
  }
  client::HttpConnection connection(name.origin);
  const auto exchange = [&] {
    client::HttpRequest request;
    request.target = "/v2/";
    request.deadline = client::deadline_after(60);
    const auto begin = Clock::now();
    (void)connection.get(request);
    return milliseconds_since(begin);
  };
  const double first = exchange();
  return std::max(0.0, first - exchange());
}

/// The child: one start, its phases on one line as NAME=MS.
Result<Times> start_once(const Wanted& wanted) {
  Times times;
  const auto begin = Clock::now();
  std::shared_ptr<client::Session> session;
  const auto open = [&]() -> Result<void> {
    const auto opening = Clock::now();
    TRY_ASSIGN(session, client::Session::open(session_options(wanted)));
    times["open"] = milliseconds_since(opening);
    return {};
  };
  const bool late = wanted.mode.starts_with("late");
  if (wanted.mode != "raw" && !late) {
    TRY(open());
    if (wanted.mode == "prefetch") {
      session->prefetch({});
    }
  }
  auto at = Clock::now();
  TRY_ASSIGN(const core::Driver* driver, core::Driver::get());
  times["cuInit"] = milliseconds_since(at);
  at = Clock::now();
  core::cuda::Device device = 0;
  TRY(driver->check(driver->device_get(&device, 0), "cuDeviceGet"));
  core::cuda::Context context = nullptr;
  TRY(driver->check(driver->primary_retain(&context, device), "cuDevicePrimaryCtxRetain"));
  TRY(driver->check(driver->context_push(context), "cuCtxPushCurrent"));
  times["context"] = milliseconds_since(at);

  if (wanted.mode == "raw") {
    at = Clock::now();
    TRY_ASSIGN(const std::string list, core::read_text_file(wanted.plain / "list", 1U << 20U));
    std::istringstream lines(list);
    std::string file;
    std::string symbol;
    std::map<std::string, core::cuda::Module> modules;
    while (modules.size() <= wanted.kernels && lines >> file >> symbol) {
      auto& module = modules[file];
      if (module == nullptr) {
        if (modules.size() > wanted.kernels) {
          break;
        }
        TRY_ASSIGN(const core::Bytes bytes, core::read_file(wanted.plain / file, 1U << 30U));
        TRY(driver->check(driver->module_load(&module, bytes.data()), "cuModuleLoadData"));
      }
      core::cuda::Function function = nullptr;
      TRY(driver->check(driver->module_function(&function, module, symbol.c_str()),
                        "cuModuleGetFunction"));
      TRY(driver->check(driver->function_load(function), "cuFuncLoad"));
    }
    times["loaded"] = milliseconds_since(at);
    times["total"] = milliseconds_since(begin);
    return times;
  }

  if (late) {
    TRY(open());
  }
  at = Clock::now();
  TRY_ASSIGN(const auto current, session->current_context(*driver));
  TRY_ASSIGN(const auto read, session->device(*driver, current.device));
  std::vector<std::shared_ptr<const client::TargetTables>> keep;
  TRY_ASSIGN(const auto codes, choose(const_cast<client::Release&>(session->release()),
                                      read.device_class.capability, wanted.kernels, keep));
  // One of each kernel is resolved first, as a program does that knows what it will need: their
  // packs are on their way from then on.
  std::set<const core::KernelTable*> begun;
  for (const Code& code : codes) {
    if (!begun.contains(code.table) && session->resolve(query_of(code))) {
      begun.insert(code.table);
    }
  }
  if (begun.empty()) {
    return core::fail(core::ErrorCode::no_match, "none of the kernels resolves");
  }
  for (const Code& code : codes) {
    TRY_ASSIGN(const auto module,
               session->load(*driver, current, *code.table, code.entry->artifact));
    TRY(load_functions(*driver, module->module, *code.entry));
  }
  times["loaded"] = milliseconds_since(at);
  times["total"] = milliseconds_since(begin);

  const client::Stats stats = session->stats();
  const auto phase = [&](const char* name, client::Phase which) {
    times[name] = stats.milliseconds.at(static_cast<std::size_t>(which));
  };
  phase("index", client::Phase::index);
  phase("signature", client::Phase::signature);
  phase("catalogue", client::Phase::catalogue);
  phase("receive", client::Phase::receive);
  phase("unpack", client::Phase::unpack);
  phase("verify", client::Phase::verify);
  phase("read", client::Phase::read);
  times["load"] = stats.load_milliseconds;

  at = Clock::now();
  for (const Code& code : codes) {
    (void)session->resolve(query_of(code));  // a shape its rules refuse costs as much
  }
  times["resolve"] = milliseconds_since(at);
  at = Clock::now();
  TRY(launch_one(*session, codes));
  times["launch"] = milliseconds_since(at);
  at = Clock::now();
  session.reset();
  times["close"] = milliseconds_since(at);
  times["connect"] = connect_milliseconds(wanted);
  return times;
}

int child(char** argv) {
  const Wanted wanted{argv[2], argv[3], argv[4],
                      argv[5], argv[6], static_cast<std::size_t>(std::atoi(argv[7]))};
  const auto times = start_once(wanted);
  if (!times) {
    std::fprintf(stderr, "coldstart: %s: %s\n", wanted.mode.c_str(), times.error().message.c_str());
    return core::error_info(times.error().code).exit_status;
  }
  for (const auto& [name, value] : *times) {
    std::printf("%s=%.3f ", name.c_str(), value);
  }
  std::printf("\n");
  return 0;
}

// ---- the parent

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

std::optional<Times> run_child(const std::string& self, const Wanted& wanted) {
  const std::string command = quoted(self) + " --once " + wanted.mode + " " +
                              quoted(wanted.source) + " " + quoted(wanted.key) + " " +
                              quoted(wanted.cache.string()) + " " + quoted(wanted.plain.string()) +
                              " " + std::to_string(wanted.kernels);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return std::nullopt;
  }
  std::string text;
  char piece[512];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) {
    text += piece;
  }
  if (::pclose(pipe) != 0) {
    return std::nullopt;
  }
  Times times;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    times[word.substr(0, equals)] = std::strtod(word.c_str() + equals + 1, nullptr);
  }
  return times;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

/// The release's code as plain files, and a list of them with their functions, in the clients'
/// order.
Result<std::size_t> write_plain(const Wanted& wanted, core::Capability capability) {
  client::SessionOptions options = session_options(wanted);
  TRY_ASSIGN(const auto session, client::Session::open(std::move(options)));
  auto& release = const_cast<client::Release&>(session->release());
  std::vector<std::shared_ptr<const client::TargetTables>> keep;
  TRY_ASSIGN(const auto codes, choose(release, capability, 1'000'000, keep));
  std::string list;
  for (const Code& code : codes) {
    TRY_ASSIGN(const auto bytes,
               release.artifact(*code.table, code.entry->artifact, client::deadline_after(60)));
    TRY(core::write_file_atomic(wanted.plain / code.entry->artifact.hex(), bytes.view()));
    for (const auto& symbol : code.entry->symbols) {
      list += code.entry->artifact.hex() + " " + symbol.symbol + "\n";
    }
  }
  TRY(core::write_file_atomic(wanted.plain / "list", core::as_bytes(list)));
  return codes.size();
}

struct Arguments {
  std::vector<std::string> sources;
  std::string key;
  int rounds = 5;
  std::vector<std::size_t> kernels = {1, 10, 100};
  double compile_ms = 0;
};

void print_row(const std::string& name, std::size_t kernels, const std::vector<Times>& rounds,
               double raw_beyond) {
  const auto of = [&](const char* key) {
    std::vector<double> values;
    for (const Times& times : rounds) {
      const auto found = times.find(key);
      values.push_back(found == times.end() ? 0 : found->second);
    }
    return median(std::move(values));
  };
  std::vector<double> beyond;
  for (const Times& times : rounds) {
    beyond.push_back(times.at("total") - times.at("cuInit") - times.at("context"));
  }
  const double past = median(beyond);
  std::printf("%-26s %4zu %8.2f", name.c_str(), kernels, past);
  if (raw_beyond > 0) {
    std::printf(" %6.2fx", past / raw_beyond);
  } else {
    std::printf(" %7s", "");
  }
  for (const char* key :
       {"cuInit", "context", "open", "connect", "index", "signature", "catalogue", "receive",
        "unpack", "verify", "read", "load", "loaded", "resolve", "launch", "close"}) {
    std::printf(" %9.2f", of(key));
  }
  std::printf("\n");
  std::fflush(stdout);
}

Result<int> measure(const std::string& self, const Arguments& arguments) {
  TRY_ASSIGN(const core::TemporaryFolder folder,
             core::TemporaryFolder::make({}, "cubinary-coldstart-"));
  const fs::path& scratch = folder.path();
  Wanted wanted{"", arguments.sources.front(), arguments.key, scratch / "fill", scratch / "plain",
                0};
  std::size_t there = 0;
  {
    TRY_ASSIGN(const core::Driver* driver, core::Driver::get());
    core::cuda::Device device = 0;
    TRY(driver->check(driver->device_get(&device, 0), "cuDeviceGet"));
    TRY_ASSIGN(const auto read, core::read_device(*driver, device));
    TRY_ASSIGN(there, write_plain(wanted, read.device_class.capability));
    std::printf("%s (%s): %zu distinct kernels; milliseconds, medians of %d processes\n",
                read.name.c_str(), read.device_class.text().c_str(), there, arguments.rounds);
  }
  std::printf("%-26s %4s %8s %7s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n",
              "", "n", "beyond", "/ raw", "cuInit", "context", "open", "connect", "index",
              "signature", "catalogue", "receive", "unpack", "verify", "read", "load", "loaded",
              "resolve", "launch", "close");
  std::printf(
      "(beyond: start to loaded, less cuInit and context; phases that run side by side, or while "
      "cuInit does, are summed; one of each kernel is resolved on the way, resolve is of all n, "
      "afterwards)\n");
  int failures = 0;
  for (std::size_t count : arguments.kernels) {
    count = std::min(count, there);
    struct Row {
      std::string name;
      std::string mode;
      std::string source;
      std::string cache;  ///< a folder's name; "+": a new one each round
      std::vector<Times> rounds = {};
    };
    std::vector<Row> rows = {{"read + load by hand", "raw", arguments.sources.front(), "none"}};
    for (const std::string& source : arguments.sources) {
      const std::string kind = source.substr(0, source.find(':'));
      const std::string way = kind == "http" || kind == "https" ? kind : "folder";
      rows.push_back({way + ", empty cache", "empty", source, "+"});
      rows.push_back({way + ", empty, prefetch", "prefetch", source, "+"});
      // The first of them fills it, unmeasured.
      rows.push_back({way + ", from cache", "cache", source, way});
      if (way == "folder") {
        rows.push_back({way + ", empty, CUDA first", "late", source, "+"});
        rows.push_back({way + ", cache, CUDA first", "late-cache", source, way});
      }
    }
    // In turns, so that a machine that changes changes all of them.
    for (int round = -1; round < arguments.rounds; ++round) {
      for (Row& row : rows) {
        const bool filling = round < 0;
        if (filling && row.mode != "cache") {
          continue;
        }
        wanted.kernels = count;
        wanted.mode = row.mode;
        wanted.source = row.source;
        wanted.cache =
            scratch / (std::to_string(count) +
                       (row.cache == "+" ? row.name + std::to_string(round) : row.cache));
        auto times = run_child(self, wanted);
        if (!times) {
          ++failures;
        } else if (!filling) {
          row.rounds.push_back(*std::move(times));
        }
        if (row.cache == "+") {
          std::error_code ignored;
          fs::remove_all(wanted.cache, ignored);
        }
      }
    }
    double raw = 0;
    for (const Row& row : rows) {
      if (row.rounds.empty()) {
        continue;
      }
      print_row(row.name, count, row.rounds, raw);
      if (row.mode == "raw") {
        std::vector<double> beyond;
        for (const Times& times : row.rounds) {
          beyond.push_back(times.at("loaded"));
        }
        raw = median(beyond);
      }
    }
    if (arguments.compile_ms > 0) {
      std::printf("%-26s %4zu %8.2f   (a kernel after the other, %.0f ms each)\n",
                  "compiling them (NVRTC)", count,
                  arguments.compile_ms * static_cast<double>(count), arguments.compile_ms);
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 8 && std::strcmp(argv[1], "--once") == 0) {
    return child(argv);
  }
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word.starts_with("--") && value == nullptr) {
      std::fprintf(stderr, "coldstart: %s takes a value\n", word.c_str());
      return 2;
    }
    if (word == "--source") {
      arguments.sources.emplace_back(argv[++i]);
    } else if (word == "--rounds") {
      arguments.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--compile") {
      arguments.compile_ms = std::atof(argv[++i]);
    } else if (word == "--kernels") {
      arguments.kernels.clear();
      std::istringstream list(argv[++i]);
      for (std::string item; std::getline(list, item, ',');) {
        arguments.kernels.push_back(std::strtoul(item.c_str(), nullptr, 10));
      }
    } else if (arguments.sources.empty()) {
      arguments.sources.push_back(word);
    } else if (arguments.key.empty()) {
      arguments.key = word;
    } else {
      arguments.key.clear();
      break;
    }
  }
  if (arguments.sources.empty() || arguments.key.empty()) {
    std::fprintf(
        stderr,
        "usage: coldstart SOURCE KEY.pub [--source URL]... [--rounds N] [--kernels 1,10,100] "
        "[--compile MS]\n");
    return 2;
  }
  if (const auto driver = core::Driver::get(); !driver) {
    std::printf("SKIPPED: %s\n", driver.error().message.c_str());
    return 125;
  }
  const auto status = measure(fs::read_symlink("/proc/self/exe").string(), arguments);
  if (!status) {
    std::fprintf(stderr, "coldstart: %s\n", status.error().message.c_str());
    return core::error_info(status.error().code).exit_status;
  }
  return *status;
}
