// The console's pages: which file a path names, how it may be kept, what pages may load.
#include "api/console/pages.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/console/argon2.h"
#include "api/server/dispatcher.h"
#include "api/server/routes.h"
#include "tests/support/raw_http.h"

// Of the sanitizers' allocators: what is too much is no memory, and not the end, as without them.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace audiogen::api {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::array kEmbedded = {
    EmbeddedPage{.path = "index.html", .bytes = "<!doctype html>shell", .gzip = "packed shell"},
    EmbeddedPage{.path = "assets/app-1f.js", .bytes = "code", .gzip = "packed code"},
    EmbeddedPage{.path = "assets/dot-2e.svg", .bytes = "<svg/>", .gzip = ""}};

class PagesTest : public testing::Test {
 protected:
  static Config config(const std::string& folder = "") {
    Config out;
    out.brand = "svc";
    out.public_url = "https://audio.test";
    out.cdn_url = "https://cdn.test/files";
    out.console_dir = folder;
    out.files_per_minute = out.files_burst = 1000;
    out.unauthenticated_per_minute = 60;
    out.create_per_minute = out.create_burst = out.read_per_minute = out.read_burst = 60;
    return out;
  }

  // What is answered to a request for `path`, with further header lines.
  static test::RawResponse ask(const Config& config,
                               const std::string& path,
                               const std::string& lines = "",
                               const std::string& method = "GET") {
    const Pages pages(config, kEmbedded);
    RateLimiter limiter(config);
    Authenticator keys(config, limiter, Authenticator::bearer_keys(config));
    const RouteTree tree = route_tree(config, false, true);
    Parts parts{.pages = &pages};
    Dispatcher dispatcher(tree, parts, {keys}, limiter, config);
    http::Server server(
        http::ServerOptions{.heads_first = true},
        [&](http::Exchange exchange) { dispatcher.handle(std::move(exchange)); },
        render_server_error);
    EXPECT_TRUE(server.start());
    test::RawConnection connection(server.port());
    EXPECT_TRUE(connection.send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n"));
    return connection.response(method == "HEAD").value_or(test::RawResponse{});
  }
};

TEST_F(PagesTest, APathOfNoFileIsTheShell) {
  for (const char* path : {"/console/",
                           "/console/keys",
                           "/console/generations/aud_1",
                           "/console/index.html",
                           "/console/?a=b",
                           "/console/..%2f..%2fetc/passwd"}) {
    const auto reply = ask(config(), path);
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_EQ(reply.body, "<!doctype html>shell") << path;
    EXPECT_EQ(reply.header("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(reply.header("cache-control"), "no-store");
    EXPECT_EQ(reply.headers.count("content-encoding"), 0U);
  }
  const auto head = ask(config(), "/console/keys", "", "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "20");
}

TEST_F(PagesTest, AnAssetIsKeptForGoodAndOneThatIsGoneIsNoShell) {
  const auto code = ask(config(), "/console/assets/app-1f.js");
  EXPECT_EQ(code.body, "code");
  EXPECT_EQ(code.header("content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(code.header("cache-control"), "public, max-age=31536000, immutable");
  EXPECT_EQ(code.header("vary"), "Accept-Encoding");
  const auto gone = ask(config(), "/console/assets/app-00.js");
  EXPECT_EQ(gone.status, 404);
  EXPECT_THAT(gone.body, Not(HasSubstr("shell")));
}

TEST_F(PagesTest, IsSentPackedToWhoeverTakesIt) {
  const auto code = ask(config(), "/console/assets/app-1f.js", "Accept-Encoding: br, gzip\r\n");
  EXPECT_EQ(code.body, "packed code");
  EXPECT_EQ(code.header("content-encoding"), "gzip");
  EXPECT_EQ(code.header("content-type"), "text/javascript; charset=utf-8");
  const auto dot = ask(config(), "/console/assets/dot-2e.svg", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(dot.body, "<svg/>");
  EXPECT_EQ(dot.headers.count("content-encoding"), 0U);
  for (const char* header :
       {"gzip", "GZIP", "br,gzip;q=0.5", "gzip; q=1", " gzip ", "gzip;q=0.001"}) {
    EXPECT_TRUE(accepts_gzip(header)) << header;
  }
  for (const char* header :
       {"", "br", "xgzip", "gzip;q=0", "gzip;q=0.0", "br;q=1, gzip; q=0.000"}) {
    EXPECT_FALSE(accepts_gzip(header)) << header;
  }
}

TEST_F(PagesTest, NothingLoadsWhatIsNotOurs) {
  for (const char* path : {"/console/", "/console/assets/app-1f.js", "/", "/console"}) {
    const auto reply = ask(config(), path);
    EXPECT_EQ(reply.header("content-security-policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
              "connect-src 'self' https://cdn.test; media-src 'self' blob: "
              "https://cdn.test; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
        << path;
    EXPECT_EQ(reply.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(reply.header("referrer-policy"), "no-referrer");
    EXPECT_EQ(reply.header("cross-origin-opener-policy"), "same-origin");
    EXPECT_THAT(reply.head, Not(HasSubstr("Access-Control")));
  }
  EXPECT_THAT(content_security_policy("https://audio.test", "https://audio.test/files"),
              HasSubstr("connect-src 'self'; media-src 'self' blob:; "));
}

TEST_F(PagesTest, TheRootLeadsThere) {
  for (const char* path : {"/", "/console"}) {
    const auto reply = ask(config(), path);
    EXPECT_EQ(reply.status, 302) << path;
    EXPECT_EQ(reply.header("location"), "/console/");
    EXPECT_EQ(reply.header("cache-control"), "no-store");
  }
}

TEST_F(PagesTest, AFolderIsReadAtEveryRequestAndNothingBesideIt) {
  std::string pattern = std::filesystem::temp_directory_path() / "audiogen-pages-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path folder = pattern;
  const auto write = [&](const char* name, const char* text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  EXPECT_FALSE(Pages(config(folder), kEmbedded).usable());
  write("www/index.html", "one");
  write("www/.env", "secret");
  write("secret.html", "secret");
  write("www/assets/a.css", "style");
  const Config here = config(folder / "www");
  EXPECT_TRUE(Pages(here, kEmbedded).usable());
  EXPECT_EQ(ask(here, "/console/").body, "one");
  write("www/index.html", "two");
  EXPECT_EQ(ask(here, "/console/keys").body, "two");
  EXPECT_EQ(ask(here, "/console/assets/a.css").body, "style");
  EXPECT_EQ(ask(here, "/console/assets/a.css").header("content-type"), "text/css; charset=utf-8");
  const std::string long_name = "/console/" + std::string(1000, 'a');
  for (const char* path : {"/console/.env",
                           "/console/../secret.html",
                           "/console/assets/../.env",
                           "/console//etc/passwd",
                           long_name.c_str(),
                           "/console/assets"}) {
    EXPECT_THAT(ask(here, path).body, Not(HasSubstr("secret"))) << path;
    EXPECT_THAT(ask(here, path).body, Not(HasSubstr("root:"))) << path;
  }
  EXPECT_EQ(ask(here, "/console/assets/../.env").status, 404);
  std::filesystem::remove_all(folder);
}

TEST_F(PagesTest, ABuildWithoutPagesHasNoneToShow) {
  EXPECT_FALSE(Pages(config(), {}).any());
  EXPECT_TRUE(Pages(config(), {}).usable());
  EXPECT_TRUE(Pages(config(), kEmbedded).any());
}

TEST(Argon2, KnowsThePasswordAgainAndNoOther) {
  const std::string encoded = *argon2_encode("correct horse battery");
  EXPECT_TRUE(encoded.starts_with("$argon2id$v=19$m=19456,t=2,p=1$")) << encoded;
  EXPECT_EQ(encoded.size(), 97U);
  EXPECT_EQ(argon2_matches(encoded, "correct horse battery"), true);
  EXPECT_EQ(argon2_matches(encoded, "correct horse batterx"), false);
  EXPECT_EQ(argon2_matches(encoded, ""), false);
  EXPECT_EQ(argon2_matches("", "correct horse battery"), false);
  EXPECT_NE(encoded, argon2_encode("correct horse battery")) << "each has a salt of its own";
  const std::string with_nul("a\0b", 3);
  EXPECT_EQ(argon2_matches(*argon2_encode(with_nul), "a"), false);
  EXPECT_EQ(argon2_matches(*argon2_encode(with_nul), with_nul), true);
}

// Nobody is told that his password is wrong when nobody has looked. The hash of this one wants 4
// TiB.
TEST(Argon2, WithoutMemoryTellsNothing) {
  EXPECT_EQ(argon2_matches("$argon2id$v=19$m=4294967295,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$"
                           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                           "correct horse battery"),
            std::nullopt);
}

// A file that is there and cannot be read, as one that cannot be opened for want of a descriptor.
TEST_F(PagesTest, AFileThatCannotBeReadIsNotMissing) {
  std::string pattern = testing::TempDir() + "audiogen_pages_XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path folder = pattern;
  std::filesystem::create_directory(folder / "assets");
  std::ofstream(folder / "index.html") << "shell";
  for (const char* name : {"assets/a.js", "b.txt"}) {
    // The first page of a process's memory is nobody's: EIO.
    std::filesystem::create_symlink("/proc/self/mem", folder / name);
    EXPECT_EQ(ask(config(folder), std::string("/console/") + name).status, 503) << name;
  }
  EXPECT_EQ(ask(config(folder), "/console/assets/c.js").status, 404);
  EXPECT_EQ(ask(config(folder), "/console/assets/" + std::string(300, 'a')).status, 404);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace audiogen::api
