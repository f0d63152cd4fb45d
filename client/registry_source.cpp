// SPDX-License-Identifier: Apache-2.0
#include "client/registry_source.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "client/http.hpp"
#include "client/registry_auth.hpp"
#include "core/base/json.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;
using std::chrono::milliseconds;

constexpr int k_max_redirects = 5;
constexpr int k_max_tags = 10'000;
constexpr milliseconds k_longest_backoff{5'000};

std::string_view manifest_accept() {
  return "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json";
}

bool worth_retrying(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

/// Retry-After in seconds; the date form is rare and counts as none.
std::optional<milliseconds> retry_after(const HttpReply& reply) {
  const std::string_view text = reply.header("retry-after");
  unsigned seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::min(seconds, 86'400U));
}

core::Error status_error(int status, const std::string& what) {
  const std::string text = what + ": HTTP status " + std::to_string(status);
  switch (status) {
    case 401:
      return {ErrorCode::unauthorized,
              text +
                  ": the server wants credentials: set CUBINARY_TOKEN to a token or "
                  "USER:PASSWORD it knows"};
    case 403:
      return {ErrorCode::forbidden, text + ": these credentials may not read here"};
    case 404:
      return {ErrorCode::not_found, text + ": not there"};
    case 408:
    case 504:
      return {ErrorCode::timeout, text};
    default:
      return {ErrorCode::network, text};
  }
}

/// Splits an absolute URL into origin and target, without a fragment.
std::optional<std::pair<std::string, std::string>> split_url(std::string_view url) {
  const auto scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) {
    return std::nullopt;
  }
  url = url.substr(0, url.find('#'));
  const auto path = url.find_first_of("/?", scheme_end + 3);
  const std::string origin(url.substr(0, path));
  std::string target = path == std::string_view::npos ? "/" : std::string(url.substr(path));
  if (target.starts_with('?')) {
    target.insert(0, "/");
  }
  // The parser of source names knows what a usable host and port are.
  const auto parsed = SourceName::parse(origin);
  if (!parsed || parsed->kind != SourceName::Kind::registry || !parsed->tag.empty()) {
    return std::nullopt;
  }
  return std::pair{parsed->origin, std::move(target)};
}

class RegistrySource final : public Source {
 public:
  RegistrySource(SourceName name, SourceOptions options)
      : m_name(std::move(name)),
        m_options(std::move(options)),
        m_auth(m_options.token),
        m_random(std::random_device{}()) {}

  Result<std::vector<Tag>> tags(Deadline deadline) override {
    std::vector<Tag> result;
    std::string target = base() + "tags/list?n=1000";
    while (!target.empty()) {
      TRY_ASSIGN(const Fetched page, fetch({target, "application/json", {}, {}}, deadline));
      TRY_ASSIGN(const auto json, core::json::parse(core::as_text(page.bytes)));
      const core::json::Node top(json, "the tag list of " + m_name.place());
      TRY_ASSIGN(const auto list, top.find("tags"));
      if (list.exists() && list.value().get_if<std::nullptr_t>() == nullptr) {
        TRY_ASSIGN(const auto elements, list.elements());
        for (const auto& element : elements) {
          TRY_ASSIGN(std::string tag, element.text());
          result.push_back({std::move(tag), std::nullopt});
        }
      }
      if (result.size() > k_max_tags) {
        return fail(ErrorCode::too_large, m_name.place() + " has too many tags: name one");
      }
      target = next_page(page.reply);
    }
    return result;
  }

  Result<Document> manifest(std::string_view reference, Deadline deadline) override {
    Wanted wanted{
        base() + "manifests/" + std::string(reference), std::string(manifest_accept()), {}, {}};
    if (const auto digest = core::Digest::parse(reference)) {
      wanted.digest = *digest;
    }
    auto fetched = fetch(wanted, deadline);
    if (!fetched) {
      if (fetched.error().code == ErrorCode::not_found) {
        return fail(ErrorCode::not_found,
                    "no tag or manifest \"" + std::string(reference) + "\" in " + m_name.place());
      }
      return fail(std::move(fetched).error());
    }
    const core::Digest digest = core::sha256(fetched->bytes);
    return Document{std::move(fetched->bytes), digest};
  }

  Result<core::Bytes> blob(const core::Digest& digest, std::uint64_t size,
                           Deadline deadline) override {
    TRY_ASSIGN(Fetched fetched,
               fetch({base() + "blobs/" + digest.text(), "*/*", digest, size}, deadline));
    return std::move(fetched.bytes);
  }

  Result<std::vector<core::oci::Descriptor>> referrers(const core::Digest& subject,
                                                       Deadline deadline) override {
    const auto fetched = fetch(
        {base() + "referrers/" + subject.text(), std::string(manifest_accept()), {}, {}}, deadline);
    if (!fetched) {
      if (fetched.error().code == ErrorCode::not_found) {
        return std::vector<core::oci::Descriptor>{};
      }
      return fail(fetched.error());
    }
    TRY_ASSIGN(core::oci::Index index, core::oci::index_from_json(core::as_text(fetched->bytes)));
    return std::move(index.manifests);
  }

 private:
  struct Wanted {
    std::string target;
    std::string accept;
    std::optional<core::Digest> digest;
    std::optional<std::uint64_t> size;  ///< exact
  };
  struct Fetched {
    core::Bytes bytes;
    HttpReply reply;
  };
  /// What one exchange came to.
  struct Attempt {
    HttpReply reply;
    std::optional<core::Error> error;
    bool retry = false;
  };

  [[nodiscard]] std::string base() const { return "/v2/" + m_name.repository + "/"; }

  /// A registry's `Link: <…>; rel="next"`, on this origin only.
  std::string next_page(const HttpReply& reply) const {
    const std::string_view link = reply.header("link");
    const auto open = link.find('<');
    const auto close = link.find('>');
    if (open == link.npos || close == link.npos || close < open ||
        link.find("rel=\"next\"", close) == link.npos) {
      return {};
    }
    const std::string_view url = link.substr(open + 1, close - open - 1);
    if (url.starts_with('/')) {
      return std::string(url);
    }
    const auto split = split_url(url);
    return split && split->first == m_name.origin ? split->second : std::string();
  }

  /// A connection of one exchange's own, that goes back to those that wait for the next.
  class Lease {
   public:
    Lease(RegistrySource& source, std::string origin)
        : m_source(source), m_origin(std::move(origin)) {
      const std::lock_guard lock(m_source.m_mutex);
      auto& idle = m_source.m_idle[m_origin];
      if (idle.empty()) {
        m_connection = std::make_unique<HttpConnection>(m_origin);
      } else {
        m_connection = std::move(idle.back());
        idle.pop_back();
      }
    }
    ~Lease() {
      const std::lock_guard lock(m_source.m_mutex);
      m_source.m_idle[m_origin].push_back(std::move(m_connection));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    HttpConnection* operator->() const { return m_connection.get(); }

   private:
    RegistrySource& m_source;
    const std::string m_origin;
    std::unique_ptr<HttpConnection> m_connection;
  };

  /// Waits before try `failures + 1`; false when the deadline would pass first.
  bool pause(int failures, std::optional<milliseconds> asked, Deadline deadline) {
    milliseconds wait = m_options.backoff * (1LL << std::min(failures - 1, 10));
    wait = std::min(wait, k_longest_backoff);
    {
      // Ranks that failed together should not come back together.
      const std::lock_guard lock(m_mutex);
      wait +=
          milliseconds(std::uniform_int_distribution<std::int64_t>(0, wait.count() / 2)(m_random));
    }
    wait = std::max(wait, asked.value_or(milliseconds(0)));
    if (std::chrono::steady_clock::now() + wait >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(wait);
    return true;
  }

  Result<Fetched> fetch(const Wanted& wanted, Deadline deadline) {
    Fetched fetched;
    int failures = 0;
    int wrong_bytes = 0;
    while (true) {
      const std::size_t before = fetched.bytes.size();
      Attempt attempt = try_once(wanted, fetched.bytes, deadline);
      if (!attempt.error) {
        if (wanted.size && fetched.bytes.size() != *wanted.size) {
          attempt.error =
              core::Error{ErrorCode::corrupt,
                          what(wanted) + ": " + std::to_string(fetched.bytes.size()) +
                              " bytes came, " + std::to_string(*wanted.size) + " were promised"};
        } else if (wanted.digest && core::sha256(fetched.bytes) != *wanted.digest) {
          attempt.error =
              core::Error{ErrorCode::corrupt, what(wanted) +
                                                  ": the bytes that came do not have the digest "
                                                  "they were asked by"};
        }
        if (!attempt.error) {
          fetched.reply = std::move(attempt.reply);
          return fetched;
        }
        // A broken proxy may serve the same wrong bytes for ever.
        fetched.bytes.clear();
        attempt.retry = ++wrong_bytes < 3;
      }
      if (!attempt.retry) {
        return fail(*std::move(attempt.error));
      }
      if (!wanted.digest) {
        fetched.bytes.clear();  // a tag may have moved: never join two halves
      }
      failures = fetched.bytes.size() > before ? 1 : failures + 1;
      if (failures >= m_options.attempts ||
          !pause(failures, retry_after(attempt.reply), deadline)) {
        const bool late = std::chrono::steady_clock::now() >= deadline;
        attempt.error->message += failures >= m_options.attempts
                                      ? " (" + std::to_string(failures) + " tries in a row)"
                                  : late ? " (the deadline passed)"
                                         : " (the next try would come after the deadline)";
        return fail(*std::move(attempt.error));
      }
    }
  }

  [[nodiscard]] std::string what(const Wanted& wanted) const {
    return "GET " + m_name.origin + wanted.target;
  }

  /// One try, redirects and a challenge for credentials included. Appends to `bytes`, and resumes
  /// after what is there already.
  Attempt try_once(const Wanted& wanted, core::Bytes& bytes, Deadline deadline) {
    std::string origin = m_name.origin;
    std::string target = wanted.target;
    bool asked_for_token = false;
    const std::uint64_t limit = wanted.size.value_or(core::oci::k_max_document_bytes);

    for (int redirects = 0; redirects <= k_max_redirects;) {
      HttpRequest request;
      request.target = target;
      request.deadline = deadline;
      request.headers.emplace_back("Accept", wanted.accept);
      request.headers.emplace_back("User-Agent", "cubinary/" CUBINARY_VERSION);
      // Without it a server may compress what we check by digest.
      request.headers.emplace_back("Accept-Encoding", "identity");
      if (origin == m_name.origin) {
        if (auto header = m_auth.header(); !header.empty()) {
          request.headers.emplace_back("Authorization", std::move(header));
        }
      }
      if (!bytes.empty()) {
        request.headers.emplace_back("Range", "bytes=" + std::to_string(bytes.size()) + "-");
      }
      bool too_large = false;
      bool wanted_body = false;
      bool bad_range = false;
      request.head = [&](const HttpReply& reply) {
        if (reply.status == 206 && !bytes.empty()) {
          const std::string start = "bytes " + std::to_string(bytes.size()) + "-";
          bad_range = !reply.header("content-range").starts_with(start);
          wanted_body = !bad_range;
        } else if (reply.status == 200) {
          bytes.clear();
          wanted_body = true;
          if (wanted.size) {
            bytes.reserve(std::min<std::uint64_t>(*wanted.size, 64U << 20U));
          }
        }
        return !bad_range;
      };
      std::uint64_t ignored_body = 0;
      request.body = [&](core::ByteView piece) {
        if (!wanted_body) {
          ignored_body += piece.size();
          return ignored_body < (1U << 20U);
        }
        if (bytes.size() + piece.size() > limit) {
          too_large = true;
          return false;
        }
        bytes.insert(bytes.end(), piece.begin(), piece.end());
        return true;
      };

      auto reply = Lease(*this, origin)->get(request);
      if (!reply) {
        const std::string where = origin == m_name.origin ? "" : ", redirected to " + origin;
        return {{},
                reply.error().with_context(what(wanted) + where),
                reply.error().code != ErrorCode::timeout};
      }
      if (too_large) {
        bytes.clear();
        return {*reply,
                core::Error{ErrorCode::too_large, what(wanted) + ": more than the " +
                                                      std::to_string(limit) +
                                                      " bytes it may have came"},
                false};
      }
      if (wanted_body) {
        return {*std::move(reply), std::nullopt, false};
      }
      const int status = reply->status;
      if (bad_range || status == 416 || status == 206) {
        bytes.clear();
        return {*reply,
                core::Error{ErrorCode::network, what(wanted) + ": the server resumed wrongly"},
                true};
      }
      if (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) {
        const std::string_view location = reply->header("location");
        if (location.starts_with('/') && !location.starts_with("//")) {
          target = location;
        } else if (const auto next = split_url(location)) {
          if (origin.starts_with("https://") && !next->first.starts_with("https://")) {
            return {*reply,
                    core::Error{ErrorCode::network,
                                what(wanted) + ": refused a redirect from https to " + next->first},
                    false};
          }
          origin = next->first;
          target = next->second;
        } else {
          return {*reply,
                  core::Error{ErrorCode::network, what(wanted) + ": redirected to nowhere usable"},
                  false};
        }
        ++redirects;
        continue;
      }
      if (status == 401 && origin == m_name.origin && !asked_for_token) {
        asked_for_token = true;
        const std::string challenge(reply->header("www-authenticate"));
        auto answered = m_auth.answer(
            challenge, m_name.origin, m_name.repository,
            [this](const std::string& url, const std::string& authorization, Deadline until) {
              return get_token_document(url, authorization, until);
            },
            deadline);
        if (!answered) {
          return {*reply, answered.error().with_context(what(wanted)),
                  answered.error().code == ErrorCode::network};
        }
        if (*answered) {
          continue;
        }
      }
      return {*reply, status_error(status, what(wanted)), worth_retrying(status)};
    }
    return {{},
            core::Error{ErrorCode::network, what(wanted) + ": more than " +
                                                std::to_string(k_max_redirects) + " redirects"},
            false};
  }

  Result<std::string> get_token_document(const std::string& url, const std::string& authorization,
                                         Deadline deadline) {
    const auto split = split_url(url);
    if (!split) {
      return fail(ErrorCode::unauthorized,
                  "the token service's address \"" + url + "\" is not usable");
    }
    HttpRequest request;
    request.target = split->second;
    request.deadline = deadline;
    if (!authorization.empty()) {
      request.headers.emplace_back("Authorization", authorization);
    }
    std::string text;
    request.body = [&](core::ByteView piece) {
      text += core::as_text(piece);
      return text.size() < core::oci::k_max_document_bytes;
    };
    const std::string where = "token service " + split->first;
    const auto reply = Lease(*this, split->first)->get(request);
    if (!reply) {
      return fail(reply.error().with_context(where));
    }
    if (reply->status != 200) {
      return fail(status_error(reply->status, where));
    }
    return text;
  }

  SourceName m_name;
  SourceOptions m_options;
  RegistryAuth m_auth;
  std::mutex m_mutex;
  std::map<std::string, std::vector<std::unique_ptr<HttpConnection>>> m_idle;  ///< by origin
  std::minstd_rand m_random;
};

}  // namespace

Result<std::unique_ptr<Source>> open_registry_source(const SourceName& name,
                                                     const SourceOptions& options) {
  return std::make_unique<RegistrySource>(name, options);
}

}  // namespace cubinary::client
