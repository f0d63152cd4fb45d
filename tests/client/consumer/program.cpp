// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <cubinary.hpp>

int main(int argc, char** argv) {
  if (argc != 4) {
    return 2;
  }
  try {
    const char* keys[] = {argv[2]};
    cubinary_options options = CUBINARY_INIT(cubinary_options);
    options.source = argv[1];
    options.keys = keys;
    options.key_count = 1;
    options.cache = argv[3];
    cubinary::context release(options);
    cubinary::kernel kernel = release.resolve(
        {"scale", CUBINARY_ANY_INTERFACE, {{"T", "f32"}}, {{"n", 1024}}, {{"x", 16}, {"y", 16}}});
    kernel.launch(nullptr, std::uint64_t{0x10000}, std::uint64_t{0x20000}, 3.0F);
    const cubinary_kernel_info info = kernel.info();
    std::printf("%s %s %s %s\n", info.name, info.target, info.match, info.config);
  } catch (const cubinary::error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
