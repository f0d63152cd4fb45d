// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "core/manifest/manifest.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

constexpr std::array<std::int64_t, 12> k_sizes = {0,   1,    2,    3,    7,     64,
                                                  127, 1000, 1024, 4099, 65536, 1000003};
constexpr std::size_t k_most_shapes = 400;
constexpr std::array<std::int64_t, 2> k_sm_counts = {16, 188};

/// What a value changes with.
struct Depends {
  bool shape = false;
  bool config = false;
};

/// An expression whose variables are looked up once, as places in one vector of values.
struct Bound {
  const LocatedExpression* source = nullptr;
  std::vector<std::size_t> places;
  Depends on{};
};

/// What is evaluated in turn: a `let`, whose value goes to a place, or a rule, which must hold.
struct Evaluation {
  const Bound* bound = nullptr;
  std::optional<std::size_t> to;
};

struct BoundLaunch {
  std::vector<Bound> grid;
  std::vector<Bound> block;
  std::optional<Bound> smem;
};

/// Why a config cannot run; empty text: it can.
struct Refusal {
  SourceLocation at;
  std::string why;
};

class Coverage {
 public:
  explicit Coverage(const Manifest& manifest) : m_manifest(manifest) {
    for (const Axis& axis : manifest.axes) {
      depends(place(axis.name)).shape = true;
    }
    for (const auto& [name, chosen] : manifest.default_config()) {
      depends(place(name)).config = true;
    }
    for (const auto& [name, value] : manifest.lets) {
      Bound bound = bind(value);
      const std::size_t at = place(name);
      depends(at) = bound.on;
      m_lets.emplace_back(std::move(bound), at);
    }
    for (const LocatedExpression& rule : manifest.rules) {
      m_rules.push_back(bind(rule));
    }
    order();
    for (const Argument& argument : manifest.arguments) {
      if (argument.length) {
        m_lengths.push_back(bind(*argument.length));
      }
      if (argument.vector) {
        m_vectors.emplace(argument.name, bind(*argument.vector));
      }
      if (argument.is) {
        m_computed.emplace_back(bind(*argument.is), &argument);
      }
    }
    for (const Step& step : manifest.steps) {
      BoundLaunch& launch = m_launches.emplace_back();
      for (const LocatedExpression& dimension : step.launch.grid) {
        launch.grid.push_back(bind(dimension));
      }
      for (const LocatedExpression& dimension : step.launch.block) {
        launch.block.push_back(bind(dimension));
      }
      if (step.launch.smem) {
        launch.smem = bind(*step.launch.smem);
      }
    }
    m_configs.resize(manifest.prefer.size() + 1);
    for (std::size_t i = 0; i < m_configs.size(); ++i) {
      Config config = i < manifest.prefer.size() ? manifest.prefer[i] : Config();
      config.merge(manifest.default_config());
      for (const auto& [name, chosen] : config) {
        m_configs[i].emplace_back(place(name), to_integer(chosen).value_or(0));
      }
    }
    m_values.resize(m_places.size());
    m_is_let.resize(m_places.size());
    for (const auto& [let, at] : m_lets) {
      m_is_let[at] = true;
    }
  }

  Result<void> check() {
    std::vector<Target> targets = m_manifest.targets;
    if (targets.empty()) {
      for (const char* name : {"sm_80", "sm_90", "sm_120"}) {
        TRY_ASSIGN(const Target target, Target::parse(name));
        targets.push_back(target);
      }
    }
    const std::vector<Shape> shapes = sample_shapes();
    std::set<std::vector<std::int64_t>> seen;
    for (const Types& types : all_types()) {
      for (const Target& target : targets) {
        for (const std::int64_t sm_count : k_sm_counts) {
          if (sm_count != k_sm_counts.front() && !m_places.contains("device.sm_count")) {
            continue;
          }
          for (const bool aligned : {false, true}) {
            set_machine(types, target, sm_count, aligned);
            if (!seen.insert(machine(types, target)).second) {
              continue;  // nothing the manifest names is different
            }
            choose_configs();
            for (const Shape& shape : shapes) {
              TRY(check_shape(types, target, shape, aligned));
            }
          }
        }
      }
    }
    return {};
  }

 private:
  std::size_t place(const std::string& name) {
    return m_places.emplace(name, m_places.size()).first->second;
  }
  Bound bind(const LocatedExpression& expression) {
    Bound bound{&expression, {}};
    for (const std::string& name : expression.expression.variables()) {
      const std::size_t at = place(name);
      bound.places.push_back(at);
      bound.on.shape |= depends(at).shape;
      bound.on.config |= depends(at).config;
    }
    return bound;
  }
  Depends& depends(std::size_t at) {
    if (at >= m_depends.size()) {
      m_depends.resize(at + 1);
    }
    return m_depends[at];
  }

  /// Sorts lets and rules by what they change with: most configs are refused by what is known of
  /// them before there is a shape, and a let is not worth its value before a rule asks for it.
  void order() {
    std::vector<bool> placed(m_lets.size());
    const auto stage_of = [this](const Bound& bound) -> std::vector<Evaluation>& {
      return bound.on.shape    ? bound.on.config ? m_of_both : m_of_shape
             : bound.on.config ? m_of_config
                               : m_of_machine;
    };
    const std::function<void(const Bound&)> place_lets = [&](const Bound& bound) {
      for (std::size_t i = 0; i < m_lets.size(); ++i) {
        const auto& [let, at] = m_lets[i];
        const auto& places = bound.places;
        if (!placed[i] && std::find(places.begin(), places.end(), at) != places.end()) {
          placed[i] = true;
          place_lets(let);
          stage_of(let).push_back({&let, at});
        }
      }
    };
    for (const Bound& rule : m_rules) {
      place_lets(rule);
      stage_of(rule).push_back({&rule, std::nullopt});
    }
    for (std::size_t i = 0; i < m_lets.size(); ++i) {
      if (!placed[i]) {
        placed[i] = true;
        place_lets(m_lets[i].first);
        stage_of(m_lets[i].first).push_back({&m_lets[i].first, m_lets[i].second});
      }
    }
  }

  bool holds(const std::vector<Evaluation>& stage) {
    for (const Evaluation& evaluation : stage) {
      const auto result = value(*evaluation.bound);
      if (!result || (!evaluation.to && *result == 0)) {
        return false;
      }
      if (evaluation.to) {
        m_values[*evaluation.to] = *result;
      }
    }
    return true;
  }

  /// What of types, target and alignment the manifest can tell apart.
  std::vector<std::int64_t> machine(const Types& types, const Target& target) const {
    const bool uses_smem =
        std::any_of(m_launches.begin(), m_launches.end(),
                    [](const BoundLaunch& launch) { return launch.smem.has_value(); });
    std::vector<std::int64_t> values{target.limits().max_threads,
                                     uses_smem ? target.limits().smem_optin : 0};
    for (std::size_t at = 0; at < m_values.size(); ++at) {
      const bool fixed = at >= m_depends.size() || (!m_depends[at].shape && !m_depends[at].config);
      values.push_back(fixed && !m_is_let[at] ? m_values[at] : 0);
    }
    for (const auto& [bound, argument] : m_computed) {
      const DType& type = dtype(types, argument->type);
      values.push_back(type.bytes * 4 + static_cast<std::int64_t>(type.kind));
    }
    return values;
  }

  /// The configs that types, target and alignment alone do not refuse, with the lets that depend on
  /// them only.
  void choose_configs() {
    m_possible.clear();
    if (!holds(m_of_machine)) {
      return;
    }
    for (const auto& config : m_configs) {
      apply(config);
      if (holds(m_of_config)) {
        m_possible.push_back(config);
        for (const Evaluation& evaluation : m_of_config) {
          if (evaluation.to) {
            m_possible.back().emplace_back(*evaluation.to, m_values[*evaluation.to]);
          }
        }
      }
    }
  }

  void apply(const std::vector<std::pair<std::size_t, std::int64_t>>& config) {
    for (const auto& [at, chosen] : config) {
      m_values[at] = chosen;
    }
  }
  void set(const std::string& name, std::int64_t value) {
    if (const auto found = m_places.find(name); found != m_places.end()) {
      m_values[found->second] = value;
    }
  }
  Result<std::int64_t> value(const Bound& bound) {
    m_scratch.clear();
    for (const std::size_t place : bound.places) {
      m_scratch.push_back(m_values[place]);
    }
    return bound.source->expression.evaluate(m_scratch);
  }

  std::vector<Types> all_types() const {
    std::vector<Types> all{Types()};
    for (const TypeParameter& type : m_manifest.types) {
      std::vector<Types> more;
      for (const Types& types : all) {
        for (const std::string& dtype : type.values) {
          more.push_back(types);
          more.back()[type.name] = dtype;
        }
      }
      all = std::move(more);
    }
    return all;
  }

  /// All combinations where they are few, else each axis alone and the same spread pseudo-randomly.
  std::vector<Shape> sample_shapes() const {
    std::vector<std::vector<std::int64_t>> sizes;
    std::size_t product = 1;
    for (const Axis& axis : m_manifest.axes) {
      std::set<std::int64_t> values(axis.tune.begin(), axis.tune.end());
      if (!axis.compile) {
        values.insert(k_sizes.begin(), k_sizes.end());
      }
      sizes.emplace_back(values.begin(), values.end());
      product = std::min(product * sizes.back().size(), k_most_shapes + 1);
    }
    std::vector<Shape> shapes = m_manifest.also;
    std::uint64_t state = 1;
    const std::size_t count = std::min(product, k_most_shapes);
    for (std::size_t i = 0; i < count; ++i) {
      Shape shape;
      std::size_t rest = i;
      for (std::size_t a = 0; a < sizes.size(); ++a) {
        std::size_t pick = rest % sizes[a].size();
        rest /= sizes[a].size();
        if (product > k_most_shapes) {
          state = state * 6364136223846793005U + 1442695040888963407U;
          pick = (state >> 33U) % sizes[a].size();
        }
        shape[m_manifest.axes[a].name] = sizes[a][pick];
      }
      shapes.push_back(std::move(shape));
    }
    return shapes;
  }

  const DType& dtype(const Types& types, const std::string& type) const {
    const auto chosen = types.find(type);
    return *find_dtype(chosen == types.end() ? type : chosen->second);
  }

  void set_machine(const Types& types, const Target& target, std::int64_t sm_count, bool aligned) {
    for (const DType& known : dtype_table()) {
      set("sizeof(" + std::string(known.name) + ")", known.bytes);
    }
    for (const auto& [name, chosen] : types) {
      set("sizeof(" + name + ")", find_dtype(chosen)->bytes);
    }
    for (const Argument& argument : m_manifest.arguments) {
      if (argument.length) {
        set("align(" + argument.name + ")", aligned ? 256 : dtype(types, argument.type).bytes);
      }
    }
    const TargetLimits& limits = target.limits();
    set("target.smem_optin", limits.smem_optin);
    set("target.max_threads", limits.max_threads);
    set("target.max_threads_per_sm", limits.max_threads_per_sm);
    set("target.regs", limits.regs);
    set("target.cc", target.cc());
    set("target.specific", target.suffix() == TargetSuffix::architecture ? 1 : 0);
    set("device.sm_count", sm_count);
    if (!aligned) {
      for (const auto& [let, at] : m_lets) {
        if (!let.on.shape && !let.on.config) {
          m_values[at] = value(let).value_or(0);
        }
      }
      for (const auto& [name, vector] : m_vectors) {
        const auto elements = value(vector);
        if (!vector.on.shape && !vector.on.config && elements && *elements > 1 &&
            *elements <= 256) {
          const Argument& argument = *m_manifest.find_argument(name);
          set("align(" + name + ")", *elements * dtype(types, argument.type).bytes);
        }
      }
    }
  }

  /// Whether the kernel is for the shape that is set: no rule of `shapes` is broken.
  bool is_for_shape() {
    if (m_manifest.shape_rules == 0) {
      return true;
    }
    for (const auto& [let, at] : m_lets) {
      m_values[at] = value(let).value_or(0);
    }
    return std::all_of(m_rules.begin(),
                       m_rules.begin() + static_cast<std::ptrdiff_t>(m_manifest.shape_rules),
                       [this](const Bound& rule) { return value(rule).value_or(0) != 0; });
  }

  Result<void> check_shape(const Types& types, const Target& target, const Shape& shape,
                           bool aligned) {
    for (const auto& [name, size] : shape) {
      set(name, size);
    }
    if (!is_for_shape()) {
      return {};
    }
    if (holds(m_of_shape)) {
      for (const auto& config : m_possible) {
        apply(config);
        if (holds(m_of_both) && refuse_launch(target).why.empty()) {
          return {};
        }
      }
    }
    // The slow way, which knows why.
    Refusal refusal;
    for (const auto& config : m_configs) {
      apply(config);
      refusal = refuse(target);
      if (refusal.why.empty() || !can_be_passed(types)) {
        return {};
      }
    }
    return fail(ErrorCode::manifest,
                m_manifest.path.string() + ":" + std::to_string(refusal.at.line) + ":" +
                    std::to_string(refusal.at.column) + ": " +
                    (m_configs.size() == 1 ? "the default config is not"
                                           : "neither a preferred nor the default config is") +
                    " valid for " + to_display(shape) + " with " + to_display(types) + " on " +
                    target.text() + ", pointers aligned to " +
                    (aligned ? "256 bytes" : "their elements only") + ": " + refusal.why +
                    " (shapes it is not for are excluded by `shapes` in [rules])");
  }

  Refusal refuse(const Target& target) {
    for (const auto& [let, at] : m_lets) {
      const auto result = value(let);
      if (!result) {
        return broken(let, result.error().message);
      }
      m_values[at] = *result;
    }
    for (const Bound& rule : m_rules) {
      const auto result = value(rule);
      if (!result || *result == 0) {
        return broken(rule, result ? "the rule does not hold" : result.error().message);
      }
    }
    return refuse_launch(target);
  }

  Refusal refuse_launch(const Target& target) {
    for (const BoundLaunch& launch : m_launches) {
      constexpr std::array<std::int64_t, 3> grid_limits = {2147483647, 65535, 65535};
      constexpr std::array<std::int64_t, 3> block_limits = {1024, 1024, 64};
      std::int64_t threads = 1;
      Refusal refusal = beyond(launch.grid, grid_limits, 0, nullptr);
      if (refusal.why.empty()) {
        refusal = beyond(launch.block, block_limits, 1, &threads);
      }
      if (!refusal.why.empty()) {
        return refusal;
      }
      if (threads > target.limits().max_threads) {
        return broken(launch.block.front(), std::to_string(threads) + " threads a block");
      }
      if (launch.smem) {
        const auto bytes = value(*launch.smem);
        if (!bytes || *bytes < 0 || *bytes > target.limits().smem_optin) {
          return broken(*launch.smem, bytes ? std::to_string(*bytes) + " bytes of shared memory"
                                            : bytes.error().message);
        }
      }
    }
    return {};
  }

  Refusal beyond(std::span<const Bound> dimensions, const std::array<std::int64_t, 3>& limits,
                 std::int64_t least, std::int64_t* product) {
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const auto size = value(dimensions[i]);
      if (!size || *size < least || *size > limits[i]) {
        return broken(dimensions[i], size ? "the dimension is " + std::to_string(*size) +
                                                ", outside " + std::to_string(least) + " to " +
                                                std::to_string(limits[i])
                                          : size.error().message);
      }
      if (product != nullptr) {
        *product *= *size;
      }
    }
    return {};
  }

  static Refusal broken(const Bound& bound, const std::string& why) {
    return {bound.source->location, "\"" + bound.source->expression.text() + "\": " + why};
  }

  /// Shapes too large for a buffer or a scalar's type are refused by name; no config need serve
  /// them.
  bool can_be_passed(const Types& types) {
    for (const Bound& length : m_lengths) {
      const auto elements = value(length);
      if (!elements || *elements < 0 || *elements > std::numeric_limits<std::int64_t>::max() / 8) {
        return false;
      }
    }
    for (const auto& [bound, argument] : m_computed) {
      const auto number = value(bound);
      const DType& type = dtype(types, argument->type);
      if (!number) {
        return false;
      }
      const bool narrow = type.kind != DTypeKind::floating && type.bytes < 8;
      const std::int64_t bits = type.bytes * 8 - (type.kind == DTypeKind::signed_integer ? 1 : 0);
      if (narrow &&
          (*number >= std::int64_t{1} << bits ||
           *number < (type.kind == DTypeKind::signed_integer ? -(std::int64_t{1} << bits) : 0))) {
        return false;
      }
    }
    return true;
  }

  const Manifest& m_manifest;
  std::map<std::string, std::size_t, std::less<>> m_places;
  std::vector<std::pair<Bound, std::size_t>> m_lets;
  std::vector<Bound> m_rules;
  std::vector<Evaluation> m_of_machine;
  std::vector<Evaluation> m_of_config;
  std::vector<Evaluation> m_of_shape;
  std::vector<Evaluation> m_of_both;
  std::vector<Depends> m_depends;          ///< a place each; the last ones may be missing
  std::vector<bool> m_is_let;              ///< a place each
  std::map<std::string, Bound> m_vectors;  // by argument
  std::vector<Bound> m_lengths;
  std::vector<std::pair<Bound, const Argument*>> m_computed;
  std::vector<BoundLaunch> m_launches;
  /// Each config as values and their places; the default one is last.
  std::vector<std::vector<std::pair<std::size_t, std::int64_t>>> m_configs;
  /// Those that can be valid for some shape, with more values.
  std::vector<std::vector<std::pair<std::size_t, std::int64_t>>> m_possible;
  std::vector<std::int64_t> m_values;
  std::vector<std::int64_t> m_scratch;
};

}  // namespace

Result<void> check_default_covers(const Manifest& manifest) {
  return Coverage(manifest).check();
}

}  // namespace cubinary::core
