// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/manifest/manifest.hpp"
#include "tests/core/manifest_fixture.hpp"

// A manifest broken in one place, and exactly what is said of it.

using namespace cubinary::core;

namespace {

struct Broken {
  const char* from;
  const char* to;
  const char* error;  ///< after "kernel.toml:"
};

constexpr Broken k_one_launch[] = {
    {"manifest = 1\n", "", "1:1: the manifest needs the key \"manifest\""},
    {"manifest = 1", "manifest = 2", "1:12: \"manifest\" is 2; this program reads format 1"},
    {"manifest = 1", "manifest = \"1\"", "1:12: \"manifest\" must be an integer, not text"},
    {"manifest = 1", "manifest = 1\nmanifest = 1", "2:1: \"manifest\" is given twice; keep one"},
    {"name = \"rmsnorm\"", "name = \"rms norm\"",
     "2:8: the kernel's name \"rms norm\" must be letters, digits, _ - and ., start with a letter, "
     "and be at most 128 long"},
    {"name = \"rmsnorm\"", "name = 5", "2:8: \"name\" must be text, not an integer"},
    {"summary =", "sumary =",
     "3:1: unknown key \"sumary\" in the manifest (did you mean \"summary\"?)"},
    {"source = \"rmsnorm.cu\"", "source = \"\"", "4:10: \"source\" must not be empty text"},
    {"source = \"rmsnorm.cu\"\n", "", "1:1: the manifest needs the key \"source\""},
    {"source = \"rmsnorm.cu\"", "source = \"rmsnorm.cu\"\nsources = [\"a.cu\"]",
     "5:11: give \"source\" or \"sources\", not both"},
    {"source = \"rmsnorm.cu\"", "sources = []", "4:11: \"sources\" is empty"},
    {"source = \"rmsnorm.cu\"", "source = \"rmsnorm.cu\"\nflags = [\"-O3\", \"-arch=sm_90\"]",
     "5:17: the flag \"-arch=sm_90\" is not allowed: the target comes from \"targets\" or "
     "--target"},
    {"source = \"rmsnorm.cu\"", "source = \"rmsnorm.cu\"\nflags = \"O3\"",
     "5:9: the flag \"O3\" must begin with \"-\""},
    {"\"nvrtc\"", "\"nvrt\"", "6:11: \"backend\" cannot be \"nvrt\" (did you mean \"nvrtc\"?)"},
    {"\"nvrtc\"", "\"clang\"", "6:11: \"backend\" cannot be \"clang\"; it may be nvrtc, nvcc"},
    {"\"sm_120\"]", "\"sm_12\"]", "7:21: unknown target \"sm_12\" (did you mean \"sm_120\"?)"},
    {"\"sm_120\"]", "\"sm_90\"]", "7:21: the target \"sm_90\" is listed twice"},
    {"\"sm_120\"]", "120]", "7:21: a target must be text, not an integer"},
    {"[\"f32\", \"f16\"]", "[\"f32\", \"fp16\"]",
     "8:19: unknown dtype \"fp16\" (did you mean \"f16\"?)"},
    {"[\"f32\", \"f16\"]", "[]", "8:11: types.T is empty"},
    {"[\"f32\", \"f16\"]", "\"f32\"", "8:11: types.T must be a list, not text"},
    {"[\"f32\", \"f16\"]", "[\"f32\", \"f16\", \"f32\"]",
     "8:26: the dtype \"f32\" is listed twice"},
    {"types.T = [\"f32\", \"f16\"]",
     "types.T = { values = [\"f32\", \"f16\"], spelling = { bf16 = \"x\" } }",
     "8:51: \"bf16\" is none of types.T's dtypes (did you mean \"f16\"?)"},
    {"types.T = [\"f32\", \"f16\"]", "types.T = [\"f32\", \"f16\"]\ntypes.U = [\"f32\"]",
     "9:7: the type \"U\" has no effect: no entry names {U}, and it has no macro"},
    {"types.T = [\"f32\", \"f16\"]", "types.T = [\"f32\", \"f16\"]\ntypes.f32 = [\"f32\"]",
     "9:7: \"f32\" is a dtype and cannot name a type"},
    {"types.T = [\"f32\", \"f16\"]", "types.T = [\"f32\", \"f16\"]\ntypes.rows = [\"f32\"]",
     "13:1: \"rows\" is already a type; choose another name"},
    {"{ VEC = 4, WARPS = 8 }", "{ VEX = 4 }",
     "9:13: unknown tunable \"VEX\" (did you mean \"VEC\"?)"},
    {"{ VEC = 4, WARPS = 8 }", "{ VEC = 8 }",
     "9:19: the preferred value 8 is none of the values of \"VEC\" (1, 2, 4)"},
    {"{ VEC = 4, WARPS = 8 }", "{ VEC = 2 }", "9:24: the same config is preferred twice"},
    {"bucket = \"log2\"", "bucket = \"log\"",
     "12:35: axes.rows.bucket cannot be \"log\" (did you mean \"log2\"?)"},
    {"bucket = \"log2\"", "bucket = \"log2\", macro = \"R\"",
     "12:51: a macro needs \"compile = true\": the axis \"rows\" is not known when the kernel is "
     "compiled"},
    {"tune = [1, 64]", "tune = [1, -64]", "12:21: a size must be 0 or more, not -64"},
    {"tune = [1, 64]", "tune = [1, 1]", "12:21: 1 is listed twice"},
    {"tune = [1, 64]", "tunes = [1]",
     "12:10: unknown key \"tunes\" in axes.rows (did you mean \"tune\"?)"},
    {"tune = [64, 128], compile = true", "compile = true",
     "13:1: the axis \"head_dim\" is compiled in, so \"tune\" must list its values"},
    {"compile = true", "compile = true, bucket = \"log2\"",
     "13:57: the axis \"head_dim\" is compiled in, so its bucket is \"exact\""},
    {"compile = true", "compile = \"yes\"",
     "13:42: axes.head_dim.compile must be true or false, not text"},
    {"head_dim = { tune", "min = { tune",
     "13:1: \"min\" is a word of the expression language and cannot name an axis"},
    {"rows = { tune", "2rows = { tune",
     "12:1: the name of an axis \"2rows\" must be a name of letters, digits and _, at most 64 "
     "long"},
    {"[1, 2, 4], default = 1", "[1, 2, 4], default = 3",
     "16:39: the default 3 is none of the values of \"VEC\" (1, 2, 4)"},
    {"[1, 2, 4], default = 1", "[1, 2, 4]", "16:7: tunables.VEC needs the key \"default\""},
    {"[1, 2, 4], default = 1", "[1, 2, true], default = 1",
     "16:25: the values of \"VEC\" must all be of one kind"},
    {"[1, 2, 4], default = 1", "[1, 2, 2], default = 1", "16:25: 2 is listed twice"},
    {"[1, 2, 4], default = 1", "[], default = 1", "16:18: tunables.VEC.values is empty"},
    {"[1, 2, 4], default = 1", "[1.5], default = 1.5",
     "16:19: a tunable's value is an integer, text, or true or false"},
    {"as = \"launch\"", "as = \"lunch\"",
     "17:49: tunables.WARPS.as cannot be \"lunch\" (did you mean \"launch\"?)"},
    {"as = \"launch\"", "as = \"flag\"",
     "17:49: as = \"flag\" needs the key \"flag\", such as \"-maxrregcount={}\""},
    {"as = \"launch\"", "as = \"flag\", flag = \"-maxrregcount\"",
     "17:64: \"flag\" must hold one {} where the value goes"},
    {"as = \"launch\"", "as = \"launch\", macro = \"W\"", "17:67: \"macro\" needs as = \"define\""},
    {"as = \"launch\"", "as = \"template\"",
     "17:1: the tunable \"WARPS\" has no effect: no entry names {WARPS}"},
    {"values = [1, 2, 8], default = 2", "values = [\"a\"], default = \"a\"",
     "17:47: a tunable with text values only enters the code: \"as\" is \"template\", \"define\" "
     "or \"flag\""},
    {"WARPS = {", "IDLE = { values = [1], default = 1, as = \"launch\" }\nWARPS = {",
     "17:1: the tunable \"IDLE\" has no effect: no expression names it"},
    {"WARPS = {", "IDLE = { values = [1], default = 1, as = \"arg\" }\nWARPS = {",
     "17:1: the tunable \"IDLE\" has no effect: no argument's \"is\" names it"},
    {"threads = \"32 * WARPS\"", "threads = \"32 * WARP\"",
     "20:25: let \"threads\": unknown name \"WARP\" (did you mean \"WARPS\"?)"},
    {"threads = \"32 * WARPS\", smem = \"4 * WARPS\"",
     "threads = \"smem * 8\", smem = \"threads / 8 * WARPS\"",
     "20:9: let \"threads\" depends on itself: threads -> smem -> threads"},
    {"threads = \"32 * WARPS\"", "VEC = \"32\"",
     "20:9: \"VEC\" is already a tunable; choose another name"},
    {"\"threads <= 1024\"", "\"threads <= 1O24\"",
     "21:24: the rule: a name does not start with a digit, and numbers are decimal"},
    {"\"threads <= 1024\"", "\"threads <= (1024\"", "21:29: the rule: expected \")\""},
    {"\"threads <= 1024\"", "\"T <= 1024\"",
     "21:13: the rule: \"T\" is a type; its size is \"sizeof(T)\""},
    {"\"threads <= 1024\"", "\"x <= 1024\"",
     "21:13: the rule: unknown name \"x\"; it is an argument, of which only align(…) can be used"},
    {"\"threads <= 1024\"", "\"target.smem <= 1024\"",
     "21:13: the rule: unknown name \"target.smem\" (did you mean \"target.regs\"?)"},
    {"\"threads <= 1024\"", "\"threads <= 99999999999999999999\"",
     "21:24: the rule: the number does not fit 64 bits"},
    {"\"threads <= 1024\"", "true",
     "21:12: the rule must be an expression or an integer, not true or false"},
    {"sizeof(T)) == 0\"", "sizeof(U)) == 0\"",
     "21:73: the rule: unknown type in \"sizeof(U)\" (did you mean \"T\"?)"},
    {"align(x)", "align(n)",
     "21:55: the rule: \"align(n)\": \"n\" is no pointer that the caller passes"},
    {"align(x)", "align(z)",
     "21:55: the rule: unknown argument in \"align(z)\" (did you mean \"y\"?)"},
    {"{VEC}", "{VECTOR}",
     "5:23: the placeholder {VECTOR} names no type, template tunable or compiled axis (did you "
     "mean \"VEC\"?)"},
    {"{VEC}", "{WARPS}",
     "5:23: the placeholder {WARPS} is a tunable with another \"as\" than \"template\""},
    {"{VEC}", "{rows}",
     "5:23: the placeholder {rows} is an axis known only at run time; \"compile = true\" makes it "
     "part of the code"},
    {"{VEC}", "{VEC", "5:23: \"{\" without \"}\" in the entry"},
    {"{VEC}", "VEC}", "5:26: \"}\" without \"{\" in the entry"},
    {"{VEC}", "4", "16:1: the tunable \"VEC\" has no effect: no entry names {VEC}"},
    {"{head_dim}", "64",
     "13:1: the axis \"head_dim\" has no effect on the code: no entry names {head_dim}, and it has "
     "no macro"},
    {"{T}, {VEC}", "float, {VEC}",
     "8:7: the type \"T\" has no effect: no entry names {T}, and it has no macro"},
    {"entry = \"rmsnorm<{T}, {VEC}", "entry = \"(anonymous namespace)::rmsnorm<{T}, {VEC}",
     "5:9: a kernel in an anonymous namespace cannot be named from outside; give its namespace a "
     "name"},
    {"grid = [\"ceil_div(rows, 2)\"]", "grid = []",
     "24:8: \"grid\" has 1 to 3 dimensions, x first; this has 0"},
    {"grid = [\"ceil_div(rows, 2)\"]", "grid = [1, 2, 3, 4]",
     "24:8: \"grid\" has 1 to 3 dimensions, x first; this has 4"},
    {"grid = [\"ceil_div(rows, 2)\"]", "grid = \"rows\"",
     "24:8: \"grid\" must be a list, not text"},
    {"grid = [\"ceil_div(rows, 2)\"]\n", "", "23:1: [launch] needs the key \"grid\""},
    {"smem = \"smem\"", "smem = 1.5",
     "26:8: \"smem\" must be an expression or an integer, not a decimal number"},
    {"smem = \"smem\"", "shared = \"smem\"",
     "26:1: unknown key \"shared\" in [launch]; known keys: grid, block, smem, cluster, "
     "cooperative, args"},
    {"out = \"T\"", "in = \"T\"",
     "28:12: no argument is \"out\" or \"inout\": a kernel without output cannot be checked"},
    {"out = \"T\"", "out = \"U\"",
     "28:23: unknown type \"U\" of the argument \"y\" (did you mean \"T\"?)"},
    {"out = \"T\"", "out = \"float\"",
     "28:23: unknown type \"float\" of the argument \"y\" (did you mean \"f32\"?)"},
    {"out = \"T\"", "out = \"u32\"",
     "28:23: unknown type \"u32\" of the argument \"y\" (did you mean \"i32\"? An unsigned integer "
     "goes "
     "by the signed one of its size)"},
    {"out = \"T\"", "out = \"T\", in = \"T\"",
     "28:28: the argument \"y\" is both \"out\" and \"in\"; keep one"},
    {"out = \"T\", len = \"rows * head_dim\"", "out = \"T\"",
     "28:3: the argument \"y\" needs the key \"len\""},
    {"out = \"T\", len = \"rows * head_dim\"", "out = \"T\", len = \"rows * VEC\"",
     "28:42: \"len\" of the argument \"y\" may not depend on tunables, as \"VEC\" does"},
    {"out = \"T\", len = \"rows * head_dim\"", "out = \"T\", len = \"rows\", fill = \"zero\"",
     "28:42: \"fill\" has no meaning for the argument \"y\", which is \"out\""},
    {"name = \"x\", in", "name = \"y\", in", "29:12: the argument \"y\" is declared twice"},
    {"{ name = \"x\", in", "{ in", "29:3: an argument needs the key \"name\""},
    {"fill = \"normal(0, 1)\"", "fill = \"gauss(0, 1)\"",
     "29:59: unknown fill \"gauss\"; there are normal(mean, deviation), uniform(low, high), "
     "const(value), zero, range, index(n), file(path)"},
    {"fill = \"normal(0, 1)\"", "fill = \"normal(0)\"",
     "29:59: the fill \"normal\" takes 2 numbers, not 1"},
    {"fill = \"normal(0, 1)\"", "fill = \"index(rows)\"",
     "29:59: the fill \"index\" needs an integer dtype"},
    {"scalar = \"i32\", is = \"rows\"", "scalar = \"i32\", is = \"rows\", default = 1",
     "30:56: the argument \"n\" is computed by \"is\" and needs no default"},
    {"scalar = \"i32\", is = \"rows\"", "scalar = \"i32\", is = \"align(x)\"",
     "30:39: \"is\" of the argument \"n\" may not depend on the alignment of arguments, as "
     "\"align(x)\" does"},
    {"scalar = \"f32\", default = 1e-6", "scalar = \"u8\", default = 256",
     "31:44: the default of the argument \"eps\" is outside the range of u8"},
    {"scalar = \"f32\", default = 1e-6", "scalar = \"i32\", default = 0.5",
     "31:45: the default of the argument \"eps\" is no integer, as needed for i32"},
    {"scalar = \"f32\", default = 1e-6", "bytes = 12, align = 8",
     "31:39: \"align\" of the argument \"eps\" must be a power of two that divides \"bytes\""},
    {"scalar = \"f32\", default = 1e-6", "handle = false", "31:28: \"handle\" may only be true"},
    {"rmsnorm_ref<{T}>", "rmsnorm_ref<{T}, {VEC}>",
     "35:41: the placeholder {VEC} is a tunable; a reference or prepare kernel is the same for "
     "every config"},
    {"grid = [\"rows\"]", "grid = [\"rows / WARPS\"]",
     "35:59: \"grid\" of the reference kernel may not depend on tunables, as \"WARPS\" does"},
    {"block = [256] }", "block = [256], args = [\"x\"] }",
     "35:13: the reference kernel takes no output argument, so there is nothing to compare"},
    {"block = [256] }", "block = [256], args = [\"y\", \"xs\"] }",
     "35:88: unknown argument \"xs\" (did you mean \"x\"?)"},
    {"f16 = [2e-3, 1e-3]", "bf16 = [2e-3, 1e-3]",
     "36:35: no output has the dtype bf16; tolerances go by the dtypes of outputs"},
    {", f16 = [2e-3, 1e-3]", ", f16 = [2e-3, 1e-3], f64 = [0, 0]",
     "36:55: no output has the dtype f64; tolerances go by the dtypes of outputs"},
    {", f16 = [2e-3, 1e-3]", "", "36:13: \"tolerance\" lacks f16, which the output \"y\" may have"},
    {"f16 = [2e-3, 1e-3]", "f16 = 2e-3", "36:41: a tolerance is [relative, absolute]"},
    {"f16 = [2e-3, 1e-3]", "f16 = [2e-3, nan]", "36:48: a tolerance must be finite"},
    {"{ rows = 3, head_dim = 64 }", "{ rows = 3 }", "37:9: the shape lacks the axis \"head_dim\""},
    {"{ rows = 3, head_dim = 64 }", "{ rows = 3, head_dim = 65 }",
     "37:32: 65 is none of the values compiled for \"head_dim\""},
    {"{ rows = 3, head_dim = 64 }", "{ row = 3, head_dim = 64 }",
     "37:11: unknown axis \"row\" (did you mean \"rows\"?)"},
    {"cache = \"cold\"", "cache = \"hot\"",
     "40:9: \"cache\" cannot be \"hot\"; it may be cold, warm"},
    {"bytes = \"2 * rows", "bytes = \"2 * WARPS",
     "41:14: \"bytes\" may not depend on tunables, as \"WARPS\" does"},
    {"[measure]\n", "[measures]\n",
     "39:2: unknown key \"measures\" in the manifest (did you mean \"measure\"?)"},
    {"[measure]\n", "[check]\n", "39:2: \"check\" is given twice; keep one"},
    {"cache = \"cold\"", "cache = \"cold", "40:14: the text has no closing quote on its line"},
    {"cache = \"cold\"",
     "cache =", "40:8: not valid TOML: key-value pair: expected value, saw '\\n'"},
    {"[axes]", "[[axes]]", "11:1: [axes] must be a table, not a list"},
    {"[launch]", "[[step]]",
     "5:9: a manifest with [[step]] has no \"entry\" of its own: each step has its keys, and "
     "\"args\" stands at the top"},
    {"name = \"eps\"", "name = \"eps\", name = \"eps\"",
     "31:19: \"name\" is given twice; keep one"},
};

constexpr Broken k_steps[] = {
    {"cols = {}", "cols = {}\nspare = {}",
     "15:1: the axis \"spare\" is unused: no expression names it"},
    {"name = \"partial\"", "name = \"finish\"", "30:8: the step \"finish\" is declared twice"},
    {"name = \"partial\"\n", "", "20:1: [[step]] needs the key \"name\""},
    {"name = \"partial\"", "name = \"first step\"",
     "21:8: a step's name \"first step\" must be a name of letters, digits and _, at most 64 long"},
    {"block = [256]", "blocks = [256]",
     "24:1: unknown key \"blocks\" in [[step]] (did you mean \"block\"?)"},
    {"args = [\"parts\", \"x\", \"n_splits\", \"map\"]",
     "args = [\"part\", \"x\", \"n_splits\", \"map\"]",
     "27:9: unknown argument \"part\" (did you mean \"parts\"?)"},
    {"args = [\"parts\", \"x\", \"n_splits\", \"map\"]", "args = [\"parts\", \"x\", \"n_splits\"]",
     "9:12: no step takes the argument \"map\""},
    {"args = [\"sums\", \"parts\"]", "args = [{ name = \"sums\", out = \"f32\", len = \"rows\" }]",
     "34:9: an argument's name must be text, not a table"},
    {"sources = [\"row_sum.cu\", \"finish.cu\"]",
     "sources = [\"row_sum.cu\", \"finish.cu\"]\ntargets = [\"sm_80\"]",
     "26:12: clusters need sm_90 or later, and \"targets\" lists sm_80"},
    {"vector = \"VEC\"", "vector = \"SPLITS + align(x)\"",
     "6:69: \"vector\" of the argument \"x\" may not depend on the alignment of arguments, as "
     "\"align(x)\" does"},
    {"len = \"rows * SPLITS\", init", "len = \"rows * SPLITS\", is",
     "7:63: \"is\" has no meaning for the argument \"parts\", which is \"workspace\""},
    {"init = \"zero\"", "init = \"one\"", "7:70: \"init\" cannot be \"one\"; it may be zero"},
    {"args = [\"sums\", \"x\"] }", "args = [\"sums\", \"n_splits\"] }",
     "38:13: the reference kernel takes \"n_splits\", which depends on tunables: list its \"args\" "
     "without it"},
    {"args = [\"x\"] }", "args = [\"sums\"] }",
     "37:11: the prepare kernel takes no input argument, so there is nothing to prepare"},
    {"handle = true", "handle = true, bytes = 8",
     "9:34: the argument \"map\" is both \"handle\" and \"bytes\"; keep one"},
    {"name = \"map\", handle = true", "name = \"map\"",
     "9:3: the argument \"map\" needs its kind: in, out, inout, scalar, workspace, bytes or "
     "handle"},
    {"cols = {}", "cols = { compile = true, tune = [8] }",
     "14:1: the axis \"cols\" has no effect on the code: no entry names {cols}, and it has no "
     "macro"},
    {"args = [\n", "arguments = [\n",
     "4:1: unknown key \"arguments\" in the manifest (did you mean \"targets\"?)"},
    {"cluster = [2]", "cluster = [\"VECS\"]",
     "25:13: \"cluster\" of step \"partial\": unknown name \"VECS\" (did you mean \"VEC\"?)"},
    {"cooperative = true", "cooperative = 1",
     "26:15: \"cooperative\" must be true or false, not an integer"},
    {"name = \"map\", handle = true", "name = \"map\", bytes = 32765",
     "9:27: \"bytes\" must be 1 to 32764, not 32765"},
};

void check_all(std::string_view manifest, std::span<const Broken> rows) {
  const auto whole = parse_manifest(manifest, "kernel.toml");
  if (!whole) {
    FAIL(whole.error().message);
  }
  for (const Broken& row : rows) {
    INFO(row.from << " => " << row.to);
    const auto broken = parse_manifest(replaced(manifest, row.from, row.to), "kernel.toml");
    REQUIRE_FALSE(broken.has_value());
    CHECK(broken.error().code == ErrorCode::manifest);
    CHECK(broken.error().message == std::string("kernel.toml:") + row.error);
  }
}

}  // namespace

TEST_CASE("every mistake in a manifest is named where it stands") {
  check_all(k_manifest, k_one_launch);
}

TEST_CASE("every mistake in a manifest of several steps is named where it stands") {
  check_all(k_steps_manifest, k_steps);
}
