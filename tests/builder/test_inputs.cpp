// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <catch2/catch_test_macros.hpp>

#include "builder/key/inputs.hpp"
#include "core/base/file.hpp"

using namespace cubinary;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> names(std::string_view text) {
  std::vector<std::string> found;
  for (const auto& directive : builder::scan_includes(text).directives) {
    found.push_back((directive.quoted ? "\"" : "<") + directive.name);
  }
  return found;
}
using Names = std::vector<std::string>;

/// A folder of files, removed with the test.
class Files {
 public:
  Files() {
    std::string name = (fs::temp_directory_path() / "cubinary-inputs-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    m_root = name;
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() { fs::remove_all(m_root); }
  void put(const std::string& name, std::string_view text) const {
    REQUIRE(core::write_file_atomic(m_root / name, core::as_bytes(text)).has_value());
  }
  [[nodiscard]] fs::path at(const std::string& name) const { return m_root / name; }

 private:
  fs::path m_root;
};

builder::Inputs scan(const Files& files, const std::string& source = "k.cu") {
  builder::InputScanner scanner;
  const builder::InputFolders folders{
      files.at("kernel"), {files.at("kernel/../common")}, {files.at("toolkit")}};
  auto inputs = scanner.scan(folders, {source});
  INFO((inputs ? "" : inputs.error().message));
  REQUIRE(inputs.has_value());
  return *inputs;
}

Names file_names(const builder::Inputs& inputs) {
  Names found;
  for (const auto& [name, digest] : inputs.files) {
    found.push_back(name);
  }
  return found;
}

}  // namespace

TEST_CASE("include directives are found however they are written") {
  CHECK(names("#include \"a.h\"\n#include <b.h>\n") == Names{"\"a.h", "<b.h"});
  CHECK(names("  #  include   <a.h>  // x\n\t#include\"b.h\"") == Names{"<a.h", "\"b.h"});
  CHECK(names("#include <a.h>\r\n#include <b.h>\r#include <c.h>") == Names{"<a.h", "<b.h", "<c.h"});
  CHECK(names("\xEF\xBB\xBF#include <a.h>\n") == Names{"<a.h"});
  CHECK(names("#incl\\\nude <a.h>\n#include \\\r\n <b.h>\n") == Names{"<a.h", "<b.h"});
  CHECK(names("/* x */ # /* y */ include /* z */ <a.h>\n") == Names{"<a.h"});
  CHECK(names("/* begins\n ends */ #include <a.h>\n") == Names{"<a.h"});
  CHECK(names("%: include <a.h>\n#include_next <b.h>") == Names{"<a.h", "<b.h"});
  CHECK(names("#if __has_include(<a.h>) && __has_include ( \"b.h\" )\n") == Names{"<a.h", "\"b.h"});
  CHECK(names("#if 0\n#include <never.h>\n#endif\n") == Names{"<never.h"});
}

TEST_CASE("what only looks like an include directive is none") {
  CHECK(names("int include = 1; // see #include <a.h>\n").empty());
  CHECK(names("const char* s = \"#include <a.h>\";\n").empty());
  CHECK(names("#define include_a include <a.h>\n").empty());
  CHECK(names("#include\n#include \"\"\n#include <a.h\n").empty());
}

TEST_CASE("an include that must be computed is told") {
  CHECK(builder::scan_includes("#include HEADER\n").computed);
  CHECK(builder::scan_includes("#include HEADER(x)\n").computed);
  CHECK_FALSE(builder::scan_includes("#include \"a.h\"\n").computed);
  CHECK_FALSE(builder::scan_includes("// #include HEADER\n").computed);
}

TEST_CASE("inputs are followed through folders and named without a path of this machine") {
  const Files files;
  files.put("kernel/k.cu", "#include \"sub/a.cuh\"\n#include <c.h>\n#include <t.h>\n");
  files.put("kernel/sub/a.cuh", "#include \"b.cuh\"\n#include \"../../elsewhere/e.h\"\n");
  files.put("kernel/sub/b.cuh", "#include \"a.cuh\"\n#include <nowhere.h>\n");
  files.put("common/c.h", "");
  files.put("toolkit/t.h", "#include \"t2.h\"\n");
  files.put("toolkit/t2.h", "");
  files.put("elsewhere/e.h", "");
  files.put("kernel/unused.h", "");
  const builder::Inputs inputs = scan(files);
  CHECK(file_names(inputs) == Names{"include0/c.h", "source/../elsewhere/e.h", "source/k.cu",
                                    "source/sub/a.cuh", "source/sub/b.cuh", "toolkit0/t.h",
                                    "toolkit0/t2.h"});
  CHECK(inputs.absent == Names{"nowhere.h"});
}

TEST_CASE("the digest follows content, not place") {
  const auto fill = [](const Files& files, const char* header) {
    files.put("kernel/k.cu", "#include \"a.h\"\n");
    files.put("kernel/a.h", header);
  };
  const Files one;
  const Files two;
  fill(one, "int a;");
  fill(two, "int a;");
  CHECK(scan(one).digest == scan(two).digest);
  fill(two, "int b;");
  CHECK(scan(one).digest != scan(two).digest);
  fill(two, "int a;");
  two.put("kernel/other.h", "not included");
  CHECK(scan(one).digest == scan(two).digest);
}

TEST_CASE("a header that appears before another changes the digest") {
  const Files files;
  files.put("kernel/k.cu", "#include <c.h>\n");
  files.put("common/c.h", "same");
  const core::Digest before = scan(files).digest;
  files.put("kernel/c.h", "same");  // the kernel's own folder comes first
  CHECK(scan(files).digest != before);
}

TEST_CASE("a missing header of a branch not taken is fine, and its arrival is noticed") {
  const Files files;
  files.put("kernel/k.cu", "#if 0\n#include \"later.h\"\n#endif\n");
  const builder::Inputs before = scan(files);
  CHECK(before.absent == Names{"later.h"});
  files.put("kernel/later.h", "");
  CHECK(scan(files).digest != before.digest);
}

TEST_CASE("a computed include brings in every file of the manifest's folders") {
  const Files files;
  files.put("kernel/k.cu", "#define H \"a.h\"\n#include H\n");
  files.put("kernel/a.h", "1");
  files.put("kernel/deep/b.h", "2");
  files.put("common/c.h", "3");
  files.put("toolkit/t.h", "4");
  CHECK(file_names(scan(files)) ==
        Names{"include0/c.h", "source/a.h", "source/deep/b.h", "source/k.cu"});
}

TEST_CASE("a missing source is told by name") {
  const Files files;
  files.put("kernel/other.cu", "");
  builder::InputScanner scanner;
  const auto inputs = scanner.scan({files.at("kernel"), {}, {}}, {"k.cu"});
  REQUIRE_FALSE(inputs.has_value());
  CHECK(inputs.error().code == core::ErrorCode::manifest);
  CHECK(inputs.error().message.find("kernel/k.cu is missing") != std::string::npos);
}

TEST_CASE("a file that changes after it was hashed is noticed") {
  const Files files;
  files.put("kernel/k.cu", "#include \"a.h\"\n");
  files.put("kernel/a.h", "1");
  const builder::Inputs inputs = scan(files);
  CHECK_FALSE(builder::changed_since(inputs).has_value());
  files.put("kernel/a.h", "22");
  REQUIRE(builder::changed_since(inputs).has_value());
  CHECK(builder::changed_since(inputs)->filename() == "a.h");
  fs::remove(files.at("kernel/a.h"));
  CHECK(builder::changed_since(inputs).has_value());
}
