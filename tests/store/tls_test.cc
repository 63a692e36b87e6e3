// TLS to a real server with real certificates. Wherever it is refused, the password is wrong too:
// had the login gone out before the certificate was judged, the answer would be "access denied".
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/session.h"
#include "tests/support/certificates.h"
#include "tests/support/private_database.h"
#include "tests/support/test_database.h"

namespace audiogen::test {
namespace {

using store::DbError;
using store::DbFault;
using store::Session;
using store::Sql;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kTlsError = 2026;
constexpr int kAccessDenied = 1045;

// From 11.4 on MariaDB's client library, where it is given no authority, also takes a certificate
// that nobody it knows vouches for, if the server proves in the login that it knows the password;
// nobody else learns more of it than the answer to a challenge. It is of the server's release here.
bool believes_who_knows_the_password(TestDatabase& db) {
  constexpr double kSince = 11.4;
  return db.is_mariadb() && std::stod(db.text(Sql("SELECT VERSION()"))) >= kSince;
}

class DatabaseTls : public testing::Test {
 protected:
  DatabaseUrl url(const std::string& ca, const std::string& host = "localhost") const {
    DatabaseUrl out = db_.tcp_url();
    out.host = host;
    out.tls = TlsFiles{.ca = ca, .cert = {}, .key = {}};
    return out;
  }

  void serve_certificate(const std::string& host, int days) {
    certificates_.give_to_server(server_.folder(), host, days);
    db_.execute(db_.is_mariadb() ? Sql("FLUSH SSL") : Sql("ALTER INSTANCE RELOAD TLS"));
  }

  static std::string cipher(const DatabaseUrl& url) {
    Session session(url);
    store::Rows rows = session.query(Sql("SHOW STATUS LIKE 'Ssl_cipher'"));
    return rows.next() ? rows.text(2) : "no answer";
  }

  // What the program says when it may not connect.
  static DbError refusal(DatabaseUrl url) {
    url.password = "not-the-password";
    try {
      Session(url).now();
    } catch (const DbError& e) {
      return e;
    }
    return {DbFault::kUnexpected, 0, "connected"};
  }

  Certificates certificates_;
  PrivateDatabase server_{
      {.prepare = [this](const std::string& folder) { certificates_.give_to_server(folder); }}};
  TestDatabase db_{TestDatabase::Tables::kNone};
};

TEST_F(DatabaseTls, OnlyTheRightServerIsTold) {
  EXPECT_THAT(cipher(url(certificates_.ca())), HasSubstr("TLS_"));
  EXPECT_EQ(refusal(url(certificates_.ca())).code(), kAccessDenied) << "the login goes out";

  const DbError other_ca = refusal(url(certificates_.other_ca()));
  EXPECT_EQ(other_ca.code(), kTlsError) << other_ca.what();
  EXPECT_EQ(other_ca.fault(), DbFault::kUnavailable);
  EXPECT_THAT(other_ca.what(), HasSubstr("certificate"));

  const DbError system_only = refusal(url(""));
  EXPECT_EQ(system_only.code(), believes_who_knows_the_password(db_) ? kAccessDenied : kTlsError)
      << "the system does not know this authority";

  const DbError other_host = refusal(url(certificates_.ca(), "127.1"));
  EXPECT_EQ(other_host.code(), kTlsError);
  EXPECT_THAT(other_host.what(), HasSubstr("not for the host of DATABASE_URL"));

  if (db_.is_mariadb()) {  // MySQL takes no certificate that is over, so it cannot show one.
    serve_certificate("localhost", -1);
    const DbError expired = refusal(url(certificates_.ca()));
    EXPECT_EQ(expired.code(), kTlsError);
    EXPECT_THAT(expired.what(), HasSubstr("expired"));
  }

  serve_certificate("localhost", 2);
  EXPECT_THAT(cipher(url(certificates_.ca())), HasSubstr("TLS_"));
}

TEST_F(DatabaseTls, AUserMayNeedACertificate) {
  DatabaseUrl with = url(certificates_.ca());
  with.user = "certified";
  with.password = random_base32(20);
  db_.execute(Sql::trusted("CREATE USER certified@'127.0.0.1' IDENTIFIED BY '" + with.password +
                           "' REQUIRE X509"));
  db_.execute(Sql::trusted("GRANT SELECT ON " + with.database + ".* TO certified@'127.0.0.1'"));
  EXPECT_EQ(refusal(with).code(), kAccessDenied);
  try {
    Session(with).now();
    ADD_FAILURE() << "no certificate was shown";
  } catch (const DbError& e) {
    EXPECT_EQ(e.code(), kAccessDenied);
  }
  with.tls->cert = certificates_.client_cert();
  with.tls->key = certificates_.client_key();
  EXPECT_THAT(cipher(with), HasSubstr("TLS_"));
}

TEST(DatabaseWithoutTls, IsRefusedWhenTlsIsAskedFor) {
  const Certificates certificates;
  TestDatabase db(TestDatabase::Tables::kNone);
  // A server that was given no certificate makes one which nobody vouches for: MySQL, and MariaDB
  // from 11.4 on.
  const char* const reason = !db.is_mariadb() ? "self-signed certificate in certificate chain"
                             : db.text(Sql("SELECT @@have_ssl")) == "YES"
                                 ? "self-signed certificate"
                                 : "does not support";
  DatabaseUrl url = db.tcp_url();
  url.password = "not-the-password";
  url.tls = TlsFiles{.ca = certificates.ca(), .cert = {}, .key = {}};
  for (const std::string& ca : {certificates.ca(), std::string()}) {
    url.tls->ca = ca;
    try {
      Session(url).now();
      ADD_FAILURE() << "connected";
    } catch (const DbError& e) {
      if (ca.empty() && believes_who_knows_the_password(db)) {
        EXPECT_EQ(e.code(), kAccessDenied) << e.what();
        continue;
      }
      EXPECT_EQ(e.code(), kTlsError) << e.what();
      EXPECT_THAT(e.what(), AllOf(HasSubstr(reason), Not(HasSubstr("password"))));
    }
  }
}

}  // namespace
}  // namespace audiogen::test
