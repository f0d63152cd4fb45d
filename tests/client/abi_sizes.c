/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the layout of everything that crosses the C interface, for test_abi.py. */
#include "cubinary.h"
#include <stddef.h>
#include <stdio.h>

#define STRUCT(type) printf("struct %s %zu\n", #type, sizeof(type))
#define FIELD(type, field) \
  printf("  %s %zu %zu\n", #field, offsetof(type, field), sizeof(((type*)0)->field))
#define VALUE(name) printf("value %s %d\n", #name, (int)(name))

int main(void) {
  STRUCT(cubinary_options);
  FIELD(cubinary_options, size);
  FIELD(cubinary_options, source);
  FIELD(cubinary_options, keys);
  FIELD(cubinary_options, key_count);
  FIELD(cubinary_options, cache);
  FIELD(cubinary_options, token);
  FIELD(cubinary_options, timeout_seconds);
  FIELD(cubinary_options, offline);
  FIELD(cubinary_options, allow_unsigned);
  FIELD(cubinary_options, allow_expired);
  FIELD(cubinary_options, log);
  FIELD(cubinary_options, log_user);
  FIELD(cubinary_options, device_class);
  FIELD(cubinary_options, event);
  FIELD(cubinary_options, event_user);
  FIELD(cubinary_options, cache_limit);
  STRUCT(cubinary_type);
  FIELD(cubinary_type, name);
  FIELD(cubinary_type, dtype);
  STRUCT(cubinary_value);
  FIELD(cubinary_value, name);
  FIELD(cubinary_value, value);
  STRUCT(cubinary_query);
  FIELD(cubinary_query, size);
  FIELD(cubinary_query, kernel);
  FIELD(cubinary_query, interface_digest);
  FIELD(cubinary_query, types);
  FIELD(cubinary_query, type_count);
  FIELD(cubinary_query, axes);
  FIELD(cubinary_query, axis_count);
  FIELD(cubinary_query, alignments);
  FIELD(cubinary_query, alignment_count);
  FIELD(cubinary_query, require);
  STRUCT(cubinary_arg);
  FIELD(cubinary_arg, data);
  FIELD(cubinary_arg, size);
  STRUCT(cubinary_kernel_info);
  FIELD(cubinary_kernel_info, size);
  FIELD(cubinary_kernel_info, name);
  FIELD(cubinary_kernel_info, interface_digest);
  FIELD(cubinary_kernel_info, release);
  FIELD(cubinary_kernel_info, target);
  FIELD(cubinary_kernel_info, device_class);
  FIELD(cubinary_kernel_info, tuned_on);
  FIELD(cubinary_kernel_info, config);
  FIELD(cubinary_kernel_info, match);
  FIELD(cubinary_kernel_info, how);
  FIELD(cubinary_kernel_info, artifact);
  FIELD(cubinary_kernel_info, time_us);
  FIELD(cubinary_kernel_info, argument_count);
  FIELD(cubinary_kernel_info, workspace_size);
  STRUCT(cubinary_argument_info);
  FIELD(cubinary_argument_info, size);
  FIELD(cubinary_argument_info, name);
  FIELD(cubinary_argument_info, kind);
  FIELD(cubinary_argument_info, dtype);
  FIELD(cubinary_argument_info, value_size);
  FIELD(cubinary_argument_info, buffer_bytes);
  FIELD(cubinary_argument_info, alignment);
  FIELD(cubinary_argument_info, nullable);
  FIELD(cubinary_argument_info, has_default);
  STRUCT(cubinary_event);
  FIELD(cubinary_event, size);
  FIELD(cubinary_event, kind);
  FIELD(cubinary_event, name);
  FIELD(cubinary_event, bytes);
  FIELD(cubinary_event, milliseconds);
  FIELD(cubinary_event, compile_seconds);
  STRUCT(cubinary_stats);
  FIELD(cubinary_stats, size);
  FIELD(cubinary_stats, cache_hits);
  FIELD(cubinary_stats, cache_misses);
  FIELD(cubinary_stats, cache_bytes);
  FIELD(cubinary_stats, packs_fetched);
  FIELD(cubinary_stats, fetched_bytes);
  FIELD(cubinary_stats, loads);
  FIELD(cubinary_stats, loaded_bytes);
  FIELD(cubinary_stats, damaged);
  FIELD(cubinary_stats, fetch_milliseconds);
  FIELD(cubinary_stats, load_milliseconds);
  FIELD(cubinary_stats, compile_seconds_avoided);
  VALUE(CUBINARY_OK);
  VALUE(CUBINARY_ERROR_INTERNAL);
  VALUE(CUBINARY_ERROR_NOT_FOUND);
  VALUE(CUBINARY_ERROR_REVOKED);
  VALUE(CUBINARY_ERROR_UNSUPPORTED);
  VALUE(CUBINARY_MATCH_ANY);
  VALUE(CUBINARY_MATCH_EXACT);
  VALUE(CUBINARY_MATCH_NEAREST_SHAPE);
  VALUE(CUBINARY_MATCH_OTHER_CLASS);
  VALUE(CUBINARY_EVENT_HIT);
  VALUE(CUBINARY_EVENT_FETCH);
  VALUE(CUBINARY_EVENT_LOAD);
  VALUE(CUBINARY_EVENT_DAMAGED);
  return 0;
}
