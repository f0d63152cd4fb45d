// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/gpu/suite.hpp"

namespace cubinary::gpu {

namespace {

/// What was captured on a stream; destroyed at the end.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void()>& work) {
    driver().check(driver().begin_capture(stream.get(), 0), "cuStreamBeginCapture");
    work();
    driver().check(driver().end_capture(stream.get(), &m_graph), "cuStreamEndCapture");
  }
  ~Graph() {
    if (m_executable != nullptr) {
      driver().graph_exec_destroy(m_executable);
    }
    driver().graph_destroy(m_graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] std::size_t nodes() const {
    std::size_t count = 0;
    driver().check(driver().graph_nodes(m_graph, nullptr, &count), "cuGraphGetNodes");
    return count;
  }
  void replay(const Stream& stream) {
    if (m_executable == nullptr) {
      driver().check(driver().graph_instantiate(&m_executable, m_graph, 0), "cuGraphInstantiate");
    }
    driver().check(driver().graph_launch(m_executable, stream.get()), "cuGraphLaunch");
    stream.synchronize();
  }

 private:
  CUgraph_st* m_graph = nullptr;
  CUgraphExec_st* m_executable = nullptr;
};

bool matches(const Suite& suite, const Problem& problem, const Operands& operands) {
  const auto tolerance = suite.manifests.at(problem.kernel).tolerance.at(problem.dtype);
  return compare(operands.output(), problem.expected, tolerance.relative, tolerance.absolute)
             .wrong == 0;
}

void check_graph(Suite& suite, const Release& release, const Problem& problem) {
  const std::string name = problem.kernel + " " + problem.dtype + " " + shape_text(problem);
  const Stream stream;
  Operands operands(problem, {});
  const auto arguments = operands.arguments();
  Kernel kernel;
  if (const auto status =
          kernel.resolve(release, problem.kernel, suite.interface_of(problem.kernel), problem.dtype,
                         problem.axes, operands.alignments());
      status != CUBINARY_OK) {
    suite.report.checked(name, false, failure("resolve", status));
    return;
  }
  const auto launch = [&] {
    return cubinary_launch(kernel.get(), arguments.data(), arguments.size(), stream.get());
  };

  cubinary_status refused = CUBINARY_OK;
  const Graph empty(stream, [&] { refused = launch(); });
  suite.report.checked(name + ": a capture before prepare is refused", refused != CUBINARY_OK,
                       refused != CUBINARY_OK ? failure("launch", refused) : "it was launched");
  suite.report.checked(name + ": the refused capture stays whole and empty", empty.nodes() == 0,
                       std::to_string(empty.nodes()) + " nodes");

  if (const auto status = cubinary_prepare(kernel.get()); status != CUBINARY_OK) {
    suite.report.checked(name, false, failure("prepare", status));
    return;
  }
  cubinary_status captured = CUBINARY_ERROR_INTERNAL;
  Graph graph(stream, [&] { captured = launch(); });
  suite.report.checked(name + ": a capture after prepare holds one launch",
                       captured == CUBINARY_OK && graph.nodes() == 1,
                       captured == CUBINARY_OK ? std::to_string(graph.nodes()) + " node"
                                               : failure("launch", captured));
  for (int round = 1; round <= 2; ++round) {
    operands.poison();
    graph.replay(stream);
    suite.report.checked(name + ": replay " + std::to_string(round),
                         matches(suite, problem, operands), "");
  }
}

}  // namespace

void check_graphs(Suite& suite, const Release& release) {
  // Shapes no other check uses, so that nothing of theirs is loaded yet.
  check_graph(suite, release, rmsnorm_problem("f16", 96, 1536, {}, suite.random));
  check_graph(suite, release, l2norm_problem("f32", 96, 768, {}, suite.random));
  check_graph(suite, release, gemm_nt_problem("bf16", 384, 640, 320, suite.random));
}

}  // namespace cubinary::gpu
