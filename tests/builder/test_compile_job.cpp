// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "builder/compile/compile_job.hpp"
#include "builder/compile/compiler_log.hpp"
#include "builder/inspect/match_entry.hpp"

using namespace cubinary;
using builder::CompileJob;
using builder::CompileReply;

TEST_CASE("jobs and replies come through as they were sent") {
  const CompileJob job{core::Backend::nvcc,    "/c",         "/f", "m.cu",
                       std::string("a\0b", 3), {"k<1>", ""}, {},   "0123456789ab"};
  const CompileJob got = *builder::decode_job(builder::encode(job));
  CHECK(got.backend == core::Backend::nvcc);
  CHECK(got.compiler == "/c");
  CHECK(got.folder == "/f");
  CHECK(got.main_name == "m.cu");
  CHECK(got.main_source == std::string("a\0b", 3));
  CHECK(got.entries == job.entries);
  CHECK(got.options.empty());
  CHECK(got.seed == "0123456789ab");

  CompileReply reply;
  reply.status = CompileReply::Status::ok;
  reply.log = "log";
  reply.cubin = core::to_bytes("cubin");
  reply.symbols = {"_Z1kv"};
  reply.version_major = 13;
  reply.cpu_ms = 1.5;
  const CompileReply back = *builder::decode_reply(builder::encode(reply));
  CHECK(back.status == CompileReply::Status::ok);
  CHECK(back.log == "log");
  CHECK(back.cubin == reply.cubin);
  CHECK(back.symbols == reply.symbols);
  CHECK(back.version_major == 13);
  CHECK(back.cpu_ms == 1.5);
}

TEST_CASE("garbled messages are refused") {
  const core::Bytes bytes = builder::encode(CompileJob{});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(builder::decode_job(core::ByteView(bytes).first(size)).has_value());
  }
  core::Bytes longer = bytes;
  longer.push_back(std::byte{0});
  CHECK_FALSE(builder::decode_job(longer).has_value());
  core::Bytes huge(24, std::byte{0xFF});
  CHECK_FALSE(builder::decode_reply(huge).has_value());
}

TEST_CASE("the first error of a log comes with the way out") {
  using builder::first_error;
  const auto nvrtc = core::Backend::nvrtc;
  CHECK(first_error("k.cu(3): warning #1\n  k.cu(4): error: no such thing\nk.cu(5): error: x\n",
                    nvrtc) == "k.cu(4): error: no such thing");
  const auto advice = [&](const std::string& error) { return first_error(error, nvrtc); };
  CHECK(advice("a.h(3): catastrophic error: cannot open source file \"cassert\"\n")
            .find("__CUDACC_RTC__") != std::string::npos);
  CHECK(advice("a.h(3): catastrophic error: cannot open source file \"stdio.h\"\n")
            .find("backend = \"nvcc\"") != std::string::npos);
  CHECK(advice("a.h(3): catastrophic error: cannot open source file \"common.h\"\n")
            .find("the manifest's include") != std::string::npos);
  CHECK(advice("__nv_name_map(2): error: identifier \"k\" is undefined\n").find("misspelt") !=
        std::string::npos);
  CHECK(advice("k.cu(2): error: identifier \"k\" is undefined\n").find("misspelt") ==
        std::string::npos);
  CHECK(first_error("", nvrtc).empty());
  CHECK(first_error("ptxas fatal   : Unresolved extern function '_Z3extv'\n", nvrtc)
            .find("define it in the sources") != std::string::npos);
  const char* host = "k.cu(1): error: x host functions are not allowed in JIT mode. y\n";
  CHECK(first_error(host, nvrtc).find("backend = \"nvcc\"") != std::string::npos);
  CHECK(first_error(host, core::Backend::nvcc).find("backend") == std::string::npos);
  for (const auto backend : {nvrtc, core::Backend::nvcc}) {
    const std::string shared =
        "ptxas error   : Entry function 'k' uses too much shared data (0x445c0 bytes, 0xc000 "
        "max)\n";
    CHECK(first_error(shared, backend).ends_with("in `smem` of the manifest's launch"));
  }
  CHECK(first_error("unit.cu:1:10: fatal error: far.h: No such file or directory\n",
                    core::Backend::nvcc)
            .ends_with("name its folder in the manifest's include"));
}

TEST_CASE("a kept log has no resource lines and an end") {
  CHECK(builder::log_to_keep("ptxas info    : 0 bytes gmem\n"
                             "ptxas         .     0 bytes stack frame\n\n")
            .empty());
  CHECK(builder::log_to_keep("ptxas info    : x\nk.cu(1): warning: y\n") ==
        "k.cu(1): warning: y\n");
  CHECK(builder::log_to_keep("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n")
            .empty());
  // One warning a place, however many instantiations have it.
  const std::string one = "k.cu(1): warning #1: y\n  code\n    instantiation of f<1>\n\n";
  const std::string again = "k.cu(1): warning #1: y\n  code\n    instantiation of f<2>\n\n";
  const std::string other = "k.cu(2): warning #1: y\n  code\n\nk.cu(3): error: z\n";
  CHECK(builder::log_to_keep(one + again + other + again) == one + other);
  CHECK(builder::log_to_keep(one + again + "ptxas warning : w\n") == one + "ptxas warning : w\n");
  const std::string kept = builder::log_to_keep(std::string(100'000, 'x') + "\n");
  CHECK(kept.size() < 66'000);
  CHECK(kept.find("bytes left out") != std::string::npos);
}

TEST_CASE("nvcc's entries are matched to name expressions") {
  const std::vector<std::string> symbols = {
      "_Z5scaleIfLi4EEvPT_PKS0_if",         // void scale<float, 4>(…)
      "_Z5scaleIfLi8EEvPT_PKS0_if",         // void scale<float, 8>(…)
      "_ZN2ns4gemmI6__halfLb1ELj4EEEvPT_",  // void ns::gemm<__half, true, 4u>(…)
      "_ZN2ns4gemmI6__halfLb0ELj4EEEvPT_",  // void ns::gemm<__half, false, 4u>(…)
      "_ZN36_GLOBAL__N__ad49f71f_4_n_cu_802c4e234anonILi3EEEvPf",
      "plain",
  };
  using builder::match_entry;
  CHECK(match_entry("scale<float, 4>", symbols) == symbols[0]);
  CHECK(match_entry("scale<float,8>", symbols) == symbols[1]);
  CHECK(match_entry("ns::gemm<__half, true, 4>", symbols) == symbols[2]);
  CHECK(match_entry("ns::gemm<__half,false,4>", symbols) == symbols[3]);
  CHECK(match_entry("anon<3>", symbols) == symbols[4]);
  CHECK(match_entry("plain", symbols) == symbols[5]);
  CHECK(match_entry("static_cast<void(*)(float*)>(plain)", symbols) == symbols[5]);
  CHECK_FALSE(match_entry("scale<float, 2>", symbols).has_value());
  CHECK_FALSE(match_entry("other", symbols).has_value());
  // Letters that are types where a mangled name has them.
  CHECK(match_entry("f", {"f", "g"}) == "f");
  CHECK(builder::demangled("i") == "i");
  CHECK(builder::demangled("_Z1iPf") == "i(float*)");
  // One instantiation only: an alias in the arguments does no harm.
  CHECK(match_entry("scale<scalar_t, LANES>", {symbols[0], "plain"}) == symbols[0]);
}
