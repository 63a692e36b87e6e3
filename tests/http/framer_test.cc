// The framing rules, one row each, whole and byte by byte.
#include "common/http/framer.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen::http {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

struct Outcome {
  Framer::Status status = Framer::Status::kHead;
  std::string reason, method, target, body, surplus;
  bool keep_alive = false;
  bool operator==(const Outcome&) const = default;
};

// Feeds `input` in pieces of `step` bytes; a piece after the end of the request is surplus.
Outcome feed(std::string_view input, std::size_t step, const FramerLimits& limits = {}) {
  Framer framer;
  Outcome outcome;
  std::size_t at = 0;
  while (at < input.size() &&
         (outcome.status == Framer::Status::kHead || outcome.status == Framer::Status::kBody)) {
    framer.append(input.substr(at, step));
    at += step;
    outcome.status = framer.advance(limits);
  }
  outcome.reason = framer.reason();
  if (outcome.status == Framer::Status::kComplete) {
    const Request& request = framer.request();
    outcome.method = request.method;
    outcome.target = request.target;
    outcome.body = request.body;
    outcome.keep_alive = request.keep_alive;
    outcome.surplus =
        std::string(framer.surplus()) + std::string(at < input.size() ? input.substr(at) : "");
  }
  return outcome;
}

struct Refused {
  const char* name;
  std::string bytes;
  const char* rule;
};

std::string with_headers(std::string_view lines, std::string_view rest = "") {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(lines) + "\r\n" + std::string(rest);
}
std::string chunks(std::string_view encoded) {
  return with_headers("Transfer-Encoding: chunked\r\n", encoded);
}
std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  while (times-- > 0) {
    out += text;
  }
  return out;
}

class RefusedFraming : public testing::TestWithParam<Refused> {};

TEST_P(RefusedFraming, IsRefusedByItsRuleWholeAndByteByByte) {
  for (const std::size_t step : {GetParam().bytes.size(), std::size_t{1}, std::size_t{7}}) {
    const Outcome outcome = feed(GetParam().bytes, step);
    EXPECT_EQ(outcome.status, Framer::Status::kRefused) << "step " << step;
    EXPECT_THAT(outcome.reason, HasSubstr(GetParam().rule)) << "step " << step;
  }
}

const Refused kRefused[] = {
    {"NoVersion", "GET /\r\n", "request line"},
    {"EmptyVersion", "GET / \r\n", "version"},
    {"VersionPrefix", "GET / HTTP/1\r\n", "version"},
    {"Version12", "GET / HTTP/1.2\r\n", "version"},
    {"Version20", "PRI * HTTP/2.0\r\n", "target"},
    {"Version20Path", "GET / HTTP/2.0\r\n", "version"},
    {"LowerCaseVersion", "GET / http/1.1\r\n", "version"},
    {"VersionThenSpace", "GET / HTTP/1.1 \r\n", "version"},
    {"TwoSpaces", "GET  / HTTP/1.1\r\n", "target"},
    {"SpaceInTarget", "GET /a b HTTP/1.1\r\n", "version"},
    {"TabInTarget", "GET /a\tb HTTP/1.1\r\n", "character"},
    {"NulInTarget", "GET /a\0b HTTP/1.1\r\n"s, "character"},
    {"HighByteInTarget", "GET /\xff HTTP/1.1\r\n", "character"},
    {"FragmentInTarget", "GET /a#b HTTP/1.1\r\n", "character"},
    {"AbsoluteNoHost", "GET http:///a HTTP/1.1\r\n", "slash"},
    {"AbsolutePortOnly", "GET http://:80/a HTTP/1.1\r\n", "slash"},
    {"AbsoluteUser", "GET http://u@a/ HTTP/1.1\r\n", "slash"},
    {"AbsoluteOtherScheme", "GET ftp://a/ HTTP/1.1\r\n", "slash"},
    {"AbsoluteOneSlash", "GET http:/a HTTP/1.1\r\n", "slash"},
    {"AbsoluteBackslash", "GET http://a\\b/ HTTP/1.1\r\n", "slash"},
    {"AbsoluteFragment", "GET http://a/#b HTTP/1.1\r\n", "character"},
    {"AbsoluteWithoutHostHeader", "GET http://a/ HTTP/1.1\r\n\r\n", "Host"},
    {"AbsoluteTwoHosts", "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "Host"},
    {"AuthorityForm", "CONNECT a:443 HTTP/1.1\r\n", "slash"},
    {"AsteriskForm", "OPTIONS * HTTP/1.1\r\n", "slash"},
    {"LongTarget", "GET /" + repeat("a", 16 * 1024) + " HTTP/1.1\r\n", "too long"},
    {"MethodNotToken", "G(T / HTTP/1.1\r\n", "method"},
    {"EmptyMethod", " / HTTP/1.1\r\n", "method"},
    {"LongMethod", repeat("A", 33) + " / HTTP/1.1\r\n", "method"},
    {"TlsHello", "\x16\x03\x01\x02\r\n", "method"},
    {"TwoEmptyLinesFirst", "\r\n\r\nGET / HTTP/1.1\r\n", "method"},
    {"BareLfRequestLine", "GET / HTTP/1.1\nHost: a\n\n", "bare line feed"},
    {"BareLfHeader", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "bare line feed"},
    {"BareLfEnd", "GET / HTTP/1.1\r\nHost: a\r\n\n", "bare line feed"},
    {"BareCrInValue", "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", "control character"},
    {"BareCrInRequestLine", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", "version"},
    {"NulInValue", "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n"s, "control character"},
    {"DelInValue", "GET / HTTP/1.1\r\nHost: a\r\nX: b\x7f\r\n\r\n", "control character"},
    {"ObsFold", with_headers("X: a\r\n b\r\n"), "folded"},
    {"ObsFoldTab", with_headers("X: a\r\n\tb\r\n"), "folded"},
    {"FoldedFirstHeader", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "folded"},
    {"NoColon", with_headers("Nonsense\r\n"), "no colon"},
    {"EmptyName", with_headers(": x\r\n"), "not a token"},
    {"SpaceBeforeColon", with_headers("Content-Length : 5\r\n"), "not a token"},
    {"TabBeforeColon", with_headers("X\t: 5\r\n"), "not a token"},
    {"SpaceInName", with_headers("X Y: 5\r\n"), "not a token"},
    {"HighByteInName", with_headers("X\xe9: 5\r\n"), "not a token"},
    {"NoHost", "GET / HTTP/1.1\r\n\r\n", "Host"},
    {"TwoHosts", with_headers("Host: a\r\n"), "Host"},
    {"TwoHostsHttp10", "GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", "Host"},
    {"HostWithPath", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "Host header is malformed"},
    {"HostWithUser", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "Host header is malformed"},
    {"HostWithSpace", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "Host header is malformed"},
    {"TwoLengthsDiffering",
     with_headers("Content-Length: 5\r\nContent-Length: 6\r\n"),
     "Content-Length"},
    {"TwoLengthsEqual",
     with_headers("Content-Length: 5\r\nContent-Length: 5\r\n"),
     "Content-Length"},
    {"LengthList", with_headers("Content-Length: 5, 5\r\n"), "Content-Length"},
    {"LengthPlus", with_headers("Content-Length: +5\r\n"), "Content-Length"},
    {"LengthMinus", with_headers("Content-Length: -1\r\n"), "Content-Length"},
    {"LengthTail", with_headers("Content-Length: 5abc\r\n"), "Content-Length"},
    {"LengthHex", with_headers("Content-Length: 0x5\r\n"), "Content-Length"},
    {"LengthWord", with_headers("Content-Length: abc\r\n"), "Content-Length"},
    {"LengthEmpty", with_headers("Content-Length:\r\n"), "Content-Length"},
    {"LengthOverflow", with_headers("Content-Length: 18446744073709551621\r\n"), "Content-Length"},
    {"Length257KiB", with_headers("Content-Length: 263168\r\n"), "larger than"},
    {"Length10GB", with_headers("Content-Length: 10000000000\r\n"), "larger than"},
    {"LengthAndChunked",
     with_headers("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
     "exclude"},
    {"ChunkedAndLength",
     with_headers("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
     "exclude"},
    {"ChunkedPrefix", with_headers("Transfer-Encoding: ch\r\n"), "chunked"},
    {"ChunkedQuoted", with_headers("Transfer-Encoding: \"chunked\"\r\n"), "chunked"},
    {"GzipChunked", with_headers("Transfer-Encoding: gzip, chunked\r\n"), "chunked"},
    {"ChunkedTwice",
     with_headers("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
     "chunked"},
    {"Identity", with_headers("Transfer-Encoding: identity\r\n"), "chunked"},
    {"ChunkedVerticalTab",
     with_headers("Transfer-Encoding: \x0b"
                  "chunked\r\n"),
     "control character"},
    {"ChunkedHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0"},
    {"ChunkMinus", chunks("-1\r\n"), "chunk size"},
    {"ChunkPlus", chunks("+1\r\n"), "chunk size"},
    {"ChunkHexPrefix", chunks("0x1\r\n"), "chunk size"},
    {"ChunkEmptySize", chunks("\r\n"), "chunk size"},
    {"ChunkSpaceFirst", chunks(" 1\r\n"), "chunk size"},
    {"ChunkSpaceLast", chunks("1 \r\n"), "chunk size"},
    {"ChunkTail", chunks("1 a\r\n"), "chunk size"},
    {"ChunkManyDigits", chunks("000000001\r\n"), "digits"},
    {"ChunkOverflow", chunks("ffffffffffffffff1\r\n"), "digits"},
    {"ChunkTooLarge", chunks("40001\r\n"), "larger than"},
    {"ChunksTooLarge", chunks(repeat("8000\r\n" + repeat("a", 0x8000) + "\r\n", 9)), "larger than"},
    {"ChunkBareLf", chunks("1\na\r\n"), "bare line feed"},
    {"ChunkDataTooLong", chunks("1\r\nab\r\n"), "longer than its size"},
    {"ChunkEndBareLf", chunks("1\r\na\n"), "bare line feed"},
    {"ChunkEndMissing", chunks("1\r\na0\r\n\r\n"), "longer than its size"},
    {"ChunkExtensionNul", chunks("1;a=\0\r\n"s), "chunk size"},
    {"ChunkExtensionLong", chunks("1;" + repeat("a", 2000)), "chunk size"},
    {"ChunkExtensionsLong",
     chunks(repeat("1;" + repeat("a", 900) + "\r\nx\r\n", 20)),
     "extensions"},
    {"TrailerNoColon", chunks("0\r\nnonsense\r\n\r\n"), "no colon"},
    {"TrailersLong", chunks("0\r\n" + repeat("a: b\r\n", 5000)), "trailers"},
    {"TooManyHeaders", with_headers(repeat("X: a\r\n", 100)), "more than 100"},
    {"LongHead", with_headers("X: " + repeat("a", 16 * 1024) + "\r\n"), "too long"},
    {"LongHeadInManyLines",
     with_headers(repeat("X: " + repeat("a", 300) + "\r\n", 60)),
     "too long"},
    {"EndlessFirstLine", repeat("A", 16 * 1024 + 1), "too long"},
};

std::string name_of(const testing::TestParamInfo<Refused>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Table, RefusedFraming, testing::ValuesIn(kRefused), name_of);

struct Accepted {
  const char* name;
  std::string bytes;
  std::string target;
  std::string body;
  std::string surplus;
};

class AcceptedFraming : public testing::TestWithParam<Accepted> {};

TEST_P(AcceptedFraming, IsTheSameHoweverItIsCut) {
  const Accepted& row = GetParam();
  for (std::size_t step = 1; step <= row.bytes.size(); step = step < 70 ? step + 1 : step * 2) {
    const Outcome outcome = feed(row.bytes, step);
    ASSERT_EQ(outcome.status, Framer::Status::kComplete) << outcome.reason << ", step " << step;
    EXPECT_EQ(outcome.target, row.target);
    EXPECT_EQ(outcome.body, row.body);
    EXPECT_EQ(outcome.surplus, row.surplus);
  }
}

const Accepted kAccepted[] = {
    {"Plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "", ""},
    {"Http10WithoutHost", "GET /a HTTP/1.0\r\n\r\n", "/a", "", ""},
    {"OneEmptyLineFirst", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "", ""},
    {"EmptyHost", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "/", "", ""},
    {"Ipv6Host", "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "/", "", ""},
    {"ObsText", "GET / HTTP/1.1\r\nHost: a\r\nX: \xe9\r\n\r\n", "/", "", ""},
    {"DotsAndPercents",
     "GET /v1/../%2e%2e/%00?a/../b?c HTTP/1.1\r\nHost: a\r\n\r\n",
     "/v1/../%2e%2e/%00?a/../b?c",
     "",
     ""},
    {"Absolute", "GET http://a.example:80/b/c?d=e HTTP/1.1\r\nHost: x\r\n\r\n", "/b/c?d=e", "", ""},
    {"AbsoluteCase", "GET HTTPS://A/b HTTP/1.1\r\nHost: a\r\n\r\n", "/b", "", ""},
    {"AbsoluteIpv6", "GET http://[::1]:8080/b HTTP/1.1\r\nHost: a\r\n\r\n", "/b", "", ""},
    {"AbsoluteWithoutPath", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\nrest", "/", "", "rest"},
    {"AbsoluteQueryAlone", "GET http://a?b=/c HTTP/1.1\r\nHost: a\r\n\r\n", "/?b=/c", "", ""},
    {"AbsoluteHttp10", "GET http://a/b HTTP/1.0\r\n\r\n", "/b", "", ""},
    {"AbsoluteBody",
     "POST http://a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
     "/",
     "hello",
     ""},
    {"OddMethod", "B-REW! / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "", ""},
    {"Body", with_headers("Content-Length: 5\r\n", "hello"), "/", "hello", ""},
    {"LeadingZeros", with_headers("Content-Length: 005\r\n", "hello"), "/", "hello", ""},
    {"EmptyBody", with_headers("Content-Length: 0\r\n", "rest"), "/", "", "rest"},
    {"Pipelined",
     with_headers("Content-Length: 5\r\n", "helloGET /2 HTTP/1.1\r\n"),
     "/",
     "hello",
     "GET /2 HTTP/1.1\r\n"},
    {"Chunked", chunks("5\r\nhello\r\n0\r\n\r\n"), "/", "hello", ""},
    {"ChunkedCase", with_headers("transfer-encoding:\t ChUnKeD \r\n", "0\r\n\r\n"), "/", "", ""},
    {"ChunkedPieces",
     chunks("1\r\nh\r\n00A\r\nello\r\n0\r\n\r\r\n1\r\n!\r\n0\r\n\r\nGET"),
     "/",
     "hello\r\n0\r\n\r!",
     "GET"},
    {"ChunkExtensions",
     chunks("5;a=b;c=\"d\"\r\nhello\r\n1 \t; x\r\n!\r\n0;last\r\n\r\n"),
     "/",
     "hello!",
     ""},
    {"Trailers",
     chunks("5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\nnext"),
     "/",
     "hello",
     "next"},
    {"LargestBody",
     with_headers("Content-Length: 262144\r\n", repeat("x", 262144)),
     "/",
     repeat("x", 262144),
     ""},
    {"LargestChunkedBody",
     chunks("40000\r\n" + repeat("y", 262144) + "\r\n0\r\n\r\n"),
     "/",
     repeat("y", 262144),
     ""},
    {"LongTarget",
     "GET /" + repeat("a", 15000) + " HTTP/1.1\r\nHost: a\r\n\r\n",
     "/" + repeat("a", 15000),
     "",
     ""},
    {"ManySlashes",
     "GET " + repeat("/", 15000) + " HTTP/1.1\r\nHost: a\r\n\r\n",
     repeat("/", 15000),
     "",
     ""},
    // What a second one means is for whoever reads it to say.
    {"TwoAuthorizations", with_headers("Authorization: x\r\nAUTHORIZATION: x\r\n"), "/", "", ""},
    {"TwoIdempotencyKeys",
     with_headers("Idempotency-Key: x\r\nIdempotency-Key: x\r\n"),
     "/",
     "",
     ""},
    {"TwoContentTypes", with_headers("Content-Type: x\r\ncontent-type: y\r\n"), "/", "", ""},
    {"MostHeaders", with_headers(repeat("X: a\r\n", 99)), "/", "", ""},
};

std::string accepted_name(const testing::TestParamInfo<Accepted>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Table, AcceptedFraming, testing::ValuesIn(kAccepted), accepted_name);

TEST(Framer, CutsAChunkedRequestAtEveryPairOfPlaces) {
  const std::string bytes = chunks("3\r\nabc\r\n1;x\r\nd\r\n0\r\nT: v\r\n\r\n");
  for (std::size_t a = 0; a <= bytes.size(); ++a) {
    for (std::size_t b = a; b <= bytes.size(); ++b) {
      Framer framer;
      framer.append(bytes.substr(0, a));
      framer.advance({});
      framer.append(bytes.substr(a, b - a));
      framer.advance({});
      framer.append(bytes.substr(b));
      ASSERT_EQ(framer.advance({}), Framer::Status::kComplete) << a << "," << b;
      ASSERT_EQ(framer.request().body, "abcd");
    }
  }
}

TEST(Framer, ShowsTheRequest) {
  Framer framer;
  framer.append(
      "POST /a/b?c=d&e HTTP/1.1\r\nHost: h\r\nX-Two:  1 "
      "\r\nx-two:\t2\t\r\nEmpty:\r\nContent-Length: 2\r\n\r\nok");
  ASSERT_EQ(framer.advance({}), Framer::Status::kComplete);
  const Request& request = framer.request();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/a/b?c=d&e");
  EXPECT_EQ(request.path, "/a/b");
  EXPECT_EQ(request.query, "c=d&e");
  EXPECT_EQ(request.body, "ok");
  EXPECT_EQ(request.header("x-two"), "1");
  EXPECT_EQ(request.header_count("x-two"), 2);
  EXPECT_TRUE(request.has_header("empty"));
  EXPECT_EQ(request.header("empty"), "");
  EXPECT_FALSE(request.has_header("x-one"));
  EXPECT_FALSE(request.http10);
}

// RFC 9112 3.2.2.
// More bytes have moved it, and nobody has read them yet.
TEST(Framer, ShowsTheHeadWhereverItIs) {
  Framer framer;
  framer.append(with_headers("Content-Length: 50000\r\n"));
  ASSERT_EQ(framer.advance({}), Framer::Status::kBody);
  framer.append(std::string(40'000, 'x'));
  EXPECT_EQ(framer.request().method, "POST");
  EXPECT_EQ(framer.request().path, "/");
  EXPECT_EQ(framer.request().header("host"), "a");
}

TEST(Framer, TheAuthorityOfAnAbsoluteTargetWinsOverHost) {
  const auto host_of = [](const std::string& bytes) {
    Framer framer;
    framer.append(bytes);
    EXPECT_EQ(framer.advance({}), Framer::Status::kComplete) << framer.reason();
    return std::string(framer.request().host());
  };
  EXPECT_EQ(host_of("GET / HTTP/1.1\r\nHost: b:1\r\n\r\n"), "b:1");
  EXPECT_EQ(host_of("GET http://a:2/ HTTP/1.1\r\nHost: b:1\r\n\r\n"), "a:2");
  EXPECT_EQ(host_of("GET http://a HTTP/1.1\r\nHost: b:1\r\n\r\n"), "a");
  EXPECT_EQ(host_of("GET http://a?q HTTP/1.1\r\nHost: b:1\r\n\r\n"), "a");
  EXPECT_EQ(host_of("GET http://a/ HTTP/1.0\r\n\r\n"), "a");
}

TEST(Framer, JoinsHeadersOfOneName) {
  Framer framer;
  framer.append("GET / HTTP/1.1\r\nHost: a\r\nX: 1, 2\r\nY: z\r\nx: 3\r\n\r\n");
  ASSERT_EQ(framer.advance({}), Framer::Status::kComplete);
  EXPECT_EQ(framer.request().joined_headers("x"), "1, 2,3");
  EXPECT_EQ(framer.request().joined_headers("w"), "");
}

TEST(Framer, KeepsWhatItKnowsOfARefusedRequest) {
  Framer framer;
  framer.append("GET /x HTTP/1.1\r\nX-Request-Id: abc\r\nHost: a\r\nbroken\r\n\r\n");
  ASSERT_EQ(framer.advance({}), Framer::Status::kRefused);
  EXPECT_EQ(framer.request().header("x-request-id"), "abc");
  EXPECT_EQ(framer.request().path, "/x");
}

TEST(Framer, ReadsPersistenceFromVersionAndConnection) {
  const auto keeps = [](std::string_view version, std::string_view lines) {
    return feed("GET / " + std::string(version) + "\r\nHost: a\r\n" + std::string(lines) + "\r\n",
                1000)
        .keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: Upgrade , CLOSE\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

TEST(Framer, KnowsWhenTheClientWaitsForContinue) {
  const auto waits = [](std::string_view bytes) {
    Framer framer;
    framer.append(bytes);
    return framer.advance({}) == Framer::Status::kBody && framer.expects_continue();
  };
  EXPECT_TRUE(waits(with_headers("Expect: 100-Continue\r\nContent-Length: 5\r\n")));
  EXPECT_TRUE(waits(with_headers("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n")));
  EXPECT_FALSE(waits(with_headers("Content-Length: 5\r\n")));
  EXPECT_FALSE(waits(with_headers("Expect: 100-continue\r\nContent-Length: 5\r\n", "h")));
  EXPECT_FALSE(waits(with_headers("Expect: something\r\nContent-Length: 5\r\n")));
  EXPECT_FALSE(waits("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
}

TEST(Framer, StartsAfreshAfterReset) {
  Framer framer;
  framer.append(
      "POST http://b/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n0\r\n\r\n");
  ASSERT_EQ(framer.advance({}), Framer::Status::kComplete);
  framer.reset();
  EXPECT_FALSE(framer.begun());
  framer.append("GET /2 HTTP/1.0\r\n\r\n");
  ASSERT_EQ(framer.advance({}), Framer::Status::kComplete);
  EXPECT_EQ(framer.request().target, "/2");
  EXPECT_EQ(framer.request().host(), "");
  EXPECT_EQ(framer.request().body, "");
  EXPECT_FALSE(framer.request().has_header("host"));
}

TEST(Framer, HoldsNoMoreOfAnEndlessChunkedBodyThanItsLimit) {
  Framer framer;
  framer.append(chunks(""));
  Framer::Status status = framer.advance({});
  for (int i = 0; i < 300'000 && status == Framer::Status::kBody; ++i) {
    framer.append("1;e\r\nx\r\n");
    status = framer.advance({});
    ASSERT_LT(framer.size(), 300'000u);
  }
  EXPECT_EQ(status, Framer::Status::kRefused);
}

}  // namespace
}  // namespace audiogen::http
