// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/expression/expression.hpp"
#include "core/model/target.hpp"
#include "core/model/values.hpp"

namespace cubinary::core {

/// Where in the manifest file something was written; 1-based, 0 when it came from a default.
struct SourceLocation {
  int line = 0;
  int column = 0;
};

/// An expression and where it stands.
struct LocatedExpression {
  Expression expression;
  SourceLocation location;
};

/// A dtype parameter: `types.T = ["f32"]` or `types.T = { values = [...], macro = "M", spelling =
/// {…} }`.
struct TypeParameter {
  std::string name;
  std::vector<std::string> values;              ///< canonical dtype names
  std::optional<std::string> macro;             ///< also defined as this macro when compiling
  std::map<std::string, std::string> spelling;  ///< dtype name → C++ spelling, overriding the table
};

enum class Bucket : std::uint8_t {
  exact,  ///< a winner serves only this very value
  log2,   ///< the nearest value by |log2((a+1)/(b+1))| serves
};

/// A problem-size parameter.
struct Axis {
  std::string name;
  std::vector<std::int64_t> tune;  ///< shapes to tune at; for a compile axis, the values compiled
  Bucket bucket = Bucket::exact;
  bool compile = false;  ///< part of the specialisation; `{name}` may stand in an entry
  std::optional<std::string> macro;
};

enum class TunableUse : std::uint8_t {
  template_argument,  ///< `as = "template"`: `{NAME}` in an entry
  define,             ///< `as = "define"`: a macro
  flag,               ///< `as = "flag"`: a compiler flag built from `flag = "-maxrregcount={}"`
  launch,             ///< `as = "launch"`: launch expressions only; no new cubin
  argument,           ///< `as = "arg"`: read by an argument's `is`; no new cubin
};
/// Whether a different value of such a tunable needs a different cubin.
[[nodiscard]] constexpr bool changes_code(TunableUse use) {
  return use == TunableUse::template_argument || use == TunableUse::define ||
         use == TunableUse::flag;
}

struct Tunable {
  std::string name;
  std::vector<TunableValue> values;  ///< distinct, all of one kind
  TunableValue default_value;        ///< one of `values`
  TunableUse use = TunableUse::template_argument;
  std::string macro;  ///< for define: the macro's name (default: the tunable's)
  std::string flag;   ///< for flag: the flag with one `{}`
};

enum class ArgumentKind : std::uint8_t { in, out, inout, scalar, workspace, bytes, handle };

/// One parameter of the kernel function, in order.
struct Argument {
  std::string name;
  ArgumentKind kind = ArgumentKind::in;
  /// Pointers and scalars: a type parameter's or dtype's name. Empty for bytes and handle.
  std::string type;
  std::optional<LocatedExpression> vector;  ///< elements a pointer is read by at once (`float4`:
                                            ///< 4); the pointer must be aligned to vector × size
  std::optional<LocatedExpression> length;  ///< pointers: elements (of `type`)
  std::optional<LocatedExpression> is;      ///< scalars: computed, not passed by the caller
  std::optional<double> default_value;      ///< scalars: used when the caller passes none
  std::int64_t byte_size = 0;               ///< bytes: size of the by-value struct; handle: 8
  std::int64_t byte_align = 0;              ///< bytes: its alignment (default 8)
  bool nullable = false;                    ///< pointers: null allowed
  bool zeroed = false;                      ///< workspace: `init = "zero"`
  std::string fill;                         ///< inputs: how a tuner fills it, as written
  SourceLocation location;
};

/// How one launch is shaped.
struct LaunchSpec {
  std::vector<LocatedExpression> grid;     ///< 1 to 3 dimensions, x first
  std::vector<LocatedExpression> block;    ///< 1 to 3 dimensions, x first
  std::optional<LocatedExpression> smem;   ///< dynamic shared memory in bytes
  std::vector<LocatedExpression> cluster;  ///< empty, or 3 dimensions (missing ones are 1)
  bool cooperative = false;
};

/// One launch of the kernel. A manifest without `[[step]]` has one, named "main".
struct Step {
  std::string name;
  std::string entry;  ///< with `{T}`, `{VEC}`, `{head_dim}` placeholders
  LaunchSpec launch;
  std::vector<std::size_t> arguments;  ///< indices into Manifest::arguments, in parameter order
  SourceLocation location;
};

/// A helper kernel for checking: the reference, or `prepare` for inputs that must agree.
struct HelperKernel {
  std::string source;  ///< empty: the manifest's own sources
  std::string entry;
  LaunchSpec launch;
  std::vector<std::size_t> arguments;
  SourceLocation location;
};

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

enum class Backend : std::uint8_t { nvrtc, nvcc };

/// One kernel family: what a build, a tuner, a client and an auditor need. A parsed manifest is
/// internally consistent: names resolve, expressions use only what is in scope where they stand,
/// lets have no cycle and are in dependency order. Immutable after parsing; safe to share between
/// threads.
struct Manifest {
  std::filesystem::path path;  ///< the file, for messages; never part of an identity
  std::string text;            ///< the file's bytes
  std::string name;
  std::string summary;
  std::vector<std::string> sources;   ///< relative to the manifest's folder
  std::vector<std::string> includes;  ///< include folders, relative to the manifest's folder
  std::vector<std::string> flags;
  Backend backend = Backend::nvrtc;
  std::vector<Target> targets;

  std::vector<TypeParameter> types;
  std::vector<Axis> axes;
  std::vector<Tunable> tunables;
  std::vector<std::pair<std::string, LocatedExpression>> lets;  ///< in dependency order
  std::vector<LocatedExpression> rules;                         ///< all must be non-zero
  /// How many of the first rules say which shapes the kernel is for at all, whatever the config.
  std::size_t shape_rules = 0;
  std::vector<Argument> arguments;
  std::vector<Step> steps;
  /// Untuned choices tried in order before the defaults; each overrides some defaults.
  std::vector<Config> prefer;

  std::optional<HelperKernel> reference;
  std::optional<HelperKernel> prepare;
  std::map<std::string, Tolerance> tolerance;  ///< by dtype of the output
  std::vector<Shape> also;                     ///< more shapes to check
  bool cold_cache = true;
  std::optional<LocatedExpression> bytes;  ///< bytes moved at least, for the roofline
  std::optional<LocatedExpression> flops;

  [[nodiscard]] const Tunable* find_tunable(std::string_view name) const;
  [[nodiscard]] const Axis* find_axis(std::string_view name) const;
  [[nodiscard]] const TypeParameter* find_type(std::string_view name) const;
  [[nodiscard]] const Argument* find_argument(std::string_view name) const;
  /// Every tunable at its default.
  [[nodiscard]] Config default_config() const;
};

/// Parses and validates. Errors are `manifest` and begin "FILE:LINE:COLUMN: "; unknown names carry
/// the nearest correct one. `path` is used for messages and for resolving relative paths, and need
/// not exist.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text,
                                              const std::filesystem::path& path);
/// Reads `path` (at most 1 MiB) and parses it.
[[nodiscard]] Result<Manifest> load_manifest(const std::filesystem::path& path);

/// Untuned coverage: `is`, lengths and launches permitting, some `prefer` or the default config
/// must be valid for every shape the kernel is for and for pointers aligned to their element only
/// (to `vector` elements, where no tunable decides how many). Samples shapes (0,
/// 1, 2, 3, odd numbers, primes, powers of two, large ones, `tune`, `also`) × types × compile axes
/// × alignment × targets; the first that nothing serves is a `manifest` error at the rule that
/// refused the default. Deterministic; well under a second.
[[nodiscard]] Result<void> check_default_covers(const Manifest& manifest);

/// What `interface_digest` hashes, for messages that show two interfaces side by side.
[[nodiscard]] std::string interface_text(const std::vector<Argument>& arguments);
/// The digest of the argument list callers see (names, kinds, types, order of arguments without
/// `is`): an application compiled against another list must not launch. Spelled in
/// schema/interface.md.
[[nodiscard]] Digest interface_digest(const Manifest& manifest);

}  // namespace cubinary::core
