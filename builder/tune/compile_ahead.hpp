// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "builder/compile/compile_task.hpp"
#include "builder/plan.hpp"
#include "core/base/file.hpp"
#include "core/base/result.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// A server that has the store: what is compiled here goes there, and ids are its own. One thread.
class CandidateServer {
 public:
  CandidateServer() = default;
  CandidateServer(const CandidateServer&) = delete;
  CandidateServer& operator=(const CandidateServer&) = delete;
  virtual ~CandidateServer() = default;

  /// Puts the kernel in force there; of these build keys those that it has become current, all
  /// others of the kernel and target do not. Returns all candidates that it has of both.
  [[nodiscard]] virtual core::Result<std::vector<store::Candidate>> begin(
      const store::Kernel& kernel, const std::string& target,
      const std::vector<core::Digest>& build_keys) = 0;
  /// Sends candidates of one kernel and target, which become current besides those that are. Their
  /// ids become the server's. `exists` when the kernel is in force there with other inputs now.
  [[nodiscard]] virtual core::Result<void> add(const store::Kernel& kernel,
                                               std::span<store::Candidate> candidates) = 0;
};

struct CompileAheadOptions {
  std::vector<std::filesystem::path> folders;     ///< of manifests
  std::string kernels;                            ///< glob over kernel names; empty: all
  std::vector<core::Target> targets;              ///< empty: each manifest's own
  std::filesystem::path toolkit;                  ///< empty: look for one
  unsigned jobs = 0;                              ///< worker processes; 0: one a core
  std::chrono::milliseconds time_limit{300'000};  ///< a candidate
  WorkerOptions worker;
  CandidateServer* server = nullptr;  ///< the ledger's, which must outlive it; null: the store
                                      ///< is the ledger's
};

/// Compiles what a search asks for in worker processes, beside the measuring: candidates and keys
/// are a build's, and what comes of them enters the store as a build's do. Besides what is asked
/// for it compiles, last, what an untuned release would run, so that a release can be made of a
/// space that nobody compiled whole. With a server, the store is a place to compile into, and all
/// that comes of it is sent.
///
/// One thread calls it; only its own threads compile. When it goes, what they are at is killed.
class CompileAhead {
 public:
  /// Expands and hashes; compiles nothing. The store must outlive it. Errors: those of
  /// load_manifests and make_plan.
  [[nodiscard]] static core::Result<std::unique_ptr<CompileAhead>> make(
      store::Store& store, CompileAheadOptions options);
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  ~CompileAhead();

  /// Of the manifests in its folders.
  [[nodiscard]] std::vector<std::string> kernels() const;
  [[nodiscard]] std::vector<std::string> targets(const std::string& kernel) const;

  /// Puts the kernel in force with the candidates that the store has of it, and begins to compile
  /// what an untuned release needs. Errors: those of the store and of the server.
  [[nodiscard]] core::Result<void> begin(const std::string& kernel, const std::string& target);

  /// All that the manifest asks for; those without an id were not compiled yet.
  [[nodiscard]] std::vector<store::Candidate> candidates(const std::string& kernel,
                                                         const std::string& target) const;
  /// Compiles a candidate before anything that nobody waits for.
  void want(const core::Digest& build_key);
  /// Takes back what was wanted and is not begun.
  void drop_wanted();
  /// Waits at most `patience` for something to end, then puts what ended into the store. Errors:
  /// `environment` when workers cannot work at all, `io` when a source changed meanwhile, those of
  /// the store.
  [[nodiscard]] core::Result<std::vector<store::Candidate>> take(
      std::chrono::milliseconds patience);
  /// Whether anything is begun or waits, also what nobody asked for.
  [[nodiscard]] bool busy() const;
  /// Packs what came; call it when all is done.
  [[nodiscard]] core::Result<void> finish();

  [[nodiscard]] unsigned jobs() const { return m_jobs; }
  struct Counts {
    std::uint64_t compiled = 0;
    std::uint64_t failed = 0;    ///< of those
    double compile_seconds = 0;  ///< of workers' wall time
  };
  [[nodiscard]] const Counts& counts() const { return m_counts; }

 private:
  using Place = std::pair<std::string, std::string>;  ///< kernel and target
  CompileAhead(store::Store& store, CompileAheadOptions options)
      : m_store(store), m_options(std::move(options)) {}
  [[nodiscard]] core::Result<void> prepare();
  [[nodiscard]] core::Result<void> begin_at_server(const store::Kernel& kernel, const Place& place);
  [[nodiscard]] core::Result<void> send(
      std::vector<std::pair<std::size_t, store::Candidate>>& made);
  [[nodiscard]] core::Result<std::vector<store::Candidate>> commit(
      const std::vector<TaskResult>& results);
  [[nodiscard]] core::Result<void> set_current(store::Writer& writer, const Place& place) const;
  void start_threads();
  void work();

  store::Store& m_store;
  CompileAheadOptions m_options;
  unsigned m_jobs = 1;
  Plan m_plan;                           ///< not changed once threads run
  std::vector<store::Candidate> m_made;  ///< one a planned candidate; id 0: not compiled yet
  std::unordered_map<core::Digest, std::size_t> m_by_key;
  std::unordered_map<core::Digest, std::vector<std::size_t>> m_by_code;
  std::map<Place, std::vector<std::size_t>> m_of;
  std::map<std::string, store::Kernel> m_rows;  ///< of kernels put in force
  std::map<Place, store::Dictionary> m_dictionaries;
  std::set<Place> m_new_artifacts;
  Counts m_counts;

  core::UniqueFd m_halt;
  mutable std::mutex m_mutex;
  std::condition_variable m_work;   ///< there is some, or no more ever
  std::condition_variable m_ended;  ///< some of it
  std::deque<std::size_t> m_wanted;
  std::deque<std::size_t> m_untuned;  ///< for releases, when nothing is wanted
  std::set<core::Digest> m_begun;     ///< code keys, also those that ended
  std::size_t m_running = 0;
  std::vector<TaskResult> m_results;  ///< `task` is an index into the plan's candidates
  std::optional<core::Error> m_error;
  bool m_halted = false;
  std::vector<std::thread> m_threads;
};

}  // namespace cubinary::builder
