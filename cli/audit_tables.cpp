// SPDX-License-Identifier: Apache-2.0
#include "cli/audit_tables.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/answer.hpp"
#include "cli/table.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  std::array<char, 256> text{};
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

bool has(const json::Value& object, const char* key) {
  const auto* const members = object.get_if<json::Object>();
  return members != nullptr && members->contains(key);
}

/// Four digits: 1.234, 12.34, 123.4, 1234.
std::string microseconds(double us) {
  return format(us < 10 ? "%.3f" : us < 100 ? "%.2f" : us < 1000 ? "%.1f" : "%.0f", us);
}

std::string percent(const json::Value& row, const char* key, const char* pattern) {
  return has(row, key) ? format(pattern, 100 * number_at(row, key)) : "";
}

/// What launching costs hides what a tiny problem is worth: no share of it is "0%".
std::string share(const json::Value& row, const char* key) {
  return has(row, key) && number_at(row, key) < 0.01 ? "<1%" : percent(row, key, "%.0f%%");
}

std::string times(const json::Value& row, const char* key) {
  return has(row, key) ? format("%.2fx", number_at(row, key)) : "";
}

std::string count(const json::Value& row, const char* key) {
  return std::to_string(integer_at(row, key));
}

/// A count that stands out when it is not zero.
std::string count_or_dash(const json::Value& row, const char* key) {
  return integer_at(row, key) == 0 ? "" : count(row, key);
}

std::string margin(const json::Value& row) {
  const std::int64_t ties = integer_at(row, "ties");
  if (ties > 0) {
    return ties == 1 ? "1 tie" : std::to_string(ties) + " ties";
  }
  return percent(row, "margin", "+%.1f%%");
}

std::string plural(std::size_t number, const char* one) {
  return std::to_string(number) + " " + one + (number == 1 ? "" : "s");
}

/// A device class: its names and drivers for a heading, its tables below.
struct Device {
  std::set<std::string> products;
  std::set<std::string> drivers;
  /// Kernel and target, then their table.
  std::map<std::pair<std::string, std::string>, Table> tables;
};

std::string join(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

}  // namespace

std::string winners_text(const json::Value& answer, bool) {
  const json::Array& winners = array_at(answer, "winners");
  if (winners.empty()) {
    return "no winners: nothing that was asked for has been measured; run `cubinary tune`\n";
  }
  std::map<std::string, Device> devices;
  std::set<std::string> kernels;
  for (const json::Value& winner : winners) {
    Device& device = devices[text_at(winner, "device_class")];
    device.products.insert(text_at(winner, "product"));
    device.drivers.insert(text_at(winner, "driver"));
    kernels.insert(text_at(winner, "kernel"));
    Table& table = device.tables
                       .emplace(std::pair(text_at(winner, "kernel"), text_at(winner, "target")),
                                Table({"types", "shape", ">us", ">+-", ">roof", ">margin", ">gain",
                                       "origin", "config"}))
                       .first->second;
    table.add_row({display_at(winner, "types"), display_at(winner, "shape"),
                   microseconds(number_at(winner, "time_us")),
                   percent(winner, "confidence", "%.1f%%"), share(winner, "roofline"),
                   margin(winner), times(winner, "speedup"), text_at(winner, "origin"),
                   display_at(winner, "config")});
  }
  std::string text;
  for (const auto& [name, device] : devices) {
    text += join(device.products) + "  " + name + "  driver " + join(device.drivers) + "\n";
    for (const auto& [kernel, table] : device.tables) {
      text += "\n" + kernel.first + "  " + kernel.second + "\n" + table.text();
    }
    text += "\n";
  }
  return text + plural(winners.size(), "winner") + " of " + plural(kernels.size(), "kernel") +
         " on " + std::to_string(devices.size()) +
         (devices.size() == 1 ? " device class" : " device classes") +
         ". gain: against what an untuned release would run.\n";
}

std::string compare_text(const json::Value& answer, bool all_jobs) {
  const std::string a = text_at(answer, "a");
  const std::string b = text_at(answer, "b");
  const json::Array& kernels = array_at(answer, "kernels");
  if (kernels.empty()) {
    return "nothing to compare: no kernel has winners for one shape on both " + a + " and " + b +
           "\n";
  }
  Table summary({"kernel", ">jobs", ">same", ">good", ">slower", ">broken", ">unmeasured",
                 ">mean loss", ">worst", "on B"});
  std::size_t needing = 0;
  std::size_t unknown = 0;
  for (const json::Value& kernel : kernels) {
    const bool needs = flag_at(kernel, "needs_tuning");
    const bool known = integer_at(kernel, "unmeasured") == 0;
    needing += needs ? 1 : 0;
    unknown += !needs && !known ? 1 : 0;
    summary.add_row({text_at(kernel, "kernel"), count(kernel, "jobs"),
                     count_or_dash(kernel, "same"), count_or_dash(kernel, "good"),
                     count_or_dash(kernel, "slower"), count_or_dash(kernel, "broken"),
                     count_or_dash(kernel, "unmeasured"), times(kernel, "mean_loss"),
                     times(kernel, "worst_loss"),
                     needs   ? "needs its own tuning"
                     : known ? "may use A's"
                             : "not known"});
  }
  Table jobs(
      {"kernel", "types", "shape", "A's is", ">loss", ">B's us", "config of A", "config of B"});
  for (const json::Value& job : array_at(answer, "jobs")) {
    const std::string transfer = text_at(job, "transfer");
    if (all_jobs || transfer == "slower" || transfer == "broken") {
      jobs.add_row({text_at(job, "kernel"), display_at(job, "types"), display_at(job, "shape"),
                    transfer, times(job, "loss"), microseconds(number_at(job, "b_us")),
                    display_at(job, "a_config"), display_at(job, "b_config")});
    }
  }
  std::string text = "A  " + a + "\nB  " + b + "\n\n" + summary.text();
  if (jobs.rows() > 0) {
    text += "\n" + jobs.text();
  }
  text += "\n" + std::to_string(needing) + " of " + plural(kernels.size(), "kernel") +
          (needing == 1 ? " needs" : " need") + " tuning on B";
  return text + (unknown == 0 ? "" : ", " + std::to_string(unknown) + " cannot be told") + ".\n";
}

std::string coverage_text(const json::Value& answer, bool all_jobs) {
  const json::Array& kernels = array_at(answer, "kernels");
  if (kernels.empty()) {
    return "nothing to cover: no kernel of the store runs on a device class it knows; run "
           "`cubinary build`, then `cubinary tune`\n";
  }
  std::map<std::string, Table> devices;
  std::int64_t tuned = 0;
  std::int64_t all = 0;
  for (const json::Value& kernel : kernels) {
    Table& table =
        devices
            .emplace(text_at(kernel, "device_class"),
                     Table({"kernel", "target", ">jobs", ">tuned", ">budget", ">measured",
                            ">unverified", ">nearest-shape", ">other-class", ">untuned"}))
            .first->second;
    table.add_row({text_at(kernel, "kernel"), text_at(kernel, "target"), count(kernel, "jobs"),
                   count_or_dash(kernel, "tuned"), count_or_dash(kernel, "budget"),
                   count_or_dash(kernel, "measured"), count_or_dash(kernel, "unverified"),
                   count_or_dash(kernel, "nearest-shape"), count_or_dash(kernel, "other-class"),
                   count_or_dash(kernel, "untuned")});
    tuned += integer_at(kernel, "tuned") + integer_at(kernel, "budget");
    all += integer_at(kernel, "jobs");
  }
  std::string text;
  for (const auto& [device, table] : devices) {
    text += device + "\n" + table.text() + "\n";
  }
  if (all_jobs) {
    Table jobs({"kernel", "target", "types", "shape", "device class", "served"});
    for (const json::Value& job : array_at(answer, "jobs")) {
      const std::string served = text_at(job, "coverage");
      if (served != "tuned" && served != "budget") {
        jobs.add_row({text_at(job, "kernel"), text_at(job, "target"), display_at(job, "types"),
                      display_at(job, "shape"), text_at(job, "device_class"), served});
      }
    }
    text += jobs.rows() > 0 ? jobs.text() + "\n" : "";
  }
  text += std::to_string(tuned) + " of " + plural(static_cast<std::size_t>(all), "job") + " tuned";
  return text + (tuned == all || all_jobs ? "" : "; --jobs lists the others") + ".\n";
}

std::string stale_text(const json::Value& answer, bool) {
  const json::Array& stale = array_at(answer, "stale");
  if (stale.empty()) {
    return "nothing is stale\n";
  }
  std::map<std::string, Table> devices;
  for (const json::Value& row : stale) {
    Table& table = devices
                       .emplace(text_at(row, "device_class"),
                                Table({"kernel", "target", "types", "shape", "measured", "driver",
                                       "toolkit", "source"}))
                       .first->second;
    table.add_row({text_at(row, "kernel"), text_at(row, "target"), display_at(row, "types"),
                   display_at(row, "shape"), format_time(integer_at(row, "created")).substr(0, 10),
                   text_at(row, "driver"), text_at(row, "toolkit"),
                   has(row, "source") ? "changed" : ""});
  }
  std::string text;
  for (const auto& [device, table] : devices) {
    text += device + "\n" + table.text() + "\n";
  }
  return text + plural(stale.size(), "job") + " to tune again.\n";
}

std::string resources_text(const json::Value& answer, bool) {
  const json::Array& rows = array_at(answer, "resources");
  std::map<std::string, Table> devices;
  std::size_t spilling = 0;
  for (const json::Value& row : rows) {
    Table& table =
        devices
            .emplace(text_at(row, "device_class") + ", " + text_at(row, "target"),
                     Table({"kernel", "types", "step", ">threads", ">regs", ">spill B", ">smem B",
                            ">blocks/SM", ">occupancy", "limit", "match", ">shapes", "config"}))
            .first->second;
    spilling += integer_at(row, "spill_bytes") != 0 ? 1 : 0;
    table.add_row({text_at(row, "kernel"), display_at(row, "types"), text_at(row, "step"),
                   count(row, "threads"), count(row, "registers"),
                   count_or_dash(row, "spill_bytes"), count_or_dash(row, "smem_bytes"),
                   count(row, "blocks_per_sm"), percent(row, "occupancy", "%.0f%%"),
                   text_at(row, "limit"), text_at(row, "match"), count(row, "shape_count"),
                   display_at(row, "config")});
  }
  std::string text;
  for (const auto& [device, table] : devices) {
    text += device + "\n" + table.text() + "\n";
  }
  const json::Array& unserved = array_at(answer, "unserved");
  for (const json::Value& sentence : unserved) {
    text += "not served: " + *sentence.get_if<std::string>() + "\n";
  }
  return text + plural(rows.size(), "kind") + " of launch; " +
         (spilling == 0 ? "nothing spills.\n" : std::to_string(spilling) + " spill.\n");
}

}  // namespace cubinary::cli
