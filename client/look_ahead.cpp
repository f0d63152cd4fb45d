// SPDX-License-Identifier: Apache-2.0
#include "client/look_ahead.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/base/json.hpp"

namespace cubinary::client {
namespace {

namespace json = core::json;

/// A record has 64 KiB.
constexpr std::size_t k_max_artifacts = 900;

std::string record_name(const Release& release) {
  return "loaded " + release.index_digest().text();
}

/// A guess that fails costs time later on, nothing else: whoever needs the thing meets the same and
/// tells.
template <typename Work>
void attempt(const Work& work) {
  try {
    work();
  } catch (const std::exception& thrown) {
    (void)thrown;
  }
}

}  // namespace

LookAhead::LookAhead(Release& release, std::shared_ptr<Cache> cache)
    : m_release(release), m_cache(std::move(cache)) {
}

LookAhead::~LookAhead() {
  m_stop = true;
  wait();
  attempt([this] {
    if (!m_loaded.empty() && m_loaded != m_last) {
      write_record();
    }
  });
}

void LookAhead::wait() {
  for (auto& thread : m_threads) {
    thread.join();
  }
  m_threads.clear();
  for (Worker& worker : m_workers) {
    if (worker.thread.joinable()) {
      worker.thread.join();
    }
  }
}

void LookAhead::expect(const core::KernelTable& table, const core::Digest& artifact,
                       Deadline deadline) {
  const std::lock_guard lock(m_mutex);
  if (!m_known.insert(artifact).second) {
    return;
  }
  m_expected.push_back({&table, artifact, deadline});
  // Threads that are busy come to it; where all are, the last of them.
  const auto idle = std::ranges::find(m_workers, false, &Worker::busy);
  if (idle == m_workers.end()) {
    return;
  }
  attempt([&] {
    if (idle->thread.joinable()) {
      idle->thread.join();  // it has said that it is done
    }
    const auto worker = static_cast<std::size_t>(idle - m_workers.begin());
    idle->thread = std::thread([this, worker] { bring(worker); });
    idle->busy = true;
  });
}

void LookAhead::bring(std::size_t worker) {
  while (true) {
    Expected next;
    {
      const std::lock_guard lock(m_mutex);
      if (m_stop || m_expected.empty()) {
        m_workers[worker].busy = false;
        return;
      }
      next = m_expected.front();
      m_expected.pop_front();
    }
    attempt([&] {
      // What the cache has and memory has no room for is read by who needs it.
      if (!m_release.read_ahead(next.artifact) &&
          !m_cache->has(Cache::Kind::artifact, next.artifact)) {
        (void)m_release.artifact(*next.table, next.artifact, next.deadline);
      }
    });
  }
}

void LookAhead::begin(std::optional<core::Capability> capability, Deadline deadline) {
  read_record();
  // Containers bound the number of threads: without one nothing is ready before it is asked for.
  const auto start = [this](const auto& work) {
    attempt([&] { m_threads.emplace_back([work] { attempt(work); }); });
  };
  if (auto targets = targets_for(capability); !targets.empty()) {
    start([this, targets = std::move(targets), deadline] {
      for (std::size_t i = 0; i < targets.size() && !m_stop; ++i) {
        const auto tables = m_release.tables(targets[i], deadline);
        for (std::size_t at = 0; tables && at < (*tables)->size() && !m_stop; ++at) {
          (void)(*tables)->table(at);
        }
      }
    });
  }
  if (!m_last.empty()) {
    start([this] {
      for (std::size_t i = 0; i < m_last.size() && !m_stop; ++i) {
        m_release.read_ahead(m_last[i]);
      }
    });
  }
}

std::vector<core::Target> LookAhead::targets_for(
    const std::optional<core::Capability>& capability) const {
  std::vector<core::Target> targets;
  for (const core::Target& target : m_release.targets()) {
    const bool wanted = capability
                            ? target.runs_on(*capability)
                            : m_release.targets().size() == 1 ||
                                  std::ranges::find(m_last_targets, target) != m_last_targets.end();
    if (wanted) {
      targets.push_back(target);
    }
  }
  return targets;
}

void LookAhead::read_record() {
  const auto text = m_cache->find_record(record_name(m_release));
  if (!text) {
    return;
  }
  const auto value = json::parse(*text);
  if (!value) {
    return;
  }
  const json::Node record(*value, "record");
  const auto each = [&](std::string_view key, const auto& take) {
    const auto list = record.at(key);
    const auto items = list ? list->elements() : core::Result<std::vector<json::Node>>();
    for (std::size_t i = 0; items && i < items->size(); ++i) {
      if (const auto item = (*items)[i].text()) {
        take(*item);
      }
    }
  };
  each("targets", [&](const std::string& item) {
    if (const auto target = core::Target::parse(item)) {
      m_last_targets.push_back(*target);
    }
  });
  each("artifacts", [&](const std::string& item) {
    if (const auto digest = core::Digest::parse(item)) {
      m_last.push_back(*digest);
    }
  });
}

void LookAhead::loaded(const core::Digest& artifact) {
  const std::lock_guard lock(m_mutex);
  if (m_loaded.size() >= k_max_artifacts ||
      std::ranges::find(m_loaded, artifact) != m_loaded.end()) {
    return;
  }
  m_loaded.push_back(artifact);
  // Programs are killed more often than they end: the record follows at every doubling, where this
  // program loads other code than the last one.
  if (m_loaded.size() == m_write_at) {
    m_write_at *= 2;
    if (m_loaded.size() > m_last.size() ||
        !std::equal(m_loaded.begin(), m_loaded.end(), m_last.begin())) {
      write_record();
    }
  }
}

void LookAhead::write_record() {
  json::Array artifacts;
  for (const core::Digest& digest : m_loaded) {
    artifacts.emplace_back(digest.hex());
  }
  json::Array targets;
  for (const core::Target& target : m_release.opened_targets()) {
    targets.emplace_back(target.text());
  }
  m_cache->put_record(record_name(m_release),
                      json::to_text(json::Object{{"artifacts", std::move(artifacts)},
                                                 {"targets", std::move(targets)}}));
}

}  // namespace cubinary::client
