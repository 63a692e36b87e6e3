#include "common/base/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>

#include "common/base/ascii.h"
#include "common/base/environment.h"
#include "common/base/mail_address.h"
#include "common/base/origin.h"
#include "common/base/percent.h"

namespace audiogen {
namespace {

struct Variable {
  const char* name;
  const char* fallback;  // Null: required.
  const char* meaning;
  bool secret = false;
  bool worker_only = false;
  bool api_only = false;
};

constexpr std::array kVariables = {
    Variable{"BRAND", "svc", "prefix of the model name and of API keys, [a-z][a-z0-9]{0,15}"},
    Variable{.name = "LISTEN",
             .fallback = "127.0.0.1:8080",
             .meaning = "address of the public interface",
             .api_only = true},
    Variable{
        "OPS_LISTEN",
        "",
        "address of /healthz, /readyz and /metrics (API 127.0.0.1:8081, worker 127.0.0.1:8082)"},
    Variable{.name = "OPS_TOKEN",
             .fallback = "",
             .meaning = "what operators show to act by the operations port (/ops/actions); 32 "
                        "characters or more (no actions there)",
             .secret = true,
             .api_only = true},
    Variable{.name = "PUBLIC_URL",
             .fallback = "",
             .meaning = "address clients use, without /api/v1 (http://LISTEN)",
             .api_only = true},
    Variable{.name = "CDN_URL",
             .fallback = "",
             .meaning = "address audio files are delivered under (PUBLIC_URL/files)",
             .api_only = true},
    Variable{.name = "CONSOLE",
             .fallback = "auto",
             .meaning = "the web console under PUBLIC_URL/console/: on, off or auto; on needs a "
                        "PUBLIC_URL of https, or of http on a loopback address, without a path; "
                        "auto is on there, and off elsewhere",
             .api_only = true},
    Variable{.name = "CONSOLE_DIR",
             .fallback = "",
             .meaning = "folder the console's pages are read from at every request, for those who "
                        "work on them (the pages built in)",
             .api_only = true},
    Variable{.name = "SMTP_URL",
             .fallback = "",
             .meaning = "server that takes the console's mails: smtp://user:pass@host:port for "
                        "STARTTLS, smtps:// for TLS from the first byte, verified, as needed with "
                        "?cacertfile (a PEM file); ?tls=off is for a relay in the house and goes "
                        "without user and password (no mails)",
             .secret = true,
             .api_only = true},
    Variable{.name = "MAIL_FROM",
             .fallback = "",
             .meaning = "the address that mails are from; required with SMTP_URL",
             .api_only = true},
    Variable{.name = "SIGNUP",
             .fallback = "closed",
             .meaning = "who may make an account in the console: closed (nobody), invite (whom an "
                        "operator has invited), open (whoever reads the mail to an address, or is "
                        "named by the issuer; needs SMTP_URL or OIDC_ISSUER)",
             .api_only = true},
    Variable{.name = "OIDC_ISSUER",
             .fallback = "",
             .meaning = "an issuer of OpenID Connect, by which people may sign in to the console: "
                        "its https address, as it writes it itself (none)",
             .api_only = true},
    Variable{.name = "OIDC_CLIENT_ID",
             .fallback = "",
             .meaning = "what the console is called there; required with OIDC_ISSUER",
             .api_only = true},
    Variable{.name = "OIDC_CLIENT_SECRET",
             .fallback = "",
             .meaning = "the secret of OIDC_CLIENT_ID; required with it",
             .secret = true,
             .api_only = true},
    Variable{.name = "VOICE_PREVIEWS_DIR",
             .fallback = "",
             .meaning = "folder of the samples that audio-api admin voices render makes of the "
                        "preset voices (voices have none)",
             .api_only = true},
    Variable{"DATABASE_URL",
             nullptr,
             "mysql://user:pass@host:port/db, or mysql://user:pass@localhost/db?socket=/path; for "
             "verified TLS with ?ssl-mode=verify_identity and, as needed, ssl-ca, ssl-cert, "
             "ssl-key (PEM files; without ssl-ca whom the system trusts)",
             true},
    Variable{"AMQP_URL",
             nullptr,
             "amqp://user:pass@host:port/vhost; for verified TLS amqps://, as needed with "
             "?cacertfile, certfile, keyfile (PEM files)",
             true},
    Variable{
        "BLOB_URL",
        nullptr,
        "where audio is kept: file:///absolute/folder, or s3://bucket[/prefix]?region=R for AWS, "
        "?endpoint=https://host[&region=R] for another S3 service",
        true},
    Variable{.name = "AWS_ACCESS_KEY_ID",
             .fallback = "",
             .meaning = "who writes to an s3:// BLOB_URL; required there",
             .worker_only = true},
    Variable{.name = "AWS_SECRET_ACCESS_KEY",
             .fallback = "",
             .meaning = "the secret of AWS_ACCESS_KEY_ID",
             .secret = true,
             .worker_only = true},
    Variable{.name = "AWS_SESSION_TOKEN",
             .fallback = "",
             .meaning = "what goes with the two of credentials that end by themselves",
             .secret = true,
             .worker_only = true},
    Variable{
        "CONTACT", "", "a mail or web address that those who are called find in the User-Agent"},
    Variable{
        .name = "EGRESS_PROXY",
        .fallback = "",
        .meaning =
            "the proxy that all outgoing calls over HTTP go by: "
            "http://[user:pass@]host:port, or https://…; those of the environment are never used",
        .secret = true},
    Variable{"EGRESS_DIRECT",
             "localhost,127.0.0.0/8,::1,169.254.0.0/16,fe80::/10",
             "hosts, domains and networks that EGRESS_PROXY is not for, separated by commas"},
    Variable{.name = "CDN_SIGNING_KEY",
             .fallback = "",
             .meaning =
                 "when set, output.url is signed and expires, and files of a file:// BLOB_URL "
                 "are served to such links only; 16 characters or more, the same in every API",
             .secret = true,
             .api_only = true},
    Variable{.name = "CDN_SIGNING_KEY_OLD",
             .fallback = "",
             .meaning = "the CDN_SIGNING_KEY before this one: links it signed work on",
             .secret = true,
             .api_only = true},
    Variable{"BLOB_SIGNING_KEY",
             "",
             "seals what is kept in a file:// BLOB_URL, so that only our own keys open it; 32 "
             "characters or more, the same everywhere (a key kept in the folder)",
             true},
    Variable{"BLOB_SIGNING_KEY_OLD",
             "",
             "the BLOB_SIGNING_KEY before this one: needed as long as files sealed with it are",
             true},
    Variable{.name = "BLOB_UNSEALED",
             .fallback = "refuse",
             .meaning =
                 "serve or refuse: outputs in a file:// BLOB_URL that a release before seals "
                 "wrote, where no CDN_SIGNING_KEY says whose link it is: an address of "
                 "them can be forged",
             .api_only = true},
    Variable{.name = "OUTPUT_TTL_SECONDS",
             .fallback = "3600",
             .meaning = "how long a signed output.url works at least, 60-604800; every status read "
                        "renews it",
             .api_only = true},
    Variable{.name = "ATTEMPTS_RETENTION_DAYS",
             .fallback = "90",
             .meaning =
                 "how long the provider calls before a task's newest are kept, 2-3650; 0: for "
                 "ever",
             .worker_only = true},
    Variable{"OUTPUT_RETENTION_DAYS",
             "0",
             "files older than this are deleted, 0-3650; 0 keeps them; the same everywhere"},
    Variable{.name = "PROVIDERS_FILE",
             .fallback = "",
             .meaning = "JSON file with the ordered provider chain (the local engine alone)",
             .worker_only = true},
    Variable{.name = "RATE_LIMIT_CREATE_PER_MINUTE",
             .fallback = "600",
             .meaning = "creations per key and minute, 1-10000000",
             .api_only = true},
    Variable{.name = "RATE_LIMIT_CREATE_BURST",
             .fallback = "100",
             .meaning = "creations at once, 1-10000000",
             .api_only = true},
    Variable{.name = "RATE_LIMIT_READ_PER_MINUTE",
             .fallback = "3000",
             .meaning = "reads per key and minute, 1-10000000",
             .api_only = true},
    Variable{.name = "RATE_LIMIT_READ_BURST",
             .fallback = "300",
             .meaning = "reads at once, 1-10000000",
             .api_only = true},
    Variable{.name = "RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE",
             .fallback = "300",
             .meaning =
                 "keys looked up in vain per address and minute, and as many requests without "
                 "one, 1-10000000",
             .api_only = true},
    Variable{.name = "RATE_LIMIT_FILES_PER_MINUTE",
             .fallback = "6000",
             .meaning = "requests for files per address and minute, 1-10000000",
             .api_only = true},
    Variable{.name = "RATE_LIMIT_FILES_BURST",
             .fallback = "600",
             .meaning = "requests for files at once, 1-10000000",
             .api_only = true},
    Variable{.name = "TRUSTED_PROXIES",
             .fallback = "",
             .meaning = "networks of proxies whose X-Forwarded-For says who the client is, e.g. "
                        "10.0.0.0/8,2001:db8::/48; without them every client of a proxy counts "
                        "as one address",
             .api_only = true},
    Variable{.name = "CONNECTIONS_MAX",
             .fallback = "16384",
             .meaning = "connections to the public port, 1-1000000; fewer where the descriptor "
                        "limit allows no more",
             .api_only = true},
    Variable{.name = "CONNECTIONS_PER_ADDRESS",
             .fallback = "1000",
             .meaning = "connections of one address (an IPv6 /64 is one), 1-1000000, and at most a "
                        "quarter of all there may be; TRUSTED_PROXIES have no such limit",
             .api_only = true},
    Variable{.name = "BODY_BUDGET_MB",
             .fallback = "64",
             .meaning = "memory for all request bodies that are still arriving, 1-65536",
             .api_only = true},
    Variable{.name = "ANSWER_BUDGET_MB",
             .fallback = "64",
             .meaning =
                 "memory for answers that their clients have not taken, beside files and streams, "
                 "1-65536; for those to nobody with a key a quarter of it more",
             .api_only = true},
    Variable{.name = "TASK_DEADLINE_SECONDS",
             .fallback = "900",
             .meaning = "a task is final this long after its creation, 1-86400",
             .api_only = true},
    Variable{.name = "OPEN_TASKS_FREE",
             .fallback = "10000",
             .meaning =
                 "open tasks of a user on no paid plan, 1-10000000; above that creations are "
                 "answered 429",
             .api_only = true},
    Variable{.name = "OPEN_TASKS_PAID",
             .fallback = "200000",
             .meaning = "open tasks of a user on a paid plan, 1-10000000",
             .api_only = true},
    Variable{.name = "RUNNING_TASKS_FREE",
             .fallback = "200",
             .meaning =
                 "tasks of a user on no paid plan that workers are given at once, 0-1000000; "
                 "0: as many as his share of all workers",
             .api_only = true},
    Variable{.name = "RUNNING_TASKS_PAID",
             .fallback = "0",
             .meaning =
                 "tasks of a user on a paid plan that workers are given at once, 0-1000000; 0: "
                 "as many as his share of all workers",
             .api_only = true},
    Variable{
        "WORKER_IN_FLIGHT",
        "200",
        "tasks one worker holds at once, 1-10000; and an eighth more, for users who have little "
        "under way"},
    Variable{.name = "DRAIN_SECONDS",
             .fallback = "0",
             .meaning =
                 "a worker that is told to stop finishes what it can within this, 1-900, and "
                 "gives the rest back; 0: within the longest timeout of its providers, 60 at the "
                 "least. Whatever stops it must wait longer. What is called longer is paid again, "
                 "unless its provider is polled",
             .worker_only = true},
    Variable{"URL_POLICY",
             "public",
             "which reference addresses are accepted: public, or any (tests only)"},
    Variable{.name = "SANDBOX",
             .fallback = "best_effort",
             .meaning = "on a kernel without Landlock (before Linux 5.13) the worker warns "
                        "(best_effort) or does not start (required)",
             .worker_only = true},
    Variable{.name = "URL_DENY",
             .fallback = "",
             .meaning = "addresses and networks, as 10.0.0.0/8,64:ff9b:7::/96, that addresses from "
                        "outside must not lead to, besides what is not public anyway: what of "
                        "yours has public addresses, a NAT64 prefix of your own",
             .worker_only = true},
    Variable{.name = "REFERENCES_MAX_MB",
             .fallback = "256",
             .meaning = "references fetched and still in use, over all tasks, in MB, 32-65536",
             .worker_only = true},
    Variable{.name = "REFERENCES_SECONDS",
             .fallback = "30",
             .meaning = "all references of one task are fetched within, 1-600",
             .worker_only = true},
    Variable{.name = "REFERENCES_FOLDER",
             .fallback = "/var/tmp",
             .meaning = "where they lie meanwhile, in files without a name: a disk, not memory",
             .worker_only = true},
    Variable{"LOG_LEVEL", "info", "debug, info, warn or error"},
    Variable{"LOG_FORMAT", "json", "json or text"},
    Variable{.name = "ACCESS_LOG",
             .fallback = "off",
             .meaning = "on: a line in the log for each request; needs LOG_LEVEL info or debug",
             .api_only = true},
};

bool concerns(const Variable& variable, Program program) {
  return !(program == Program::kWorker && variable.api_only) &&
         !(program == Program::kApi && variable.worker_only);
}

std::optional<int> to_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

std::optional<HostPort> to_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return std::nullopt;
  }
  const auto port = to_int(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) {
    return std::nullopt;
  }
  return HostPort{std::string(text.substr(0, colon)), static_cast<std::uint16_t>(*port)};
}

struct UrlParts {
  std::string user, password, host, path, query;
  std::optional<std::uint16_t> port;
};

// scheme://user:pass@host:port/path?query with percent-encoded user and password.
std::optional<UrlParts> split_url(std::string_view text, std::string_view scheme) {
  if (!text.starts_with(scheme)) {
    return std::nullopt;
  }
  text.remove_prefix(scheme.size());
  UrlParts out;
  if (const auto mark = text.find('?'); mark != std::string_view::npos) {
    out.query = text.substr(mark + 1);
    text = text.substr(0, mark);
  }
  if (const auto slash = text.find('/'); slash != std::string_view::npos) {
    out.path = text.substr(slash + 1);
    text = text.substr(0, slash);
  }
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    const auto credentials = text.substr(0, at);
    const auto colon = credentials.find(':');
    const auto user = percent_decode(credentials.substr(0, colon));
    const auto password =
        percent_decode(colon == std::string_view::npos ? "" : credentials.substr(colon + 1));
    if (!user || !password) {
      return std::nullopt;
    }
    out.user = *user;
    out.password = *password;
    text = text.substr(at + 1);
  }
  if (text.starts_with('[')) {  // An IPv6 address; whoever connects wants it without brackets.
    const auto end = text.find(']');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    out.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  }
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    const auto port = to_int(text.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) {
      return std::nullopt;
    }
    out.port = static_cast<std::uint16_t>(*port);
    text = text.substr(0, colon);
  }
  if (out.host.empty()) {
    out.host = text;
  } else if (!text.empty()) {
    return std::nullopt;
  }
  return out;
}

// The parameters of a query: only `known` ones, each at most once, none empty.
std::optional<std::map<std::string, std::string>> split_query(
    std::string_view query, std::initializer_list<std::string_view> known) {
  std::map<std::string, std::string> out;
  while (!query.empty()) {
    const auto end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const auto equals = std::min(one.find('='), one.size());
    const std::string_view name = one.substr(0, equals);
    const auto value = percent_decode(one.substr(std::min(equals + 1, one.size())));
    if (!value || value->empty() || std::find(known.begin(), known.end(), name) == known.end() ||
        !out.emplace(name, *value).second) {
      return std::nullopt;
    }
  }
  return out;
}

// Nullopt when a file cannot be read, or one of a pair is missing.
std::optional<TlsFiles> to_tls(TlsFiles files) {
  for (const std::string* name : {&files.ca, &files.cert, &files.key}) {
    if (!name->empty() && !std::ifstream(*name)) {
      return std::nullopt;
    }
  }
  return files.cert.empty() == files.key.empty() ? std::optional(std::move(files)) : std::nullopt;
}

std::optional<DatabaseUrl> to_database(std::string_view text) {
  const auto url = split_url(text, "mysql://");
  if (!url || url->host.empty() || url->path.empty()) {
    return std::nullopt;
  }
  auto query = split_query(url->query, {"socket", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key"});
  if (!query) {
    return std::nullopt;
  }
  DatabaseUrl out{.user = url->user,
                  .password = url->password,
                  .host = url->host,
                  .database = url->path,
                  .socket = {},
                  .port = url->port.value_or(3306)};
  out.socket = (*query)["socket"];
  const std::string mode = ascii::lower((*query)["ssl-mode"]);
  TlsFiles files{(*query)["ssl-ca"], (*query)["ssl-cert"], (*query)["ssl-key"]};
  const bool any = !files.ca.empty() || !files.cert.empty() || !files.key.empty();
  if (mode == "disabled" || (mode.empty() && !any)) {
    return any ? std::nullopt : std::optional(out);
  }
  // The client library promises nothing less than verify_identity: with "required" or "verify_ca"
  // it would go on without TLS, and log in, where the server has none.
  if ((!mode.empty() && mode != "verify_identity") || !out.socket.empty()) {
    return std::nullopt;
  }
  out.tls = to_tls(std::move(files));
  return out.tls ? std::optional(out) : std::nullopt;
}

std::optional<AmqpUrl> to_amqp(std::string_view text) {
  const bool secure = text.starts_with("amqps://");
  const auto url = split_url(text, secure ? "amqps://" : "amqp://");
  if (!url || url->host.empty()) {
    return std::nullopt;
  }
  const auto vhost = percent_decode(url->path);
  auto query = split_query(url->query, {"cacertfile", "certfile", "keyfile"});
  if (!vhost || !query || (!secure && !query->empty())) {
    return std::nullopt;
  }
  AmqpUrl out{.user = url->user,
              .password = url->password,
              .host = url->host,
              .vhost = vhost->empty() ? "/" : *vhost,
              .port = url->port.value_or(secure ? 5671 : 5672)};
  if (secure) {
    out.tls = to_tls({(*query)["cacertfile"], (*query)["certfile"], (*query)["keyfile"]});
    if (!out.tls) {
      return std::nullopt;
    }
  }
  return out;
}

bool is_host_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return ascii::is_alnum(c) || c == '-' || c == '.';
  });
}

std::optional<SmtpUrl> to_smtp(std::string_view text) {
  const bool tls_first = text.starts_with("smtps://");
  const auto url = split_url(text, tls_first ? "smtps://" : "smtp://");
  if (!url || !is_host_name(url->host) || !url->path.empty()) {
    return std::nullopt;
  }
  auto query = split_query(url->query, {"tls", "cacertfile"});
  if (!query) {
    return std::nullopt;
  }
  SmtpUrl out{.user = url->user,
              .password = url->password,
              .host = url->host,
              .tls_first = tls_first,
              .plain = query->contains("tls"),
              .ca = (*query)["cacertfile"]};
  constexpr std::uint16_t kSmtp = 25, kSubmission = 587, kSubmissions = 465;
  out.port = url->port.value_or(out.plain ? kSmtp : tls_first ? kSubmissions : kSubmission);
  if (out.plain) {
    const bool alone = out.user.empty() && out.password.empty() && out.ca.empty() && !tls_first;
    return alone && (*query)["tls"] == "off" ? std::optional(out) : std::nullopt;
  }
  return to_tls({.ca = out.ca, .cert = {}, .key = {}}) ? std::optional(out) : std::nullopt;
}

std::string without_slash(std::string text) {
  while (text.ends_with('/')) {
    text.pop_back();
  }
  return text;
}

bool is_brand(std::string_view text) {
  return !text.empty() && text.size() <= 16 && ascii::is_lower(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return ascii::is_lower(c) || ascii::is_digit(c);
         });
}

constexpr const char* kAddress = "host:port";

// What may stand in a header line as it is.
std::optional<std::string> to_header_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), ascii::is_visible) ? std::optional(std::string(text))
                                                                  : std::nullopt;
}

std::optional<std::string> to_contact(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  return text.size() <= kLongest && text.find_first_of("()\\") == std::string_view::npos
             ? to_header_text(text)
             : std::nullopt;
}

std::optional<std::string> to_proxy(std::string_view text) {
  std::string_view rest = text;
  for (const std::string_view scheme : {"http://", "https://"}) {
    rest = text.starts_with(scheme) ? text.substr(scheme.size()) : rest;
  }
  // Without a port libcurl would take 1080, a SOCKS server's.
  const auto server = to_host_port(rest.substr(rest.find_last_of('@') + 1));  // npos + 1: all
  const bool is_one = rest.size() < text.size() && server && server->port > 0 &&
                      !server->host.empty() && rest.find_first_of("/?#") == std::string_view::npos;
  return text.empty() || is_one ? to_header_text(text) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(Program program) : program_(program) {}

  std::string text(const char* name) {
    const auto found = std::find_if(kVariables.begin(), kVariables.end(), [&](const Variable& v) {
      return std::string_view(v.name) == name;
    });
    const auto value = read_variable(name);
    if (!value) {
      errors_.push_back(value.error().message);
      return "";
    }
    if (*value && !(*value)->empty()) {
      return **value;
    }
    if (found->fallback == nullptr) {
      errors_.push_back(std::string(name) + " is required: " + found->meaning);
      return "";
    }
    return found->fallback;
  }

  // Reads `name` through `parse`; says the rule when it refuses a value that is there.
  template <class T>
  T parsed(const char* name,
           const std::function<std::optional<T>(std::string_view)>& parse,
           const char* rule) {
    const std::size_t before = errors_.size();
    const std::string value = text(name);
    if (errors_.size() != before) {
      return T{};
    }
    const auto out = parse(value);
    if (!out) {
      errors_.push_back(std::string(name) + " must be " + rule);
      return T{};
    }
    return *out;
  }

  int number(const char* name, int low, int high) {
    const std::string rule =
        "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    return parsed<int>(
        name,
        [&](std::string_view v) {
          const auto n = to_int(v);
          return n && *n >= low && *n <= high ? n : std::nullopt;
        },
        rule.c_str());
  }

  std::string choice(const char* name, std::initializer_list<std::string_view> allowed) {
    std::string rule = "one of";
    for (const auto option : allowed) {
      rule += ' ';
      rule += option;
    }
    return parsed<std::string>(
        name,
        [&](std::string_view v) {
          return std::find(allowed.begin(), allowed.end(), v) != allowed.end()
                     ? std::optional(std::string(v))
                     : std::nullopt;
        },
        rule.c_str());
  }

  Program program() const { return program_; }
  std::vector<std::string>& errors() { return errors_; }

 private:
  Program program_;
  std::vector<std::string> errors_;
};

std::string read_brand(Reader& in) {
  return in.parsed<std::string>(
      "BRAND",
      [](std::string_view v) { return is_brand(v) ? std::optional(std::string(v)) : std::nullopt; },
      "1-16 lower-case letters and digits, a letter first");
}

DatabaseUrl read_database(Reader& in) {
  return in.parsed<DatabaseUrl>(
      "DATABASE_URL",
      to_database,
      "mysql://user:pass@host:port/db, with ?socket=/path, or with ?ssl-mode=verify_identity "
      "[&ssl-ca=FILE][&ssl-cert=FILE&ssl-key=FILE] and files that can be read; ssl-mode is "
      "verify_identity or disabled, as with any other TLS would not be sure");
}

AmqpUrl read_amqp(Reader& in) {
  return in.parsed<AmqpUrl>("AMQP_URL",
                            to_amqp,
                            "amqp://user:pass@host:port/vhost, or amqps://… with "
                            "[?cacertfile=FILE][&certfile=FILE&keyfile=FILE] and files that can be "
                            "read");
}

// The secret `name` and, while it is being changed, NAME_OLD: the first signs, both are believed.
std::vector<std::string> read_keys(Reader& in, const std::string& name, std::size_t least) {
  const std::string rule = std::to_string(least) + " characters or more";
  const std::string old_name = name + "_OLD";
  std::vector<std::string> keys;
  for (const std::string* const variable : {&name, &old_name}) {
    std::string key = in.parsed<std::string>(
        variable->c_str(),
        [&](std::string_view v) {
          return v.empty() || v.size() >= least ? std::optional(std::string(v)) : std::nullopt;
        },
        rule.c_str());
    if (!key.empty()) {
      keys.push_back(std::move(key));
    } else if (variable == &name && !in.text(old_name.c_str()).empty()) {
      in.errors().push_back(old_name + " goes with " + name + ", which is not set");
      return {};
    }
  }
  return keys;
}

std::string read_ops_token(Reader& in) {
  constexpr std::size_t kLeast = 32;
  return in.parsed<std::string>(
      "OPS_TOKEN",
      [](std::string_view v) {
        const bool sendable =
            std::all_of(v.begin(), v.end(), [](char c) { return c > ' ' && c <= '~'; });
        return v.empty() || (v.size() >= kLeast && sendable) ? std::optional(std::string(v))
                                                             : std::nullopt;
      },
      "32 or more visible ASCII characters, without blanks");
}

std::string read_public_url(Reader& in, const HostPort& listen) {
  const std::string given = without_slash(in.text("PUBLIC_URL"));
  return !given.empty()
             ? given
             : "http://" + (listen.host.empty() ? std::string("127.0.0.1:8080") : listen.text());
}

// Whether the console can be there: what signs its users in may cross no network in plain text, and
// its pages name each other by paths from the root.
bool read_console(Reader& in, const std::string& public_url) {
  const std::string wanted = in.choice("CONSOLE", {"auto", "on", "off"});
  const auto origin = parse_origin(public_url);
  const bool fits = origin && origin->bare && (origin->secure || origin->loopback);
  if (wanted == "on" && !fits) {
    in.errors().push_back(
        "CONSOLE=on needs a PUBLIC_URL of https, or of http on a loopback address, without a path; "
        "its sessions would be readable on the way. CONSOLE=off does without the console");
  }
  return fits && wanted != "off";
}

// What belongs together: where mails go, whom they are from, and who may come by one.
void read_mail(Reader& in, Config& c) {
  if (!in.text("SMTP_URL").empty()) {
    c.smtp = in.parsed<SmtpUrl>(
        "SMTP_URL",
        to_smtp,
        "smtp://user:pass@host:port or smtps://…, with [?cacertfile=FILE] and a file that can be "
        "read; or smtp://host:port?tls=off, which takes no user");
  }
  c.mail_from = in.parsed<std::string>(
      "MAIL_FROM",
      [](std::string_view v) {
        return v.empty() || is_mail_address(v) ? std::optional(std::string(v)) : std::nullopt;
      },
      "an address like audio@example.com, and nothing else");
  if (c.smtp.has_value() != !c.mail_from.empty()) {
    in.errors().push_back("SMTP_URL and MAIL_FROM go together: one is not set, or is wrong");
  }
  const std::string sign_up = in.choice("SIGNUP", {"closed", "invite", "open"});
  c.sign_up = sign_up == "open"     ? SignUp::kOpen
              : sign_up == "invite" ? SignUp::kInvite
                                    : SignUp::kClosed;
  if (c.sign_up == SignUp::kOpen && !c.smtp && !c.oidc) {
    in.errors().push_back(
        "SIGNUP=open needs SMTP_URL or OIDC_ISSUER: a mail or an issuer shows whose an address is");
  }
}

void read_oidc(Reader& in, Config& c) {
  const OidcSettings given{.issuer = in.text("OIDC_ISSUER"),
                           .client_id = in.text("OIDC_CLIENT_ID"),
                           .client_secret = in.text("OIDC_CLIENT_SECRET")};
  if (given.issuer.empty() && given.client_id.empty() && given.client_secret.empty()) {
    return;
  }
  if (given.issuer.empty() || given.client_id.empty() || given.client_secret.empty()) {
    in.errors().push_back(
        "OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET go together: set all three or none");
    return;
  }
  const auto origin = parse_origin(given.issuer);
  if (!origin || !(origin->secure || origin->loopback) ||
      given.issuer.find_first_of("?#") != std::string::npos) {
    in.errors().push_back(
        "OIDC_ISSUER must be an https address (http on a loopback address alone) without ? and #");
    return;
  }
  c.oidc = given;
}

Outgoing read_outgoing(Reader& in) {
  Outgoing out;
  out.contact = in.parsed<std::string>(
      "CONTACT", to_contact, "a mail or web address: up to 200 visible characters, no parentheses");
  out.proxy = in.parsed<std::string>(
      "EGRESS_PROXY",
      to_proxy,
      "http://[user:pass@]host:port or https://…, with a port from 1 to 65535 and without a path");
  out.direct = in.parsed<std::string>(
      "EGRESS_DIRECT", to_header_text, "hosts and networks, separated by commas, without spaces");
  return out;
}

// What `read` finds, or the first error.
template <class T>
Result<T> load_alone(T (*read)(Reader&)) {
  Reader in(Program::kApi);
  T value = read(in);
  if (!in.errors().empty()) {
    return Error{in.errors().front()};
  }
  return value;
}

}  // namespace

Result<std::string> load_brand() {
  return load_alone(read_brand);
}
Result<DatabaseUrl> load_database_url() {
  return load_alone(read_database);
}
Result<AmqpUrl> load_amqp_url() {
  return load_alone(read_amqp);
}
Result<std::string> load_public_url() {
  return load_alone<std::string>([](Reader& in) {
    return read_public_url(in, in.parsed<HostPort>("LISTEN", to_host_port, kAddress));
  });
}
Result<std::string> load_voice_previews_dir() {
  return load_alone<std::string>([](Reader& in) { return in.text("VOICE_PREVIEWS_DIR"); });
}

Result<Outgoing> load_outgoing() {
  return load_alone(read_outgoing);
}

Result<Config, std::vector<std::string>> load_config(Program program) {
  Reader in(program);
  Config c;
  c.brand = read_brand(in);
  if (program == Program::kApi) {
    c.listen = in.parsed<HostPort>("LISTEN", to_host_port, kAddress);
  }
  const std::string ops_default = program == Program::kApi ? "127.0.0.1:8081" : "127.0.0.1:8082";
  c.ops_listen = in.parsed<HostPort>(
      "OPS_LISTEN",
      [&](std::string_view v) { return to_host_port(v.empty() ? ops_default : v); },
      kAddress);
  bool others_deliver = false;
  if (program == Program::kApi) {
    c.ops_token = read_ops_token(in);
    c.public_url = read_public_url(in, c.listen);
    c.cdn_url = without_slash(in.text("CDN_URL"));
    others_deliver = !c.cdn_url.empty();
    if (!others_deliver) {
      c.cdn_url = c.public_url + "/files";
    }
    for (const auto& [name, url] :
         {std::pair{"PUBLIC_URL", c.public_url}, std::pair{"CDN_URL", c.cdn_url}}) {
      if (!url.starts_with("http://") && !url.starts_with("https://")) {
        in.errors().push_back(std::string(name) + " must start with http:// or https://");
      }
    }
  }
  c.database = read_database(in);
  c.amqp = read_amqp(in);
  c.blob_url = in.parsed<std::string>(
      "BLOB_URL",
      [](std::string_view v) {
        return v.starts_with("file:///") || v.starts_with("s3://") ? std::optional(std::string(v))
                                                                   : std::nullopt;
      },
      "file:///absolute/folder or s3://bucket?endpoint=URL");
  c.blob_signing_keys = read_keys(in, "BLOB_SIGNING_KEY", 32);
  if (program == Program::kWorker) {
    c.s3 = {in.text("AWS_ACCESS_KEY_ID"),
            in.text("AWS_SECRET_ACCESS_KEY"),
            in.parsed<std::string>("AWS_SESSION_TOKEN", to_header_text, "visible ASCII")};
    if (c.blob_url.starts_with("s3://")) {
      for (const auto& [name, value] : {std::pair{"AWS_ACCESS_KEY_ID", &c.s3.access_key_id},
                                        std::pair{"AWS_SECRET_ACCESS_KEY", &c.s3.secret_key}}) {
        if (value->empty()) {
          in.errors().push_back(std::string(name) + " is required with an s3:// BLOB_URL");
        }
      }
    }
  } else {
    if (c.blob_url.starts_with("s3://") && !others_deliver) {
      in.errors().push_back(
          "CDN_URL is required with an s3:// BLOB_URL: audio-api serves no files "
          "from there");
    }
    c.cdn_signing_keys = read_keys(in, "CDN_SIGNING_KEY", 16);
    c.blob_unsealed = in.choice("BLOB_UNSEALED", {"refuse", "serve"}) == "serve";
    c.output_ttl_seconds = in.number("OUTPUT_TTL_SECONDS", 60, 604'800);
  }
  c.output_retention_days = in.number("OUTPUT_RETENTION_DAYS", 0, 3650);
  if (program == Program::kApi) {
    constexpr int kRateMax = 10'000'000;
    c.create_per_minute = in.number("RATE_LIMIT_CREATE_PER_MINUTE", 1, kRateMax);
    c.create_burst = in.number("RATE_LIMIT_CREATE_BURST", 1, kRateMax);
    c.read_per_minute = in.number("RATE_LIMIT_READ_PER_MINUTE", 1, kRateMax);
    c.read_burst = in.number("RATE_LIMIT_READ_BURST", 1, kRateMax);
    c.unauthenticated_per_minute = in.number("RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", 1, kRateMax);
    c.files_per_minute = in.number("RATE_LIMIT_FILES_PER_MINUTE", 1, kRateMax);
    c.files_burst = in.number("RATE_LIMIT_FILES_BURST", 1, kRateMax);
    c.task_deadline_seconds = in.number("TASK_DEADLINE_SECONDS", 1, 86400);
    c.trusted_proxies = in.parsed<std::vector<IpNetwork>>(
        "TRUSTED_PROXIES", parse_networks, "a comma-separated list of networks such as 10.0.0.0/8");
    constexpr int kConnectionsMax = 1'000'000;
    c.connections_max = in.number("CONNECTIONS_MAX", 1, kConnectionsMax);
    c.connections_per_address = in.number("CONNECTIONS_PER_ADDRESS", 1, kConnectionsMax);
    c.body_budget_mb = in.number("BODY_BUDGET_MB", 1, 65'536);
    c.answer_budget_mb = in.number("ANSWER_BUDGET_MB", 1, 65'536);
    c.console = read_console(in, c.public_url);
    c.console_dir = in.text("CONSOLE_DIR");
    read_oidc(in, c);
    read_mail(in, c);
    c.voice_previews_dir = in.text("VOICE_PREVIEWS_DIR");
    constexpr int kOpenMax = 10'000'000, kRunningMax = 1'000'000;
    c.free_plan.open_tasks = in.number("OPEN_TASKS_FREE", 1, kOpenMax);
    c.free_plan.running_tasks = in.number("RUNNING_TASKS_FREE", 0, kRunningMax);
    c.paid_plan.open_tasks = in.number("OPEN_TASKS_PAID", 1, kOpenMax);
    c.paid_plan.running_tasks = in.number("RUNNING_TASKS_PAID", 0, kRunningMax);
  }
  c.worker_in_flight = in.number("WORKER_IN_FLIGHT", 1, 10000);
  c.url_policy =
      in.choice("URL_POLICY", {"public", "any"}) == "any" ? UrlPolicy::kAny : UrlPolicy::kPublic;
  if (program == Program::kWorker) {
    c.providers_file = in.text("PROVIDERS_FILE");
    c.drain_seconds = in.number("DRAIN_SECONDS", 0, 900);
    c.sandbox = in.choice("SANDBOX", {"required", "best_effort"}) == "required"
                    ? SandboxPolicy::kRequired
                    : SandboxPolicy::kBestEffort;
    c.attempts_retention_days = in.number("ATTEMPTS_RETENTION_DAYS", 0, 3650);
    if (c.attempts_retention_days == 1) {
      in.errors().push_back(
          "ATTEMPTS_RETENTION_DAYS must be 0 or at least 2: a task may be a day old and open");
    }
    c.references_max_mb = in.number("REFERENCES_MAX_MB", 32, 65'536);
    c.references_seconds = in.number("REFERENCES_SECONDS", 1, 600);
    c.references_folder = in.text("REFERENCES_FOLDER");
    c.url_deny = in.parsed<std::vector<IpNetwork>>(
        "URL_DENY",
        parse_networks,
        "addresses and networks, separated by commas, with nothing behind the prefix");
  }
  c.outgoing = read_outgoing(in);
  c.log_level = in.choice("LOG_LEVEL", {"debug", "info", "warn", "error"});
  c.log_format = in.choice("LOG_FORMAT", {"json", "text"});
  if (program == Program::kApi) {
    c.access_log = in.choice("ACCESS_LOG", {"off", "on"}) == "on";
    if (c.access_log && c.log_level != "info" && c.log_level != "debug") {
      in.errors().push_back(
          "ACCESS_LOG=on writes lines of the level info, which LOG_LEVEL leaves out");
    }
  }
  if (!in.errors().empty()) {
    return in.errors();
  }
  return c;
}

std::string config_help(Program program) {
  std::string out =
      "Environment (any of them may be given as NAME_FILE, a file that holds the value):\n";
  for (const Variable& v : kVariables) {
    if (!concerns(v, program)) {
      continue;
    }
    out += "  ";
    out += v.name;
    out += "\n      ";
    out += v.meaning;
    if (v.fallback == nullptr) {
      out += "; required";
    } else if (*v.fallback != '\0') {
      out += "; default ";
      out += v.fallback;
    }
    out += '\n';
  }
  return out;
}

std::string print_config(Program program) {
  std::string out;
  for (const Variable& v : kVariables) {
    if (!concerns(v, program)) {
      continue;
    }
    const auto value = read_variable(v.name);
    std::string shown =
        !value ? "(unreadable)" : value->value_or(v.fallback == nullptr ? "(not set)" : v.fallback);
    if (v.secret && value && *value) {
      const bool address = std::string_view(v.name).ends_with("_URL");
      const auto scheme = shown.find("://");
      const auto at = shown.rfind('@');
      if (!address || scheme == std::string::npos) {
        shown = "***";
      } else if (at != std::string::npos && at > scheme) {
        shown = shown.substr(0, scheme + 3) + "***" + shown.substr(at);
      }
    }
    out += std::string(v.name) + "=" + shown + "\n";
  }
  return out;
}

}  // namespace audiogen
