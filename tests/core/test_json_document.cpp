// SPDX-License-Identifier: Apache-2.0
// The flat reader of JSON: what it keeps, steps over and says is what the tree says.
#include <functional>
#include <optional>
#include <random>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/base/json.hpp"
#include "core/base/json_document.hpp"
#include "tests/core/changed_text.hpp"

using namespace cubinary::core;
using json::Document;
using json::Node;
using json::Value;
using json::View;

namespace {

/// The tree of a place, read through Views only; what was not kept is parsed now. None: some part
/// is refused then.
std::optional<Value> tree(const View& at, int kept_depth) {
  switch (at.kind()) {
    case Document::Kind::null:
      return Value(nullptr);
    case Document::Kind::truth:
    case Document::Kind::falsehood:
      return Value(at.boolean().value());
    case Document::Kind::integer:
      return Value(at.integer().value());
    case Document::Kind::number:
      return Value(at.number().value());
    case Document::Kind::text:
      return Value(at.text().value());
    case Document::Kind::array:
    case Document::Kind::object:
      break;
  }
  const auto document = Document::parse(at.raw(), {.kept_depth = kept_depth});
  if (!document) {
    return std::nullopt;
  }
  const View self = at.in(*document);
  if (at.kind() == Document::Kind::array) {
    json::Array array;
    const auto elements = self.elements();
    for (const View element : elements.value()) {
      auto read = tree(element, kept_depth);
      if (!read) {
        return std::nullopt;
      }
      array.push_back(*std::move(read));
    }
    return Value(std::move(array));
  }
  json::Object object;
  const auto members = self.members();
  for (const View member : members.value()) {
    auto read = tree(member, kept_depth);
    if (!read) {
      return std::nullopt;
    }
    object.emplace(member.key(), *std::move(read));
  }
  return Value(std::move(object));
}

const std::vector<std::string> k_seeds = {
    R"({"kernels":[{"name":"rms\u00e9","n":[1,-2,3.5e-2],"ok":true,"no":null}],"z":{"a":{"b":[[],{}]}}})",
    R"(["\ud83d\ude00","é€",0.1,1e300,-0,[[[1]]],{"":""},"\\\"\/\b{[\"]}"])",
    R"({"b":{"z":1,"y":{"q":[1,{"k":"]}"}]},"x":2},"a":[{"\u0061":1,"c":{}},[]],"c":9223372036854775807})",
};

}  // namespace

TEST_CASE("a document read in parts is the tree, or refused, wherever it is cut") {
  std::mt19937 random(20261201);
  std::size_t accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string& seed = k_seeds[random() % k_seeds.size()];
    const std::string text = cubinary::tests::changed_json(seed, random() % 3, random);
    CAPTURE(text);
    const auto whole = json::parse(text);
    accepted += whole ? 1 : 0;
    for (const int kept_depth : {1, 2, 3, 32}) {
      const auto document = Document::parse(text, {.kept_depth = kept_depth});
      const auto parts = document ? tree(View(*document, "it"), kept_depth) : std::nullopt;
      REQUIRE(parts.has_value() == whole.has_value());
      if (whole) {
        CHECK(*parts == *whole);
      }
    }
    if (!whole) {
      CHECK(Document::parse(text).error().message == whole.error().message);
    }
  }
  CHECK(accepted > 1000);
}

TEST_CASE("a View says what a Node says") {
  const std::string text =
      R"({"list":[{"n":1},{"n":"x","big":300,"t":true,"d":2.5}],"\u006eame":"a\tb","o":{}})";
  const auto value = json::parse(text).value();
  const auto document = Document::parse(text).value();
  const Node node(value, "the thing");
  const View view(document, "the thing");
  CHECK(view.text("name").value() == node.text("name").value());
  const auto same = [](const auto& read) {
    const std::string message = read.error().message;
    CHECK(read.error().code == ErrorCode::corrupt);
    return message;
  };
  CHECK(same(view.text("no")) == same(node.text("no")));
  CHECK(same(view.text("list")) == same(node.text("list")));
  CHECK(same(view.text()) == same(node.text()));
  CHECK(same(view.elements()) == same(node.elements()));
  CHECK(view.text_or("no", "other").value() == "other");
  CHECK(view.integer_or("no", 0, 1, 7).value() == 7);
  CHECK(view.boolean_or("no", true).value());

  const View list = view.at("list").value();
  const Node nodes = node.at("list").value();
  CHECK(same(list.members()) == same(nodes.members()));
  CHECK(same(list.at("n")) == same(nodes.at("n")));
  const View second = *++list.elements().value().begin();
  const Node second_node = nodes.elements().value()[1];
  CHECK(same(second.integer("n", 0, 9)) == same(second_node.integer("n", 0, 9)));
  CHECK(same(second.integer("big", 0, 255)) == same(second_node.integer("big", 0, 255)));
  CHECK(same(second.boolean_or("n", true)) == same(second_node.boolean_or("n", true)));
  CHECK(second.at("d").value().number().value() == 2.5);
  CHECK(second.at("big").value().number().value() == 300);
  CHECK(second.boolean_or("t", false).value());
  CHECK(list.elements().value().size() == 2);

  // A part that was stepped over has the same place once it is parsed.
  const auto outer = Document::parse(text, {.kept_depth = 2}).value();
  const View skeleton(outer, "the thing");
  const View skipped_list = skeleton.at("list").value();
  const View skipped = *++skipped_list.elements().value().begin();
  const auto inner = Document::parse(skipped.raw()).value();
  const View part = skipped.in(inner);
  CHECK(same(part.integer("n", 0, 9)) == same(second_node.integer("n", 0, 9)));
}

TEST_CASE("keys in any order and number are told apart") {
  std::string text = "{";
  for (int i = 4000; i > 0; --i) {
    text += "\"k" + std::to_string(i) + "\":{\"b\":1,\"a\":2},";
  }
  CHECK(Document::parse(text + "\"z\":0}"));
  const auto twice = Document::parse(text + "\"k17\":0}");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().message.find("\"k17\" stands twice") != std::string::npos);
  CHECK_FALSE(Document::parse(R"({"b":1,"\u0062":2})"));
  CHECK(Document::parse(R"({"b":{"x":1},"a":{"x":1}})"));
}
