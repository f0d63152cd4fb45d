// SPDX-License-Identifier: Apache-2.0
// resolve [CUBINARY] [ENTRIES [QUERIES]]: latency of /api/v1/resolve on a store of so many released
// entries (default 1,000,000), beside /livez on the same connection: what HTTP alone costs on this
// machine.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/digest.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/manifest/manifest.hpp"
#include "core/table/kernel_table.hpp"
#include "core/wire/oci.hpp"
#include "store/releases.hpp"
#include "store/store.hpp"

namespace {

using namespace cubinary;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int k_releases = 10;
constexpr int k_shapes = 20;
constexpr int k_classes = 10;
constexpr int k_per_table = k_shapes * k_classes;
const std::vector<std::string> k_types = {"f64",     "f32", "f16", "bf16", "f8_e4m3",
                                          "f8_e5m2", "i64", "i32", "i8",   "u8"};

template <typename T>
T must(core::Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

std::string manifest_of(const std::string& name) {
  std::string types;
  for (const std::string& type : k_types) {
    types += "\"" + type + "\", ";
  }
  return "manifest = 1\nname = \"" + name +
         "\"\nsummary = \"y = x\"\nsource = \"k.cu\"\nentry = \"k<{T}, {VEC}>\"\ntypes.T = [" +
         types +
         "]\n[axes]\nn = { tune = [1024], bucket = \"log2\" }\n"
         "[tunables]\nVEC = { values = [1, 2], default = 1 }\n"
         "[rules]\nrequire = [\"n % VEC == 0\"]\n"
         "[launch]\ngrid = [\"ceil_div(n, 256 * VEC)\"]\nblock = [256]\nargs = [\n"
         "{ name = \"y\", out = \"T\", len = \"n\" },\n{ name = \"x\", in = \"T\", len = \"n\", "
         "fill = \"normal(0, 1)\" },\n{ name = \"count\", scalar = \"i32\", is = \"n\" } ]\n";
}

std::string device_class(int i) {
  return "sm90-s" + std::to_string(100 + i) + "-l50M-b5120-m80G";
}

core::KernelTable table_of(const std::string& name) {
  core::KernelTable table = core::table_from_manifest(
      must(core::parse_manifest(manifest_of(name), "/bench/kernel.toml")));
  for (const std::string& type : k_types) {
    for (int shape = 0; shape < k_shapes; ++shape) {
      for (int device = 0; device < k_classes; ++device) {
        core::TableEntry entry;
        entry.types = {{"T", type}};
        entry.shape = {{"n", std::int64_t{64} << shape}};
        entry.device_class = device_class(device);
        entry.config = {{"VEC", std::int64_t{1}}};
        entry.origin = core::Origin::tuned;
        entry.artifact = core::sha256(name + type);
        entry.size = 20'000;
        entry.symbols = {{"_Z1kI6__halfLi1EEvPT_PKS1_i", 1024, 32, 0, 0}};
        entry.time_us = 12.5;
        entry.confidence = 0.01;
        entry.provenance = {{"driver", "580.95"}, {"toolkit", "13.0"}};
        table.entries.push_back(std::move(entry));
      }
    }
  }
  table.pack = core::sha256("pack " + name);
  table.pack_size = 10'000;
  table.pack_raw_size = 200'000;
  return table;
}

void make_store(const fs::path& path, int kernels) {
  store::Store store =
      must(store::Store::open(path, {store::Access::write, true, "bench resolve"}));
  for (int r = 0; r < k_releases; ++r) {
    must(store.write([&](store::Writer& writer) -> core::Result<void> {
      store::NewRelease made;
      made.release.name = "r" + std::to_string(r);
      made.release.targets = {"sm_90"};
      const std::string index = "{\"release\":" + std::to_string(r) + "}";
      must(store::put_blob(writer, core::oci::k_index_type, core::as_bytes(index)));
      made.release.index = core::sha256(index);
      core::Catalogue catalogue{
          made.release.name, must(core::Target::parse("sm_90")), {13, 0}, 580, {}};
      for (int k = 0; k < kernels; ++k) {
        catalogue.kernels.push_back(table_of("kernel" + std::to_string(k)));
      }
      made.catalogues.push_back(std::move(catalogue));
      must(store::put_release(writer, made));
      return {};
    }));
  }
}

/// A running `cubinary serve` and one kept connection to it.
class Client {
 public:
  Client(const fs::path& program, const fs::path& store) {
    int out[2];
    if (::pipe(out) != 0) {
      throw std::runtime_error("no pipe");
    }
    m_child = ::fork();
    if (m_child == 0) {
      ::dup2(out[1], 1);
      ::execl(program.c_str(), program.c_str(), "serve", "--store", store.c_str(), "--listen",
              "127.0.0.1:0", "--access-log", "none", nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    std::string line;
    char c = 0;
    while (::read(out[0], &c, 1) == 1 && c != '\n') {
      line += c;
    }
    ::close(out[0]);
    const auto colon = line.rfind(':');
    if (line.find("serving") != 0 || colon == std::string::npos) {
      throw std::runtime_error("cannot start " + program.string() + " serve");
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    m_socket = core::UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
    const int on = 1;
    ::setsockopt(m_socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(m_socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }
  ~Client() {
    ::kill(m_child, SIGTERM);
    ::waitpid(m_child, nullptr, 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Milliseconds until the whole answer is there; anything but 200 throws.
  double ask(const std::string& target) {
    const std::string request = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const Clock::time_point begin = Clock::now();
    if (::send(m_socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
      throw std::runtime_error("cannot send");
    }
    std::string answer;
    std::size_t whole = 0;
    while (whole == 0 || answer.size() < whole) {
      char buffer[16384];
      const ssize_t count = ::recv(m_socket.get(), buffer, sizeof buffer, 0);
      if (count <= 0) {
        throw std::runtime_error("the server closed the connection");
      }
      answer.append(buffer, static_cast<std::size_t>(count));
      const auto end = answer.find("\r\n\r\n");
      if (whole == 0 && end != std::string::npos) {
        const auto at = answer.find("Content-Length: ");
        whole = end + 4 + std::stoul(answer.substr(at + 16));
      }
    }
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    if (answer.rfind("HTTP/1.1 200", 0) != 0) {
      throw std::runtime_error(target + ": " + answer);
    }
    return ms;
  }

 private:
  pid_t m_child = -1;
  core::UniqueFd m_socket;
};

void report(const char* what, std::vector<double> ms) {
  std::ranges::sort(ms);
  const auto at = [&](double q) {
    return ms[static_cast<std::size_t>(q * static_cast<double>(ms.size() - 1))];
  };
  std::printf("%-28s p50 %.3f ms   p99 %.3f ms   max %.3f ms   (%zu requests)\n", what, at(0.5),
              at(0.99), ms.back(), ms.size());
}

void run(const fs::path& program, int entries, int queries, const fs::path& folder) {
  const int tables = entries / (k_releases * k_per_table);
  const int kernels = std::max(1, tables / static_cast<int>(k_types.size()));
  const fs::path path = folder / "store.cubinary";
  make_store(path, kernels);
  std::printf("%d entries released in %d releases, %d kernels each; store %.0f MB\n",
              kernels * k_releases * k_per_table * static_cast<int>(k_types.size()), k_releases,
              kernels, static_cast<double>(fs::file_size(path)) / 1e6);
  Client client(program, path);
  std::mt19937 random(1);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<double> resolve;
  std::vector<double> livez;
  for (int i = 0; i < queries; ++i) {
    resolve.push_back(client.ask(
        "/api/v1/resolve?kernel=kernel" + std::to_string(pick(kernels)) +
        "&types=T:" + k_types[static_cast<std::size_t>(pick(static_cast<int>(k_types.size())))] +
        "&shape=n:" + std::to_string(64 + pick(1 << 20)) + "&device=" +
        device_class(pick(k_classes)) + "&release=r" + std::to_string(pick(k_releases))));
    livez.push_back(client.ask("/livez"));
  }
  report("resolve, uniformly random", std::move(resolve));
  report("livez on the same connection", std::move(livez));
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path here = fs::canonical("/proc/self/exe").parent_path();
  const fs::path program = argc > 1 ? fs::path(argv[1]) : here.parent_path() / "bin" / "cubinary";
  const auto folder = core::TemporaryFolder::make({}, "cubinary-bench-");
  if (!folder) {
    std::fprintf(stderr, "bench resolve: %s\n", folder.error().message.c_str());
    return 3;
  }
  int status = 0;
  try {
    run(program, argc > 2 ? std::atoi(argv[2]) : 1'000'000, argc > 3 ? std::atoi(argv[3]) : 5'000,
        folder->path());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench resolve: %s\n", error.what());
    status = 1;
  }
  return status;
}
