// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/model/target.hpp"
#include "core/model/values.hpp"
#include "core/table/kernel_table.hpp"

namespace cubinary::core {

/// What the launch expressions may ask of the machine.
struct DeviceFacts {
  std::int64_t sm_count = 0;    ///< `device.sm_count`
  std::int64_t smem_optin = 0;  ///< bytes a block may opt in to; 0: the target's own limit
};

/// Alignment in bytes of each pointer the caller will pass, by argument name; one not named counts
/// as aligned to its element size only.
using Alignments = std::map<std::string, std::int64_t>;

/// The values all expressions of a table see for one config, shape and alignment. Names are looked
/// up where they stand: all that it is given, but for `device`, must outlive the scope.
class LaunchScope {
 public:
  /// Checks the names, and computes lets in order; errors name the let.
  [[nodiscard]] static Result<LaunchScope> make(const KernelTable& table, const Types& types,
                                                const Config& config, const Shape& shape,
                                                const Alignments& alignments, const Target& target,
                                                const DeviceFacts& device);
  static Result<LaunchScope> make(const KernelTable&, const Types&, Config&&, const Shape&,
                                  const Alignments&, const Target&, const DeviceFacts&) = delete;
  /// Without a config yet: only names are checked.
  [[nodiscard]] static Result<LaunchScope> make(const KernelTable& table, const Types& types,
                                                const Shape& shape, const Alignments& alignments,
                                                const Target& target, const DeviceFacts& device);
  /// From now on it is `config`'s, which costs far less than another scope.
  [[nodiscard]] Result<void> use(const Config& config);
  Result<void> use(Config&& config) = delete;

  [[nodiscard]] Result<std::int64_t> evaluate(const Expression& expression) const;
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view name) const;

  [[nodiscard]] const KernelTable& table() const { return *m_table; }
  [[nodiscard]] const Shape& shape() const { return *m_shape; }
  [[nodiscard]] const Target& target() const { return *m_target; }
  [[nodiscard]] const DeviceFacts& device() const { return m_device; }

 private:
  LaunchScope(const KernelTable& table, const Types& types, const Shape& shape,
              const Alignments& alignments, const Target& target, const DeviceFacts& device)
      : m_table(&table),
        m_types(&types),
        m_shape(&shape),
        m_alignments(&alignments),
        m_target(&target),
        m_device(device) {}
  [[nodiscard]] std::optional<std::int64_t> size_of(std::string_view type) const;
  [[nodiscard]] std::optional<std::int64_t> alignment_of(std::string_view argument) const;
  [[nodiscard]] std::optional<std::int64_t> machine(std::string_view name) const;

  const KernelTable* m_table;
  const Types* m_types;
  const Config* m_config = nullptr;  ///< none yet
  const Shape* m_shape;
  const Alignments* m_alignments;
  const Target* m_target;
  DeviceFacts m_device;
  std::vector<std::int64_t> m_lets;  ///< of the table's, as many as are computed
};

/// Whether every rule holds; the first that does not is `broken` (its text), an evaluation error
/// counts as not holding.
struct RuleCheck {
  bool ok = false;
  std::string broken;
};
[[nodiscard]] RuleCheck check_rules(const LaunchScope& scope);

/// Where one kernel parameter's value comes from at launch.
struct ParameterSource {
  enum class From : std::uint8_t {
    caller_pointer,  ///< 8 bytes, caller argument `index`
    caller_value,    ///< `size` bytes by value, caller argument `index` (scalar, bytes, handle)
    workspace,       ///< 8 bytes: workspace base + `offset`
    constant,        ///< `size` bytes of `value`
  };
  From from = From::constant;
  std::size_t index = 0;  ///< of the caller's argument
  std::uint64_t offset = 0;
  std::size_t size = 8;
  std::array<std::byte, 8> value{};
};

/// One launch, computed: all that is left at launch time is to fill in pointers and scalars.
struct StepPlan {
  std::size_t step = 0;  ///< index into the table's steps and entry's symbols
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{0, 0, 0};  ///< zeros: none, or of one block
  std::uint32_t dynamic_smem = 0;
  bool cooperative = false;
  bool empty = false;  ///< an empty grid: succeeds without a launch
  std::vector<ParameterSource> parameters;
};

/// What the caller passes, in order: the arguments without `is` and other than workspace.
struct CallerArgument {
  std::string name;
  ArgumentKind kind = ArgumentKind::in;
  std::string dtype;               ///< resolved canonical name; empty for bytes and handle
  std::size_t size = 8;            ///< bytes of the value passed (8 for pointers)
  std::uint64_t buffer_bytes = 0;  ///< pointers: bytes that must be behind it
  std::int64_t alignment = 1;      ///< pointers: what was promised at resolve; checked at launch
  bool nullable = false;
  std::optional<std::array<std::byte, 8>> default_value;  ///< scalars that may be left out
};

struct LaunchPlan {
  std::vector<StepPlan> steps;
  std::vector<CallerArgument> arguments;
  std::uint64_t workspace_bytes = 0;  ///< one allocation, 256-byte aligned parts
  /// Parts of the workspace that must be zero before the first step: offset and bytes.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> zeroed;
};

/// Plans the launches of `entry` for a shape. Refuses, by name: a rule that does not hold, a
/// negative axis, dimensions beyond CUDA's limits or the symbol's max_threads, shared memory beyond
/// the device's, a value that does not fit its scalar's type, lengths whose bytes overflow.
[[nodiscard]] Result<LaunchPlan> plan_launch(const KernelTable& table, const TableEntry& entry,
                                             const Shape& shape, const Alignments& alignments,
                                             const Target& target, const DeviceFacts& device);
/// The same in a scope of the table that uses the entry's config, once its rules hold.
[[nodiscard]] Result<LaunchPlan> plan_launch(const TableEntry& entry, const LaunchScope& scope);
/// What plan_launch says where a rule is broken.
[[nodiscard]] Error broken_rule(const TableEntry& entry, const LaunchScope& scope,
                                const RuleCheck& rules);

/// The caller-visible arguments of a table, in order, with no shape (sizes of buffers are 0).
[[nodiscard]] std::vector<CallerArgument> caller_arguments(const KernelTable& table,
                                                           const Types& types);

}  // namespace cubinary::core
