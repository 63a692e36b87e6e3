// The configuration of both programs: environment variables only, or files that they name, so there
// is one place to look for what is in force. Every bad value is reported at once; secrets are
// masked wherever a configuration is shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace audiogen {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
  // An IPv6 address gets brackets, if it has none.
  std::string text() const {
    const bool bare = host.find(':') != std::string::npos && !host.starts_with('[');
    return (bare ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }
};

// PEM files of a connection by TLS. The server's certificate is always verified: its chain, its
// dates and the host it is for.
struct TlsFiles {
  std::string ca;         // Who may have signed the server's. Empty: whom the system trusts.
  std::string cert, key;  // Our own. Empty: none is shown.
};

// mysql://user:pass@host:port/db, or mysql://user:pass@localhost/db?socket=/path
struct DatabaseUrl {
  std::string user, password, host, database, socket;
  std::uint16_t port = 3306;
  std::optional<TlsFiles> tls = std::nullopt;
};

// amqp://user:pass@host:port/vhost (an empty path is the vhost "/"), or amqps://…
struct AmqpUrl {
  std::string user, password, host, vhost = "/";
  std::uint16_t port = 5672;
  std::optional<TlsFiles> tls = std::nullopt;
};

// Where mail is handed over: smtp://user:pass@host:port by STARTTLS, smtps://… by TLS from the
// first byte. Verified, both of them.
struct SmtpUrl {
  std::string user{}, password{};  // Empty: without a login.
  std::string host{};
  std::uint16_t port = 587;
  bool tls_first = false;  // smtps
  bool plain = false;      // No TLS at all, and no login.
  std::string ca{};        // PEM file of who may have signed its certificate. Empty: the system's.
};

// Who else says who somebody is: an issuer of OpenID Connect, and what we are called there.
struct OidcSettings {
  std::string issuer{}, client_id{}, client_secret{};
};

// Who may make an account in the console.
enum class SignUp { kClosed, kInvite, kOpen };

// Who writes to an S3 bucket.
struct S3Credentials {
  std::string access_key_id, secret_key;
  std::string session_token{};  // With credentials that end by themselves.
};

enum class UrlPolicy { kPublic, kAny };

// What the worker does on a kernel without Landlock, where helpers could read files.
enum class SandboxPolicy { kRequired, kBestEffort };

// Of one user.
struct PlanLimits {
  int open_tasks = 0;
  int running_tasks = 0;  // 0: no limit but his share.
};

// How calls over HTTP go out. `contact` is for those who are called; "": none.
struct Outgoing {
  std::string contact, proxy, direct;
};

struct Config {
  std::string brand;
  HostPort listen, ops_listen;
  std::string ops_token;            // Empty: no actions by the operations port. The API's only.
  std::string public_url, cdn_url;  // Without a trailing slash. The API's only.
  DatabaseUrl database;
  AmqpUrl amqp;
  std::string blob_url;
  S3Credentials s3;  // Of an s3:// blob_url; the worker's only.
  // Of a file:// blob_url: the first seals blobs, all are believed. Empty: the folder's own key.
  std::vector<std::string> blob_signing_keys;
  // The first signs output.url, all are believed. Empty: it is not signed. The API's only.
  std::vector<std::string> cdn_signing_keys;
  bool blob_unsealed = false;  // The API's only.
  int output_ttl_seconds = 0;
  int output_retention_days = 0;  // 0: files stay for ever.
  std::string providers_file;     // Empty: the local engine alone. The worker's only.
  // The API's only.
  int create_per_minute = 0, create_burst = 0, read_per_minute = 0, read_burst = 0,
      unauthenticated_per_minute = 0, files_per_minute = 0, files_burst = 0;
  std::vector<IpNetwork> trusted_proxies;  // Whose X-Forwarded-For is believed. The API's only.
  // The console's pages and what they call. With it public_url is an origin that its cookie may be
  // sent to. The API's only, as is the folder, which is empty for the pages built in.
  bool console = false;
  std::string console_dir;
  // Links and notices by mail; nullopt: none. The API's only, as is who may sign up.
  std::optional<SmtpUrl> smtp;
  std::string mail_from;
  SignUp sign_up = SignUp::kClosed;
  std::optional<OidcSettings> oidc;  // Nullopt: nobody.
  std::string voice_previews_dir;    // Empty: voices have none. The API's only.
  // The API's public port only.
  int connections_max = 0, connections_per_address = 0, body_budget_mb = 0, answer_budget_mb = 0;
  int task_deadline_seconds = 0;    // The API's only.
  PlanLimits free_plan, paid_plan;  // The API's only.
  const PlanLimits& plan_of(bool paid) const { return paid ? paid_plan : free_plan; }
  int worker_in_flight = 0;
  int drain_seconds = 0;  // 0: as its providers need. The worker's only.
  UrlPolicy url_policy = UrlPolicy::kPublic;
  SandboxPolicy sandbox = SandboxPolicy::kBestEffort;  // The worker's only.
  int attempts_retention_days = 0;                     // 0: for ever. The worker's only.
  // What references may use, and where nothing from outside may lead to; the worker's only.
  int references_max_mb = 0, references_seconds = 0;
  std::string references_folder;
  std::vector<IpNetwork> url_deny;
  std::string log_level, log_format;
  bool access_log = false;  // The API's only.
  Outgoing outgoing;

  std::string model_name() const { return brand + "-audio-1.0"; }
};

enum class Program { kApi, kWorker };

// Reads the process environment. On failure: one line per bad variable, naming it and the rule.
// Call before threads start (it reads the environment).
Result<Config, std::vector<std::string>> load_config(Program program);

// One variable alone, for commands that need nothing else. The error is one line, as above.
Result<std::string> load_brand();
Result<DatabaseUrl> load_database_url();
Result<AmqpUrl> load_amqp_url();
Result<std::string> load_public_url();
Result<std::string> load_voice_previews_dir();  // "" when it is not set.
Result<Outgoing> load_outgoing();

// One line per variable: name, default, meaning. For --help.
std::string config_help(Program program);

// "NAME=value" lines of what is in force, with secrets masked. For --print-config.
std::string print_config(Program program);

}  // namespace audiogen
