// SPDX-License-Identifier: Apache-2.0
// The C interface against the recording driver.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/cubinary.h"
#include "client/include/cubinary.hpp"
#include "core/base/file.hpp"
#include "core/wire/signature.hpp"
#include "tests/client/test_layout.hpp"
#include "tests/scratch.hpp"

using namespace cubinary;

namespace {

/// One layout, key and cache for all cases, and the recording driver behind the library.
struct World {
  test::Scratch scratch;
  std::string layout = (scratch / "layout").string();
  std::string cache = (scratch / "cache").string();
  std::string log = (scratch / "log").string();
  std::string pem;
  void (*set_current)(int) = nullptr;

  World() {
    const auto key = core::PrivateKey::generate().value();
    pem = key.public_key().to_pem();
    test::write_release(layout, {}, {{key}}).value();
    ::setenv("CUBINARY_LIBCUDA", FAKE_LIBCUDA, 1);
    ::setenv("FAKE_CUDA_LOG", log.c_str(), 1);
    void* library = ::dlopen(FAKE_LIBCUDA, RTLD_NOW);
    set_current = reinterpret_cast<void (*)(int)>(::dlsym(library, "fake_cuda_set_current"));
  }
  static World& get() {
    static World world;
    return world;
  }
};

/// A test case's start: no current context, no failures asked for, an empty record.
struct Case {
  World& world = World::get();
  Case() {
    ::unsetenv("FAKE_CUDA_FAIL");
    ::unsetenv("FAKE_CUDA_CAPTURING");
    ::unsetenv("FAKE_CUDA_CC");
    world.set_current(-1);
    clear();
  }
  void clear() const { std::ofstream(world.log, std::ios::trunc).flush(); }
  std::vector<std::string> lines(const std::string& word) const {
    std::vector<std::string> found;
    std::ifstream file(world.log);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(word)) {
        found.push_back(line);
      }
    }
    return found;
  }
  context open() const {
    const char* keys[] = {world.pem.c_str()};
    cubinary_options options = CUBINARY_INIT(cubinary_options);
    options.source = world.layout.c_str();
    options.keys = keys;
    options.key_count = 1;
    options.cache = world.cache.c_str();
    return context(options);
  }
};

query scale(std::int64_t n, std::int64_t alignment = 16) {
  return {"scale",
          test::interface_of("scale"),
          {{"T", "f32"}},
          {{"n", n}},
          {{"x", alignment}, {"y", alignment}}};
}

template <typename F>
error failure(F&& body) {
  try {
    body();
  } catch (const error& e) {
    return e;
  }
  FAIL("it should not have worked");
  return {CUBINARY_OK, ""};
}

const std::uint64_t k_y = 0x7f0000001000;
const std::uint64_t k_x = 0x7f0000002000;

}  // namespace

TEST_CASE("open, resolve, launch: the launch is the table's") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve(scale(1024));
  const auto info = k.info();
  CHECK(std::string(info.name) == "scale");
  CHECK(std::string(info.match) == "exact");
  CHECK(std::string(info.target) == "sm_90");
  CHECK(std::string(info.config) == "VEC=4 WARPS=2");
  CHECK(std::string(info.device_class) == "sm90-s132-l50M-b5120-m80G");
  CHECK(std::string(info.tuned_on) == info.device_class);
  CHECK(info.time_us == 1.5);
  CHECK(info.argument_count == 3);
  CHECK(k.workspace_size() == 0);
  CHECK(std::string(k.argument_info(0).name) == "y");
  CHECK(k.argument_info(0).buffer_bytes == 4096);
  CHECK(k.argument_info(0).alignment == 16);
  CHECK(std::string(k.argument_info(2).kind) == "scalar");
  CHECK(k.argument_info(2).has_default == 1);

  k.launch(nullptr, k_y, k_x, 3.0F);
  const auto launches = c.lines("launch");
  REQUIRE(launches.size() == 1);
  CHECK(launches[0] ==
        "launch scale_f32_4__p8_8_8_4 grid=4,1,1 block=64,1,1 smem=0 stream=(nil) "
        "params=00007f0000001000,00007f0000002000,0000000000000400,40400000");
  CHECK(c.lines("cuModuleLoadData") ==
        std::vector<std::string>{"cuModuleLoadData CUBIN scale sm_90 f32 VEC=4"});
  CHECK(c.lines("cuFuncLoad").size() == 1);

  // Left out: the default, 2.0.
  k.launch(nullptr, k_y, k_x, nullptr);
  CHECK(c.lines("launch")[1].ends_with(",40000000"));
  // Nothing was loaded or looked up again.
  CHECK(c.lines("cuModuleLoadData").size() == 1);
}

TEST_CASE("shapes between, another class, a misaligned pointer: the cascade") {
  const Case c;
  context release = c.open();
  CHECK(std::string(release.resolve(scale(2000)).info().match) == "nearest-shape");
  CHECK(std::string(release.resolve(scale(2000)).info().config) == "VEC=4 WARPS=2");
  CHECK(std::string(release.resolve(scale(60000)).info().config) == "VEC=4 WARPS=8");
  CHECK(std::string(release.resolve(scale(1024, 4)).info().config) == "VEC=1 WARPS=4");
  CHECK(std::string(release.resolve(scale(1023)).info().match) == "default");
  c.world.set_current(1);  // the second device has fewer SMs
  CHECK(std::string(release.resolve(scale(1024)).info().match) == "other-class");
  query strict = scale(1024);
  strict.require = CUBINARY_MATCH_EXACT;
  CHECK(failure([&] { (void)release.resolve(strict); }).status() == CUBINARY_ERROR_NO_MATCH);
}

TEST_CASE("two steps: workspace, every kind of argument, cooperative and cluster launches") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve({"split", CUBINARY_ANY_INTERFACE, {{"T", "f32"}}, {{"n", 256}}, {}});
  // 100 floats, aligned up to 256, and 4 ints.
  REQUIRE(k.workspace_size() >= 512 + 16);
  struct {
    std::uint64_t low = 0x1111, high = 0x2222;
  } config;
  const std::uint64_t tensor = 0xabcd;
  const std::uint64_t workspace = 0x7f0000100000;
  k.launch(reinterpret_cast<CUstream_st*>(0x51), k_y, nullptr, config, tensor, workspace);
  const auto launches = c.lines("launch");
  REQUIRE(launches.size() == 2);
  CHECK(launches[0] ==
        "launch split_first__p8_16_8_8_8_4 grid=4,4,1 block=64,1,1 smem=100000 stream=0x51 "
        "cooperative=1 params=00007f0000001000,00000000000022220000000000001111,"
        "000000000000abcd,00007f0000100000,00007f0000100200,00000004");
  CHECK(launches[1] ==
        "launch split_second__p8_8_8 grid=4,1,1 block=128,1,1 smem=0 stream=0x51 cluster=2,1,1 "
        "params=00007f0000001000,0000000000000000,00007f0000100000");
  CHECK(c.lines("memset") == std::vector<std::string>{"memset 0x7f0000100200 0 16 0x51"});
  CHECK(c.lines("cuFuncSetAttribute") ==
        std::vector<std::string>{"cuFuncSetAttribute split_first__p8_16_8_8_8_4 8 100000"});

  CHECK(failure([&] { k.launch(nullptr, k_y, nullptr, config, tensor); }).status() ==
        CUBINARY_ERROR_USAGE);
  CHECK(failure([&] { k.launch(nullptr, k_y, nullptr, config, tensor, workspace + 8); }).status() ==
        CUBINARY_ERROR_USAGE);
  CHECK(c.lines("launch").size() == 2);
}

TEST_CASE("wrong arguments are refused before the driver is touched") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve(scale(1024));
  k.prepare();
  c.clear();
  const std::uint64_t null = 0;
  const auto refused = [&](auto&&... args) {
    const error e = failure([&] { k.launch(nullptr, args...); });
    CHECK(e.status() == CUBINARY_ERROR_USAGE);
    return std::string(e.what());
  };
  CHECK(refused(k_y, k_x).find("takes 3 arguments; 2 were passed") != std::string::npos);
  CHECK(refused(k_y, k_x, 1.0).find("argument 3 (a)") != std::string::npos);  // a double
  CHECK(refused(k_y, null, 1.0F).find("argument 2 (x): the pointer is null") != std::string::npos);
  CHECK(refused(nullptr, k_x, 1.0F).find("argument 1 (y)") != std::string::npos);
  CHECK(refused(k_y + 4, k_x, 1.0F).find("not aligned to the 16 bytes") != std::string::npos);
  CHECK(refused(static_cast<int>(k_y), k_x, 1.0F).find("8 bytes (a pointer); 4 were passed") !=
        std::string::npos);
  CHECK(c.lines("").empty());
}

TEST_CASE("an empty problem succeeds without a launch, and without loading") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve(scale(0));
  const std::uint64_t null = 0;
  k.launch(nullptr, null, null, 1.0F);
  CHECK(c.lines("launch").empty());
  CHECK(c.lines("cuModuleLoadData").empty());
}

TEST_CASE("inside a capture only what is loaded launches") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve(scale(1024));
  c.clear();
  ::setenv("FAKE_CUDA_CAPTURING", "1", 1);
  const error e = failure([&] { k.launch(nullptr, k_y, k_x, 1.0F); });
  CHECK(e.status() == CUBINARY_ERROR_USAGE);
  CHECK(std::string(e.what()).find("cubinary_prepare") != std::string::npos);
  CHECK(c.lines("cuModuleLoadData").empty());
  ::unsetenv("FAKE_CUDA_CAPTURING");
  k.prepare();
  ::setenv("FAKE_CUDA_CAPTURING", "1", 1);
  k.launch(nullptr, k_y, k_x, 1.0F);
  CHECK(c.lines("launch").size() == 1);
}

TEST_CASE("contexts: the current one, else the primary one; never another's") {
  const Case c;
  {
    context release = c.open();
    kernel k = release.resolve(scale(1024));
    k.launch(nullptr, k_y, k_x, 1.0F);  // nothing current: the primary one, pushed and popped
    CHECK(c.lines("cuDevicePrimaryCtxRetain").size() == 1);
    CHECK(c.lines("cuCtxPushCurrent").size() == c.lines("cuCtxPopCurrent").size());
    c.world.set_current(1);
    CHECK(failure([&] { k.launch(nullptr, k_y, k_x, 1.0F); }).status() == CUBINARY_ERROR_USAGE);
    kernel other = release.resolve(scale(1024));
    other.launch(nullptr, k_y, k_x, 1.0F);
    CHECK(c.lines("cuModuleLoadData").size() == 2);  // once a context
    c.world.set_current(0);
    CHECK(failure([&] { other.launch(nullptr, k_y, k_x, 1.0F); }).status() == CUBINARY_ERROR_USAGE);
    k.launch(nullptr, k_y, k_x, 1.0F);
    CHECK(c.lines("launch").size() == 3);
  }
  CHECK(c.lines("cuModuleUnload").size() == 2);
  CHECK(c.lines("cuDevicePrimaryCtxRelease").size() == 1);
}

TEST_CASE("a kernel outlives its context, and modules are shared") {
  const Case c;
  std::vector<kernel> kernels;
  {
    context release = c.open();
    kernels.push_back(release.resolve(scale(1024)));
    kernels.push_back(release.resolve(scale(65536)));
  }
  for (auto& k : kernels) {
    k.launch(nullptr, k_y, k_x, 1.0F);
  }
  CHECK(c.lines("launch").size() == 2);
  CHECK(c.lines("cuModuleLoadData").size() == 1);
  kernels.clear();
  CHECK(c.lines("cuModuleUnload").size() == 1);
}

TEST_CASE("what the driver refuses is told in its own words") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve(scale(1024));
  ::setenv("FAKE_CUDA_FAIL", "cuModuleLoadData:209", 1);
  const error load = failure([&] { k.prepare(); });
  CHECK(load.status() == CUBINARY_ERROR_BAD_CUBIN);
  CHECK(std::string(load.what()).find("CUDA_ERROR_NO_BINARY_FOR_GPU") != std::string::npos);
  CHECK(std::string(load.what()).find("scale") != std::string::npos);
  ::setenv("FAKE_CUDA_FAIL", "cuFuncLoad:2", 1);
  CHECK(failure([&] { k.prepare(); }).status() == CUBINARY_ERROR_CUDA);
  ::unsetenv("FAKE_CUDA_FAIL");
  k.prepare();  // a failure is not for ever
  ::setenv("FAKE_CUDA_FAIL", "cuLaunchKernel:700", 1);
  const error launch = failure([&] { k.launch(nullptr, k_y, k_x, 1.0F); });
  CHECK(launch.status() == CUBINARY_ERROR_CUDA);
  CHECK(std::string(launch.what()).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
}

TEST_CASE("another interface never launches") {
  const Case c;
  context release = c.open();
  query wrong = scale(1024);
  wrong.interface_digest = test::interface_of("split");
  const error e = failure([&] { (void)release.resolve(wrong); });
  CHECK(e.status() == CUBINARY_ERROR_INTERFACE_MISMATCH);
  wrong.interface_digest = "nonsense";
  CHECK(failure([&] { (void)release.resolve(wrong); }).status() == CUBINARY_ERROR_USAGE);
}

TEST_CASE("queries that make no sense") {
  const Case c;
  context release = c.open();
  const auto refused = [&](const query& q) {
    return failure([&] { (void)release.resolve(q); }).status();
  };
  query q = scale(1024);
  q.types = {{"T", "f64"}};
  CHECK(refused(q) != CUBINARY_OK);
  q = scale(1024);
  q.types.clear();
  CHECK(refused(q) == CUBINARY_ERROR_USAGE);
  q = scale(1024);
  q.axes = {{"m", 1}};
  CHECK(refused(q) == CUBINARY_ERROR_USAGE);
  CHECK(refused(scale(-1)) == CUBINARY_ERROR_USAGE);
  q = scale(1024);
  q.alignments = {{"x", 3}};
  CHECK(refused(q) == CUBINARY_ERROR_USAGE);

  cubinary_context* none = nullptr;
  CHECK(cubinary_open(nullptr, &none) == CUBINARY_ERROR_USAGE);
  cubinary_options unsized{};
  CHECK(cubinary_open(&unsized, &none) == CUBINARY_ERROR_USAGE);
  CHECK(std::string(cubinary_error_message(nullptr)).find("sizeof") != std::string::npos);
  CHECK(none == nullptr);
  struct {
    cubinary_options known;
    std::uint64_t newer;
  } future{};
  future.known.size = sizeof future;
  future.known.source = "/nowhere";
  future.newer = 1;
  CHECK(cubinary_open(&future.known, &none) == CUBINARY_ERROR_UNSUPPORTED);
  CHECK(cubinary_prepare(nullptr) == CUBINARY_ERROR_USAGE);
  CHECK(cubinary_launch(nullptr, nullptr, 0, nullptr) == CUBINARY_ERROR_USAGE);
  cubinary_close(nullptr);
  cubinary_kernel_free(nullptr);
  CHECK(std::string(cubinary_status_name(CUBINARY_ERROR_NO_MATCH)) == "no_match");
  CHECK(std::string(cubinary_status_name(static_cast<cubinary_status>(60))) == "unknown");
}

TEST_CASE("many threads prepare and launch one kernel: it is loaded once") {
  const Case c;
  context release = c.open();
  kernel k = release.resolve(scale(1024));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { k.launch(nullptr, k_y, k_x, 1.0F); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(c.lines("cuModuleLoadData").size() == 1);
  CHECK(c.lines("launch").size() == 8);
}

TEST_CASE("resolving for a given class needs no driver's answer") {
  const Case c;
  const char* keys[] = {c.world.pem.c_str()};
  cubinary_options options = CUBINARY_INIT(cubinary_options);
  options.source = c.world.layout.c_str();
  options.keys = keys;
  options.key_count = 1;
  options.cache = "";
  options.device_class = "sm120-s188-l128M-b512-m96G";
  context release(options);
  CHECK(std::string(release.resolve(scale(1024)).info().target) == "sm_120");
  CHECK(c.lines("").empty());
  kernel k = release.resolve(scale(1024));
  CHECK(failure([&] { k.prepare(); }).status() == CUBINARY_ERROR_USAGE);  // the GPU is an sm_90
}

namespace {

cubinary_options options_of(const World& world, const char* const* keys) {
  cubinary_options options = CUBINARY_INIT(cubinary_options);
  options.source = world.layout.c_str();
  options.keys = keys;
  options.key_count = 1;
  return options;
}

struct Events {
  std::mutex mutex;
  std::map<int, int> counts;
  std::map<int, std::uint64_t> bytes;
  static void tell(void* user, const cubinary_event* event) {
    auto& self = *static_cast<Events*>(user);
    const std::lock_guard lock(self.mutex);
    ++self.counts[event->kind];
    self.bytes[event->kind] += event->bytes;
  }
};

}  // namespace

TEST_CASE("a whole release is fetched ahead; events and sums tell what happened") {
  const Case test;
  const test::Scratch scratch;
  const std::string cache = scratch.path().string();
  const char* keys[] = {test.world.pem.c_str()};
  Events events;
  cubinary_options options = options_of(test.world, keys);
  options.cache = cache.c_str();
  options.event = Events::tell;
  options.event_user = &events;
  {
    context release(options);
    check(cubinary_prefetch(release.get(), nullptr, 0));
    check(cubinary_prefetch_wait(release.get()));
    CHECK(events.counts[CUBINARY_EVENT_FETCH] == 2);  // sm_90's two packs; sm_120 does not run here
    release.resolve(scale(1024)).prepare();
    cubinary_stats stats = CUBINARY_INIT(cubinary_stats);
    check(cubinary_get_stats(release.get(), &stats));
    CHECK(stats.packs_fetched == 2);
    CHECK(stats.cache_misses == 2);
    CHECK(stats.cache_hits == 0);
    CHECK(stats.loads == 1);
    CHECK(stats.fetched_bytes == events.bytes[CUBINARY_EVENT_FETCH]);
    CHECK(stats.loaded_bytes == events.bytes[CUBINARY_EVENT_LOAD]);
    CHECK(stats.loaded_bytes > 0);
    CHECK(stats.compile_seconds_avoided == 0.25);
  }
  // Closed: everything is in the cache, for those without the source too.
  options.offline = 1;
  context again(options);
  again.resolve(scale(1024)).prepare();
  cubinary_stats stats = CUBINARY_INIT(cubinary_stats);
  check(cubinary_get_stats(again.get(), &stats));
  CHECK(stats.cache_hits == 1);
  CHECK(stats.packs_fetched == 0);
  CHECK(events.counts[CUBINARY_EVENT_HIT] == 1);
}

TEST_CASE("only named kernels are fetched ahead, and a failure is told once") {
  const Case test;
  const char* keys[] = {test.world.pem.c_str()};
  cubinary_options options = options_of(test.world, keys);
  options.cache = "";
  context release(options);
  const char* kernels[] = {"sc*"};
  check(cubinary_prefetch(release.get(), kernels, 1));
  check(cubinary_prefetch_wait(release.get()));
  cubinary_stats stats = CUBINARY_INIT(cubinary_stats);
  check(cubinary_get_stats(release.get(), &stats));
  CHECK(stats.packs_fetched == 1);
  ::setenv("FAKE_CUDA_FAIL", "cuDeviceGetCount:999", 1);
  check(cubinary_prefetch(release.get(), nullptr, 0));
  CHECK(cubinary_prefetch_wait(release.get()) == CUBINARY_ERROR_CUDA);
  CHECK(cubinary_prefetch_wait(release.get()) == CUBINARY_OK);
  CHECK(cubinary_prefetch(release.get(), nullptr, 3) == CUBINARY_ERROR_USAGE);
}

TEST_CASE("in a forked child everything answers with an error, and nothing hangs") {
  const Case test;
  const char* keys[] = {test.world.pem.c_str()};
  const test::Scratch scratch;
  const std::string cache = scratch.path().string();
  cubinary_options options = options_of(test.world, keys);
  options.cache = cache.c_str();
  context release(options);
  kernel scaled = release.resolve(scale(1024));
  scaled.prepare();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // What is checked here is told by the exit status: the test framework is the parent's.
    cubinary_kernel* unused = nullptr;
    cubinary_query query = CUBINARY_INIT(cubinary_query);
    int failures = 0;
    failures += cubinary_resolve(release.get(), &query, &unused) != CUBINARY_ERROR_USAGE;
    failures += std::strstr(cubinary_error_message(nullptr), "forked") == nullptr;
    failures += cubinary_launch(scaled.get(), nullptr, 0, nullptr) != CUBINARY_ERROR_USAGE;
    cubinary_kernel_free(scaled.get());
    cubinary_close(release.get());
#ifndef __SANITIZE_THREAD__  // which cannot start threads after a fork
    // Opened anew it works, up to the driver, which the parent has used.
    const char* own_keys[] = {test.world.pem.c_str()};
    cubinary_options own = options_of(test.world, own_keys);
    own.cache = "";
    cubinary_context* opened = nullptr;
    failures += cubinary_open(&own, &opened) != CUBINARY_OK;
    failures += cubinary_prefetch(opened, nullptr, 0) != CUBINARY_OK;
    failures += cubinary_prefetch_wait(opened) != CUBINARY_ERROR_DRIVER;
    failures += std::strstr(cubinary_error_message(nullptr), "before the first use") == nullptr;
    cubinary_close(opened);
#endif
    ::_exit(failures);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  scaled.launch(nullptr, std::uint64_t{0x10000}, std::uint64_t{0x20000}, 3.0F);  // still well here
}
