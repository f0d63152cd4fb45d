// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cubinary::builder {

/// Judges a run-off: who of several configs is the fastest, from rounds in which each that still
/// races runs once. No device, no clock; deterministic.
///
/// Differences are trimmed means over pairs of one round: single times scatter by about half a
/// microsecond, and the median of a short kernel's times is a multiple of the clock's tick, which
/// can be more than the differences that matter.
class Race {
 public:
  /// `names` break ties, the smaller first. `tick_us` is the resolution of the times.
  Race(std::vector<std::string> names, double tick_us);

  /// Who is in the next round.
  [[nodiscard]] const std::vector<std::uint32_t>& racing() const { return m_racing; }
  /// A time of a racing runner; rounds are complete when `look` is called.
  void add(std::uint32_t runner, double us) { m_times[runner].push_back(us); }
  [[nodiscard]] std::size_t rounds() const;
  [[nodiscard]] const std::vector<double>& times(std::uint32_t runner) const {
    return m_times[runner];
  }

  /// Sends off who is plainly slower. True when nothing that matters is open: every difference to
  /// the leader is known well enough, and so is its time. Cheap between looks that pay.
  [[nodiscard]] bool look();

  struct Place {
    std::uint32_t runner = 0;
    bool tied = false;  ///< cannot be told from the fastest, or by less than matters
  };
  /// Best first. Runners in `disqualified` come last and are nobody's rivals. The winner is the
  /// smallest name among those that are behind the fastest by less than k_near or half a tick, so
  /// that another race of the same runners ends with one as fast, most often with the same one.
  [[nodiscard]] std::vector<Place> places(const std::vector<bool>& disqualified) const;

  /// Of a time; smaller differences make no difference.
  static constexpr double k_near = 0.0025;

 private:
  [[nodiscard]] std::uint32_t leader(const std::vector<std::uint32_t>& among) const;

  std::vector<std::string> m_names;
  double m_tick;
  std::vector<std::vector<double>> m_times;
  std::vector<std::uint32_t> m_racing;
  std::size_t m_next_look;
};

}  // namespace cubinary::builder
