// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/compile_ahead.hpp"

#include <algorithm>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "builder/compile/precompiled.hpp"
#include "builder/key/explain.hpp"
#include "core/manifest/untuned.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;
using store::CandidateRole;
using store::CandidateStatus;

Result<std::unique_ptr<CompileAhead>> CompileAhead::make(store::Store& store,
                                                         CompileAheadOptions options) {
  std::unique_ptr<CompileAhead> made(new CompileAhead(store, std::move(options)));
  TRY(made->prepare());
  return made;
}

Result<void> CompileAhead::prepare() {
  m_jobs = m_options.jobs != 0 ? m_options.jobs : std::max(1U, std::thread::hardware_concurrency());
  TRY_ASSIGN(std::vector<core::Manifest> manifests,
             load_manifests(m_options.folders, m_options.kernels));
  TRY_ASSIGN(m_plan, make_plan(m_store, std::move(manifests),
                               {m_options.targets, m_options.toolkit, m_options.worker}));
  m_made.reserve(m_plan.candidates.size());
  for (std::size_t i = 0; i < m_plan.candidates.size(); ++i) {
    const PlannedCandidate& planned = m_plan.candidates[i];
    const PlannedKernel& kernel = m_plan.kernels[planned.kernel];
    m_made.push_back(candidate_of(kernel, planned));
    m_by_key.emplace(planned.key, i);
    m_by_code[planned.code].push_back(i);
    m_of[{kernel.manifest.name, planned.target}].push_back(i);
  }
  // What is known of them, and with what dictionary more of them are stored.
  TRY_ASSIGN(const store::Reader reader, m_store.reader());
  for (const auto& [place, members] : m_of) {
    store::CandidateFilter filter;
    filter.kernel = place.first;
    filter.target = place.second;
    filter.current_only = false;
    TRY(store::for_each_candidate(reader, filter, false,
                                  [&](const store::Candidate& candidate) -> Result<void> {
                                    const auto found = m_by_key.find(candidate.build_key);
                                    if (found != m_by_key.end()) {
                                      m_made[found->second] = candidate;
                                    }
                                    return {};
                                  }));
    TRY_ASSIGN(store::Dictionary dictionary,
               store::current_dictionary(reader, place.first, place.second));
    if (dictionary.id != 0) {
      m_dictionaries.emplace(place, std::move(dictionary));
    }
  }
  return {};
}

CompileAhead::~CompileAhead() {
  {
    const std::scoped_lock lock(m_mutex);
    m_halted = true;
    if (m_halt) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(m_halt.get(), &one, sizeof one);
    }
    m_work.notify_all();
  }
  for (std::thread& thread : m_threads) {
    thread.join();
  }
  if (!m_threads.empty()) {
    PrecompiledHeaders::sweep();  // workers are killed, not asked to leave
  }
}

std::vector<std::string> CompileAhead::kernels() const {
  std::vector<std::string> names;
  for (const PlannedKernel& kernel : m_plan.kernels) {
    names.push_back(kernel.manifest.name);
  }
  return names;
}

std::vector<std::string> CompileAhead::targets(const std::string& kernel) const {
  std::vector<std::string> names;
  for (const auto& [place, members] : m_of) {
    if (place.first == kernel) {
      names.push_back(place.second);
    }
  }
  return names;
}

Result<void> CompileAhead::set_current(store::Writer& writer, const Place& place) const {
  std::vector<store::CandidateId> ids;
  for (const std::size_t i : m_of.at(place)) {
    if (m_made[i].id != 0) {
      ids.push_back(m_made[i].id);
    }
  }
  return store::set_current(writer, place.first, place.second, ids);
}

Result<void> CompileAhead::begin(const std::string& kernel, const std::string& target) {
  const Place place(kernel, target);
  const auto members = m_of.find(place);
  if (members == m_of.end()) {
    return fail(ErrorCode::internal, "kernel " + kernel + " was not planned for " + target);
  }
  const PlannedKernel& planned = m_plan.kernels[m_plan.candidates[members->second.front()].kernel];
  store::Kernel row = kernel_row(planned);
  row.inputs = to_json(record_of(planned));
  const auto put_in_force = [&](store::Writer& writer) -> Result<void> {
    TRY(store::put_kernel(writer, row));
    return m_options.server == nullptr ? set_current(writer, place) : Result<void>();
  };
  TRY(m_store.write(put_in_force));
  if (m_options.server != nullptr) {
    TRY(begin_at_server(row, place));
  }
  m_rows.insert_or_assign(kernel, std::move(row));
  std::set<core::Config> untuned;
  for (const core::Config& config : core::untuned_configs(planned.manifest)) {
    untuned.insert(core::code_part(planned.manifest, config));
  }
  {
    const std::scoped_lock lock(m_mutex);
    for (const std::size_t i : members->second) {
      const store::Candidate& candidate = m_made[i];
      if (candidate.id == 0 &&
          (candidate.role != CandidateRole::kernel || untuned.contains(candidate.config))) {
        m_untuned.push_back(i);
      }
    }
    if (m_untuned.empty()) {
      return {};
    }
  }
  start_threads();
  return {};
}

Result<void> CompileAhead::begin_at_server(const store::Kernel& kernel, const Place& place) {
  std::vector<core::Digest> keys;
  for (const std::size_t i : m_of.at(place)) {
    keys.push_back(m_made[i].build_key);
  }
  TRY_ASSIGN(const auto there, m_options.server->begin(kernel, place.second, keys));
  for (const store::Candidate& candidate : there) {
    const auto found = m_by_key.find(candidate.build_key);
    if (found != m_by_key.end()) {
      m_made[found->second] = candidate;
    }
  }
  return {};
}

Result<void> CompileAhead::send(std::vector<std::pair<std::size_t, store::Candidate>>& made) {
  std::map<Place, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < made.size(); ++i) {
    places[{made[i].second.kernel, made[i].second.target}].push_back(i);
  }
  for (const auto& [place, members] : places) {
    std::vector<store::Candidate> group;
    for (const std::size_t i : members) {
      group.push_back(made[i].second);
    }
    TRY(m_options.server->add(m_rows.at(place.first), group));
    for (std::size_t i = 0; i < members.size(); ++i) {
      made[members[i]].second.id = group[i].id;
    }
  }
  return {};
}

std::vector<store::Candidate> CompileAhead::candidates(const std::string& kernel,
                                                       const std::string& target) const {
  std::vector<store::Candidate> found;
  if (const auto members = m_of.find({kernel, target}); members != m_of.end()) {
    for (const std::size_t i : members->second) {
      found.push_back(m_made[i]);
    }
  }
  return found;
}

void CompileAhead::want(const core::Digest& build_key) {
  const auto found = m_by_key.find(build_key);
  if (found == m_by_key.end() || m_made[found->second].id != 0) {
    return;
  }
  {
    const std::scoped_lock lock(m_mutex);
    m_wanted.push_back(found->second);
  }
  start_threads();
}

void CompileAhead::drop_wanted() {
  const std::scoped_lock lock(m_mutex);
  m_wanted.clear();
}

void CompileAhead::start_threads() {
  if (m_threads.empty()) {
    m_halt = core::UniqueFd(eventfd(0, EFD_CLOEXEC));
    for (unsigned i = 0; i < m_jobs; ++i) {
      m_threads.emplace_back([this] { work(); });
    }
  }
  m_work.notify_all();
}

void CompileAhead::work() {
  TaskRunner runner(m_options.worker, m_options.time_limit, m_halt.get());
  std::unique_lock lock(m_mutex);
  while (true) {
    m_work.wait(lock,
                [&] { return m_halted || m_error || !m_wanted.empty() || !m_untuned.empty(); });
    if (m_halted || m_error) {
      return;
    }
    std::deque<std::size_t>& queue = m_wanted.empty() ? m_untuned : m_wanted;
    const std::size_t index = queue.front();
    queue.pop_front();
    const PlannedCandidate& planned = m_plan.candidates[index];
    if (!m_begun.insert(planned.code).second) {
      m_ended.notify_all();
      continue;  // its code is compiled, or about to be, for another candidate
    }
    ++m_running;
    lock.unlock();
    const PlannedKernel& kernel = m_plan.kernels[planned.kernel];
    const auto dictionary = m_dictionaries.find({kernel.manifest.name, planned.target});
    auto result = runner.run(kernel, planned,
                             dictionary == m_dictionaries.end() ? nullptr : &dictionary->second);
    lock.lock();
    --m_running;
    if (!result) {
      m_error = m_error.value_or(result.error());
    } else if (*result) {
      (*result)->task = index;
      m_results.push_back(std::move(**result));
    }
    m_ended.notify_all();
  }
}

bool CompileAhead::busy() const {
  const std::scoped_lock lock(m_mutex);
  return m_running != 0 || !m_results.empty() || !m_wanted.empty() || !m_untuned.empty();
}

Result<std::vector<store::Candidate>> CompileAhead::take(std::chrono::milliseconds patience) {
  std::vector<TaskResult> results;
  {
    std::unique_lock lock(m_mutex);
    m_ended.wait_for(lock, patience, [&] { return m_error || !m_results.empty(); });
    if (m_error) {
      return fail(*m_error);
    }
    results = std::exchange(m_results, {});
  }
  return commit(results);
}

Result<std::vector<store::Candidate>> CompileAhead::commit(const std::vector<TaskResult>& results) {
  std::vector<store::Candidate> put;
  if (results.empty()) {
    return put;
  }
  std::vector<std::size_t> compiled;
  for (const TaskResult& result : results) {
    compiled.push_back(result.task);
  }
  TRY(check_unchanged(m_plan, compiled, "the tuner"));
  std::vector<std::pair<std::size_t, store::Candidate>> made;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    made.clear();
    std::set<Place> places;
    for (const TaskResult& result : results) {
      const auto& members = m_by_code.at(m_plan.candidates[result.task].code);
      TRY_ASSIGN(auto candidates, put_result(writer, m_plan, result, members));
      for (std::size_t i = 0; i < members.size(); ++i) {
        places.emplace(candidates[i].kernel, candidates[i].target);
        made.emplace_back(members[i], std::move(candidates[i]));
      }
    }
    if (m_options.server != nullptr) {
      return {};
    }
    for (const auto& [index, candidate] : made) {
      m_made[index] = candidate;
    }
    for (const Place& place : places) {
      TRY(set_current(writer, place));
    }
    return {};
  };
  TRY(m_store.write(body));
  if (m_options.server != nullptr) {
    TRY(send(made));
    for (const auto& [index, candidate] : made) {
      m_made[index] = candidate;
    }
  }
  for (const TaskResult& result : results) {
    ++m_counts.compiled;
    const auto& members = m_by_code.at(m_plan.candidates[result.task].code);
    m_counts.failed += std::ranges::any_of(members,
                                           [&](std::size_t index) {
                                             return m_made.at(index).status == CandidateStatus::ok;
                                           })
                           ? 0
                           : 1;
    m_counts.compile_seconds += result.candidate.compile_ms / 1e3;
  }
  for (auto& [index, candidate] : made) {
    if (candidate.artifact) {
      m_new_artifacts.emplace(candidate.kernel, candidate.target);
    }
    put.push_back(std::move(candidate));
  }
  return put;
}

Result<void> CompileAhead::finish() {
  if (m_options.server != nullptr) {
    return {};  // a server packs what it has when a build of it ends
  }
  for (const auto& [kernel, target] : m_new_artifacts) {
    TRY(store::repack_artifacts(m_store, kernel, target));
  }
  m_new_artifacts.clear();
  return {};
}

}  // namespace cubinary::builder
