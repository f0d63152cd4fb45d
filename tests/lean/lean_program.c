/* SPDX-License-Identifier: Apache-2.0 */
/* lean_program SOURCE KEY CACHE: what an application does, on a machine with libc and nothing else.
 */
#include "cubinary.h"
#include <stdio.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, cubinary_error_message(NULL));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    return 2;
  }
  const char* keys[] = {argv[2]};
  cubinary_options options = CUBINARY_INIT(cubinary_options);
  options.source = argv[1];
  options.keys = keys;
  options.key_count = 1;
  options.cache = argv[3];
  cubinary_context* context = NULL;
  if (cubinary_open(&options, &context) != CUBINARY_OK) {
    return failed("open");
  }

  const cubinary_type types[] = {{"T", "f32"}};
  const cubinary_value axes[] = {{"n", 1024}};
  const cubinary_value alignments[] = {{"x", 16}, {"y", 16}};
  cubinary_query query = CUBINARY_INIT(cubinary_query);
  query.kernel = "scale";
  query.interface_digest = CUBINARY_ANY_INTERFACE;
  query.types = types;
  query.type_count = 1;
  query.axes = axes;
  query.axis_count = 1;
  query.alignments = alignments;
  query.alignment_count = 2;
  cubinary_kernel* kernel = NULL;
  if (cubinary_resolve(context, &query, &kernel) != CUBINARY_OK) {
    return failed("resolve");
  }
  if (cubinary_prepare(kernel) != CUBINARY_OK) {
    return failed("prepare");
  }
  const uint64_t y = 0x10000;
  const uint64_t x = 0x20000;
  const float a = 3.0f;
  const cubinary_arg args[] = {CUBINARY_ARG(y), CUBINARY_ARG(x), CUBINARY_ARG(a)};
  if (cubinary_launch(kernel, args, 3, NULL) != CUBINARY_OK) {
    return failed("launch");
  }
  cubinary_kernel_info info = CUBINARY_INIT(cubinary_kernel_info);
  if (cubinary_kernel_get_info(kernel, &info) != CUBINARY_OK) {
    return failed("info");
  }
  printf("%s %s %s %s\n", info.name, info.target, info.match, info.config);
  cubinary_kernel_free(kernel);
  cubinary_close(context);
  return 0;
}
