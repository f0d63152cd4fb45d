// SPDX-License-Identifier: Apache-2.0
#include "client/triton_plan.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/base/json.hpp"

namespace cubinary::client {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;
using json::Object;

json::Object to_object(const std::map<std::string, std::string>& map) {
  Object object;
  for (const auto& [name, text] : map) {
    object.emplace(name, text);
  }
  return object;
}

void put_origin(Object& object, const core::TritonOrigin& origin) {
  object.emplace("triton", origin.triton);
  object.emplace("python_abi", origin.python_abi);
  object.emplace("machine", origin.machine);
}

/// Whether something of this origin serves who asks for `filter`; what is not known may.
bool serves(const core::TritonOrigin& origin, const TritonFilter& filter) {
  const auto agree = [](const std::string& has, const std::string& wanted) {
    return has.empty() || wanted.empty() || has == wanted;
  };
  return agree(origin.python_abi, filter.python_abi) && agree(origin.triton, filter.triton) &&
         agree(origin.machine, filter.machine);
}

std::string describe(const core::TritonOrigin& origin) {
  return "Triton " + (origin.triton.empty() ? "?" : origin.triton) + " for Python " +
         (origin.python_abi.empty() ? "?" : origin.python_abi) + " on " +
         (origin.machine.empty() ? "?" : origin.machine);
}

/// Builds a plan from catalogues one after the other.
class Planner {
 public:
  Planner(const TritonFilter& filter, fs::path seen_at)
      : m_filter(filter), m_seen_at(std::move(seen_at)) {}

  void add(const core::TritonCatalogue& catalogue) {
    for (const core::TritonPack& pack : catalogue.packs) {
      for (const core::TritonPack::File& file : pack.files) {
        m_places.try_emplace(file.digest, &pack, file.size);
      }
    }
    for (const core::TritonKernel& kernel : catalogue.kernels) {
      m_origins.insert(kernel.origin);
      if (serves(kernel.origin, m_filter)) {
        add_kernel(kernel, catalogue.target.text());
      }
    }
    for (const core::TritonHost& host : catalogue.host) {
      if (serves(host.origin, m_filter)) {
        add_host(host);
      }
    }
    for (const core::TritonAutotune& result : catalogue.autotune) {
      if (serves(result.origin, m_filter)) {
        add_autotune(result);
      }
    }
  }

  Result<TritonPlan> finish(const TritonProvenance& provenance) {
    if (m_plan.kernels == 0) {
      return fail(nothing(provenance.release));
    }
    choose_autotune();
    for (const auto& [path, folder] : m_plan.folders) {
      for (const auto& [name, digest] : folder.files) {
        const core::TritonPack& pack = *m_places.at(digest).first;
        m_plan.packs.try_emplace(pack.digest, pack);
        m_plan.places.try_emplace(digest, pack.digest);
      }
    }
    m_plan.index = json::to_text(
        Object{{"triton_index", 1},
               {"cubinary", CUBINARY_VERSION},
               {"release", provenance.release},
               {"index", provenance.index.text()},
               {"key_id", provenance.key_id},
               {"source", provenance.source},
               {"cache", m_seen_at.string()},
               {"device_class", m_filter.device_class ? m_filter.device_class->text() : ""},
               {"misses", (m_seen_at / "cubinary-misses.jsonl").string()},
               {"kernels", std::move(m_kernels)},
               {"host", host_index()},
               {"autotune", autotune_index()}});
    return std::move(m_plan);
  }

 private:
  void add_kernel(const core::TritonKernel& kernel, const std::string& target) {
    PlannedFolder& folder = m_plan.folders[kernel.key];
    Object paths;
    for (const auto& [name, digest] : kernel.files) {
      folder.files.insert_or_assign(name, digest);
      paths.emplace(name, (m_seen_at / kernel.key / name).string());
    }
    std::string group = json::to_text(Object{{"child_paths", std::move(paths)}});
    auto files = core::triton_files_as_text(kernel.files);
    files.emplace(kernel.group, core::sha256(group).hex());
    folder.made.insert_or_assign(kernel.group, std::move(group));

    Object entry{{"name", kernel.name},
                 {"target", target},
                 {"files", to_object(files)},
                 {"key_parts", to_object(kernel.key_parts)}};
    put_origin(entry, kernel.origin);
    m_plan.kernels += m_kernels.insert_or_assign(kernel.key, std::move(entry)).second ? 1 : 0;
  }

  void add_host(const core::TritonHost& host) {
    const std::string at = "cubinary/host/" +
                           (host.source.empty() ? host.keys.front() : host.source) + "-" +
                           host.origin.python_abi + "-" + host.origin.machine;
    m_plan.folders[at].files.insert_or_assign(host.file, host.digest);
    json::Array keys;
    for (const std::string& key : host.keys) {
      m_plan.folders[key].files.insert_or_assign(host.file, host.digest);
      keys.emplace_back(key);
    }
    Object entry{{"name", host.name},
                 {"file", host.file},
                 {"path", at + "/" + host.file},
                 {"sha256", host.digest.hex()},
                 {"size", m_places.at(host.digest).second},
                 {"glibc_floor", host.glibc_floor},
                 {"keys", std::move(keys)}};
    put_origin(entry, host.origin);
    m_plan.host +=
        m_host[host.source].insert_or_assign(at + "/" + host.file, std::move(entry)).second ? 1 : 0;
  }

  void add_autotune(const core::TritonAutotune& result) {
    PlannedFolder& folder =
        m_plan.folders["cubinary/autotune/" + result.device_class + "/" + result.key];
    for (const auto& [name, digest] : result.files) {
      folder.files.insert_or_assign(name, digest);
    }
    m_plan.autotune +=
        m_autotune[result.device_class].insert_or_assign(result.key, result).second ? 1 : 0;
  }

  /// Puts one class's results where Triton itself looks: those of the GPU that was named, else of
  /// the one most like it. Results of another capability would be another kernel's.
  void choose_autotune() {
    if (!m_filter.device_class) {
      return;
    }
    double nearest = std::numeric_limits<double>::infinity();
    for (const auto& [name, results] : m_autotune) {
      const auto device = core::DeviceClass::parse(name);
      if (device && device->capability == m_filter.device_class->capability &&
          core::distance(*device, *m_filter.device_class) < nearest) {
        nearest = core::distance(*device, *m_filter.device_class);
        m_plan.autotune_class = name;
      }
    }
    if (m_plan.autotune_class.empty()) {
      return;
    }
    for (const auto& [key, result] : m_autotune.at(m_plan.autotune_class)) {
      for (const auto& [name, digest] : result.files) {
        m_plan.folders[key].files.insert_or_assign(name, digest);
      }
    }
  }

  [[nodiscard]] json::Value host_index() const {
    Object index;
    for (const auto& [source, modules] : m_host) {
      json::Array array;
      for (const auto& [path, entry] : modules) {
        array.emplace_back(entry);
      }
      index.emplace(source, std::move(array));
    }
    return index;
  }

  [[nodiscard]] json::Value autotune_index() const {
    Object index;
    for (const auto& [device_class, results] : m_autotune) {
      Object keys;
      for (const auto& [key, result] : results) {
        Object entry{{"files", to_object(core::triton_files_as_text(result.files))}};
        put_origin(entry, result.origin);
        keys.emplace(key, std::move(entry));
      }
      index.emplace(device_class, std::move(keys));
    }
    return index;
  }

  [[nodiscard]] core::Error nothing(const std::string& release) const {
    std::string there;
    for (const core::TritonOrigin& origin : m_origins) {
      there += (there.empty() ? "" : "; ") + describe(origin);
    }
    return {ErrorCode::no_match,
            "release " + release + " holds nothing for " +
                describe({m_filter.triton.empty() ? "any" : m_filter.triton,
                          m_filter.python_abi.empty() ? "any" : m_filter.python_abi,
                          m_filter.machine.empty() ? "any" : m_filter.machine}) +
                (there.empty() ? "" : "; it was captured with " + there) +
                ": capture with the container's own Triton and Python (cubinary triton capture)"};
  }

  const TritonFilter& m_filter;
  fs::path m_seen_at;
  TritonPlan m_plan;
  std::map<core::Digest, std::pair<const core::TritonPack*, std::uint64_t>> m_places;
  std::set<core::TritonOrigin> m_origins;
  Object m_kernels;
  std::map<std::string, std::map<std::string, Object>> m_host;  ///< by source, by path
  std::map<std::string, std::map<std::string, core::TritonAutotune>> m_autotune;
};

}  // namespace

Result<TritonPlan> plan_triton(
    const std::vector<std::shared_ptr<const core::TritonCatalogue>>& catalogues,
    const TritonFilter& filter, const TritonProvenance& provenance, const fs::path& seen_at) {
  Planner planner(filter, seen_at);
  for (const auto& catalogue : catalogues) {
    planner.add(*catalogue);
  }
  return planner.finish(provenance);
}

}  // namespace cubinary::client
