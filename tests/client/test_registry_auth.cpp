// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "client/registry_auth.hpp"

using cubinary::client::Deadline;
using cubinary::client::RegistryAuth;
using cubinary::core::Result;

namespace {
struct Service {
  std::string url;
  std::string authorization;
  std::string answer = R"({"token":"abc.def"})";
  RegistryAuth::GetDocument get() {
    return [this](const std::string& u, const std::string& a, Deadline) -> Result<std::string> {
      url = u;
      authorization = a;
      return answer;
    };
  }
};
}  // namespace

TEST_CASE("a token is sent as it is, a password only when it is asked for") {
  Service service;
  RegistryAuth token("secret");
  CHECK(token.header() == "Bearer secret");
  CHECK(token.answer("Bearer realm=\"https://t/x\"", "https://h", "r", service.get(), {}) == false);
  CHECK(service.url.empty());

  RegistryAuth password("user:pass");
  CHECK(password.header().empty());
  CHECK(password.answer("Basic realm=\"x\"", "https://h", "r", service.get(), {}) == true);
  CHECK(password.header() == "Basic dXNlcjpwYXNz");
  // Refused once: the same answer again would go round for ever.
  CHECK(password.answer("Basic realm=\"x\"", "https://h", "r", service.get(), {}) == false);

  RegistryAuth nothing("");
  CHECK(nothing.header().empty());
  CHECK(nothing.answer("Basic realm=\"x\"", "https://h", "r", service.get(), {}) == false);
}

TEST_CASE("a token service is asked as the challenge says") {
  Service service;
  RegistryAuth auth("user:pass");
  const auto answered = auth.answer(
      R"(Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull")",
      "https://registry.example", "a/b", service.get(), {});
  CHECK(answered == true);
  CHECK(service.url ==
        "https://auth.example/token?service=registry.example&scope=repository%3Aa%2Fb%3Apull");
  CHECK(service.authorization == "Basic dXNlcjpwYXNz");
  CHECK(auth.header() == "Bearer abc.def");

  RegistryAuth anonymous("");
  service.answer = R"({"access_token":"xyz"})";
  CHECK(anonymous.answer("bearer realm=\"https://a/t?x=1\"", "https://h", "r", service.get(), {}) ==
        true);
  CHECK(service.url == "https://a/t?x=1&scope=repository%3Ar%3Apull");
  CHECK(service.authorization.empty());
  CHECK(anonymous.header() == "Bearer xyz");
}

TEST_CASE("credentials never go over plain http because a challenge says so") {
  Service service;
  RegistryAuth auth("user:pass");
  const auto answered = auth.answer("Bearer realm=\"http://auth.example/token\"",
                                    "https://registry.example", "r", service.get(), {});
  REQUIRE(!answered);
  CHECK(answered.error().code == cubinary::core::ErrorCode::unauthorized);
  CHECK(service.url.empty());
}

TEST_CASE("a token that could not stand in a header is refused") {
  Service service;
  service.answer = R"({"token":"a\r\nX: y"})";
  RegistryAuth auth("");
  CHECK(!auth.answer("Bearer realm=\"https://a/t\"", "https://h", "r", service.get(), {}));
  CHECK(auth.header().empty());
}
