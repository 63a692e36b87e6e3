#include "api/admin.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <rapidjson/document.h>

#include "api/admin_output.h"
#include "common/base/config.h"
#include "common/base/log.h"
#include "common/domain/api_key.h"
#include "common/queue/amqp.h"
#include "common/store/account_store.h"
#include "common/store/task_store.h"

namespace audiogen::api {
namespace {

using store::AccountStore;
using store::GrantKind;
using store::Plan;

// --- the commands

struct Answer {
  std::string json;
  std::string note = {};  // For people only.
  bool ok = true;
};

// The options of all commands; each offers its own.
struct Options {
  std::string email, plan = "free", user, credits, kind, reference, name, id, status;
  std::size_t limit = 50;
  bool json = false;
};

const std::map<std::string, Plan>& plans() {
  static const std::map<std::string, Plan> all = {{"free", Plan::kFree}, {"paid", Plan::kPaid}};
  return all;
}

const std::map<std::string, GrantKind>& kinds() {
  static const std::map<std::string, GrantKind> all = {{"purchase", GrantKind::kPurchase},
                                                       {"plan", GrantKind::kPlan},
                                                       {"bonus", GrantKind::kBonus},
                                                       {"adjustment", GrantKind::kAdjustment}};
  return all;
}

const char* plan_name(Plan plan) {
  return plan == Plan::kPaid ? "paid" : "free";
}

const char* entry_name(EntryKind kind) {
  switch (kind) {
    case EntryKind::kHold:
      return "hold";
    case EntryKind::kResolve:
      return "resolve";
    case EntryKind::kGrant:
      return "grant";
    case EntryKind::kClawback:
      return "clawback";
  }
  return "unknown";
}

const char* attempt_name(std::uint8_t state) {
  switch (state) {
    case store::kAttemptStarted:
      return "started";
    case store::kAttemptSucceeded:
      return "succeeded";
    case store::kAttemptFailed:
      return "failed";
    default:
      return "unknown outcome";
  }
}

// "12", "-0.5", "18.750": at most three decimals.
std::optional<Units> parse_credits(std::string_view text) {
  constexpr std::size_t kDigitsMax = 13;  // 10^12 credits; more could overflow.
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  const auto point = text.find('.');
  const std::string whole(text.substr(0, point));
  std::string decimals(point == std::string_view::npos ? "0" : text.substr(point + 1));
  if (whole.empty() || whole.size() > kDigitsMax || decimals.empty() || decimals.size() > 3) {
    return std::nullopt;
  }
  decimals.resize(3, '0');
  const std::string digits = whole + decimals;
  std::int64_t value = 0;
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return Units{negative ? -value : value};
}

Json& user_members(Json& json, const store::User& user) {
  return json.member("id", user.id)
      .member("email", user.email)
      .member("plan", plan_name(user.plan))
      .member("api_access", user.api_access)
      .member("available_credits", user.balance.available)
      .member("reserved_credits", user.balance.held);
}

void key_members(Json& json, const store::KeyInfo& key) {
  json.member("id", key.id)
      .member("name", key.name)
      .member("prefix", key.prefix)
      .member("created_at", key.created_at)
      .member("last_used_at", key.last_used_at)
      .member("deleted_at", key.deleted_at);
}

Result<Answer> user_create(const DatabaseUrl& url, const Options& o) {
  const auto user = AccountStore(url).create_user(o.email, plans().at(o.plan));
  if (!user) {
    return user.error();
  }
  return Answer{Json()
                    .member("id", user->id)
                    .member("email", user->email)
                    .member("plan", plan_name(user->plan))
                    .finish()};
}

Result<Answer> shown(const Result<store::User>& user) {
  if (!user) {
    return user.error();
  }
  Json json;
  return Answer{user_members(json, *user).finish()};
}

Result<Answer> user_show(const DatabaseUrl& url, const Options& o) {
  return shown(AccountStore(url).find_user(o.user));
}

Result<Answer> user_plan(const DatabaseUrl& url, const Options& o) {
  return shown(AccountStore(url).set_plan(o.user, plans().at(o.plan)));
}

Result<Answer> credits_grant(const DatabaseUrl& url, const Options& o) {
  const auto amount = parse_credits(o.credits);
  if (!amount) {
    return Error{"--credits must be a number of at most three decimals, like 500 or 18.75"};
  }
  const auto granted = AccountStore(url).grant(o.user, *amount, kinds().at(o.kind), o.reference);
  if (!granted) {
    return granted.error();
  }
  Json json;
  user_members(json, granted->user).member("reference", o.reference);
  json.member("repeated", granted->repeated);
  return Answer{json.finish(),
                granted->repeated ? "This reference was booked before; nothing was changed." : ""};
}

Result<Answer> key_create(const DatabaseUrl& url, const Options& o) {
  const auto brand = load_brand();
  if (!brand) {
    return brand.error();
  }
  const NewApiKey key = make_api_key(*brand);
  const auto stored = AccountStore(url).add_key(o.user, o.name, key);
  if (!stored) {
    return stored.error();
  }
  return Answer{Json()
                    .member("id", stored->id)
                    .member("name", stored->name)
                    .member("prefix", stored->prefix)
                    .member("key", key.text)
                    .finish(),
                "The key is shown this once and stored nowhere; keep it now."};
}

Result<Answer> key_list(const DatabaseUrl& url, const Options& o) {
  const auto keys = AccountStore(url).list_keys(o.user);
  if (!keys) {
    return keys.error();
  }
  Json json;
  json.objects("keys", *keys, [&](const store::KeyInfo& key) { key_members(json, key); });
  return Answer{json.finish()};
}

Result<Answer> key_delete(const DatabaseUrl& url, const Options& o) {
  const auto id = KeyId::parse(o.id);
  if (!id) {
    return Error{"--key must be a key's id (key_...), as key list shows it"};
  }
  const auto deleted = AccountStore(url).delete_key(*id);
  if (!deleted) {
    return deleted.error();
  }
  Json json;
  key_members(json, deleted->key);
  json.member("repeated", deleted->repeated);
  return Answer{json.finish(),
                deleted->repeated ? "It was deleted before; nothing was changed."
                                  : "Deleted: it stops working within a second."};
}

void task_members(Json& json, const store::TaskRow& task) {
  const TaskView& view = task.view;
  json.member("id", view.id)
      .member("user", task.user)
      .member("status", state_name(view.state))
      .member("claims", view.claims)
      .member("calls", task.attempts)
      .member("reserved_credits", view.held)
      .member("charged_credits", view.charged)
      .member("error",
              view.failure ? std::optional(failure_code_name(*view.failure)) : std::nullopt)
      .member("created_at", view.created_at)
      .member("updated_at", view.updated_at);
}

Result<Answer> task_list(const DatabaseUrl& url, const Options& o) {
  const auto tasks = AccountStore(url).list_tasks(o.user, parse_state(o.status), o.limit);
  if (!tasks) {
    return tasks.error();
  }
  Json json;
  json.objects("tasks", *tasks, [&](const store::TaskRow& task) { task_members(json, task); });
  return Answer{json.finish()};
}

struct Event {
  Instant at;
  std::string what;
};

// What happened to a task and what is to come, in order.
std::vector<Event> timeline(const store::TaskDetail& detail) {
  std::vector<Event> out;
  const store::TaskRow& task = detail.task;
  for (const store::AttemptRow& attempt : detail.attempts) {
    const std::string name = "call " + std::to_string(attempt.n) + " to " + attempt.provider;
    out.push_back({attempt.started_at, name + " started"});
    if (attempt.ended_at) {
      out.push_back({*attempt.ended_at,
                     name + ": " + attempt_name(attempt.state) +
                         (attempt.detail.empty() ? "" : ", " + attempt.detail)});
    }
  }
  for (const store::LedgerRow& row : detail.ledger) {
    if (row.kind == EntryKind::kHold) {
      out.push_back({row.created_at, "created, " + format_credits(row.d_held) + " reserved"});
    } else {
      out.push_back({row.created_at,
                     std::string(state_name(task.view.state)) + ", " +
                         format_credits(row.d_system) + " charged, " +
                         format_credits(row.d_available) + " returned"});
    }
  }
  if (!is_final(task.view.state)) {
    if (task.lease_until) {
      out.push_back({*task.lease_until, "lease ends unless renewed"});
    } else {
      out.push_back({task.next_run_at, "due"});
    }
    out.push_back({task.deadline_at, "deadline"});
  }
  std::stable_sort(
      out.begin(), out.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  return out;
}

Result<TaskId> task_id(const Options& o) {
  const auto id = TaskId::parse(o.id);
  if (!id) {
    return Error{"ID must be a task's id (aud_...)"};
  }
  return *id;
}

Result<Answer> task_show(const DatabaseUrl& url, const Options& o) {
  const auto id = task_id(o);
  if (!id) {
    return id.error();
  }
  const auto detail = AccountStore(url).show_task(*id);
  if (!detail) {
    return detail.error();
  }
  const store::TaskRow& task = detail->task;
  const TaskView& view = task.view;
  Json json;
  task_members(json, task);
  json.member("public_status", public_status(view.state, view.claims))
      .member("epoch", task.epoch)
      .member("worker", task.worker)
      .member("lease_until", task.lease_until)
      .member("next_run_at", task.next_run_at)
      .member("wake_at", task.wake_at)
      .member("deadline_at", task.deadline_at);
  if (view.state == TaskState::kSucceeded) {
    json.member("output_key", view.output_key)
        .member("output_bytes", task.output_bytes)
        .member("duration_seconds", Units{view.duration_ms});
  }
  if (view.failure) {
    json.member("error_message",
                view.failure_message.empty() ? failure_message(*view.failure)
                                             : std::string_view(view.failure_message));
  }
  json.objects("attempts", detail->attempts, [&](const store::AttemptRow& attempt) {
    json.member("n", attempt.n)
        .member("epoch", attempt.epoch)
        .member("provider", attempt.provider)
        .member("state", attempt_name(attempt.state))
        .member("started_at", attempt.started_at)
        .member("ended_at", attempt.ended_at)
        .member("detail", attempt.detail);
  });
  json.objects("ledger", detail->ledger, [&](const store::LedgerRow& row) {
    json.member("seq", row.seq)
        .member("kind", entry_name(row.kind))
        .member("available", row.d_available)
        .member("reserved", row.d_held)
        .member("system", row.d_system)
        .member("available_after", row.after.available)
        .member("reserved_after", row.after.held)
        .member("at", row.created_at);
  });
  json.objects("timeline", timeline(*detail), [&](const Event& event) {
    json.member("at", event.at).member("event", event.what);
  });
  return Answer{json.finish()};
}

Result<Answer> task_cancel(const DatabaseUrl& url, const Options& o) {
  const auto id = task_id(o);
  if (!id) {
    return id.error();
  }
  const auto outcome = store::TaskStore(url).cancel(*id);
  if (!outcome) {
    return Error{outcome.error() == store::StoreFault::kUnavailable
                     ? "the database is away; nothing was done"
                     : "the database went away and it may have been done or not; see task show"};
  }
  switch (*outcome) {
    case store::CancelOutcome::kCanceled:
      return Answer{Json().member("id", *id).member("status", "canceled").finish(),
                    "Canceled: what was reserved is returned."};
    case store::CancelOutcome::kAlreadyFinal:
      return Error{id->text() + " has ended already, and a final task stays as it is"};
    case store::CancelOutcome::kNotFound:
      break;
  }
  return Error{"there is no task " + id->text()};
}

// One provider over all living workers.
struct ProviderSum {
  std::string state;
  std::uint64_t in_flight = 0, workers = 0;
};

// Adds what one worker reports of its providers; a report of another form adds nothing.
void add_providers(std::map<std::string, ProviderSum>& sums, const std::string& status_json) {
  rapidjson::Document status;
  status.Parse(status_json.c_str());
  if (!status.IsObject() || !status.HasMember("providers") || !status["providers"].IsArray()) {
    return;
  }
  for (const auto& provider : status["providers"].GetArray()) {
    if (!provider.IsObject() || !provider.HasMember("name") || !provider["name"].IsString() ||
        !provider.HasMember("state") || !provider["state"].IsString() ||
        !provider.HasMember("in_flight") || !provider["in_flight"].IsUint64()) {
      continue;
    }
    ProviderSum& sum = sums[provider["name"].GetString()];
    // Trouble seen by one worker is what an operator wants to see.
    if (sum.workers == 0 || sum.state == "ready") {
      sum.state = provider["state"].GetString();
    }
    sum.in_flight += provider["in_flight"].GetUint64();
    ++sum.workers;
  }
}

Result<Answer> queue(const DatabaseUrl& url, const Options&) {
  const auto view = AccountStore(url).queue();
  if (!view) {
    return view.error();
  }
  std::optional<queue::Depth> depth;
  if (const auto broker = load_amqp_url()) {
    depth = queue::read_depth(*broker);
  }
  std::map<std::string, ProviderSum> providers;
  for (const auto& worker : view->workers) {
    if (worker.alive) {
      add_providers(providers, worker.status_json);
    }
  }
  Json json;
  json.member("ready", view->ready)
      .member("in_flight", view->in_flight)
      .member("waiting_retry", view->waiting_retry)
      .member("dead", depth ? std::optional(depth->dead) : std::nullopt)
      .member("oldest_seconds", view->oldest_seconds)
      .objects("workers",
               view->workers,
               [&](const store::QueueView::Worker& worker) {
                 json.member("id", worker.id)
                     .member("host", worker.host)
                     .member("pid", worker.pid)
                     .member("alive", worker.alive)
                     .member("in_flight", worker.in_flight)
                     .member("started_at", worker.started_at)
                     .member("seen_at", worker.seen_at);
               })
      .objects("providers", providers, [&](const auto& provider) {
        json.member("name", provider.first)
            .member("state", provider.second.state)
            .member("in_flight", provider.second.in_flight)
            .member("workers", provider.second.workers);
      });
  return Answer{json.finish(),
                depth ? "" : "The broker did not answer (AMQP_URL), so dead is not known."};
}

Result<Answer> audit(const DatabaseUrl& url, const Options&) {
  const auto checks = AccountStore(url).audit();
  if (!checks) {
    return checks.error();
  }
  const bool ok = std::all_of(
      checks->begin(), checks->end(), [](const store::Check& check) { return check.bad == 0; });
  Json json;
  json.member("ok", ok).objects("checks", *checks, [&](const store::Check& check) {
    json.member("name", check.name).member("bad", check.bad);
  });
  return Answer{.json = json.finish(), .ok = ok};
}

// --- the command line

using Command = Result<Answer> (*)(const DatabaseUrl&, const Options&);

class CommandLine {
 public:
  CommandLine() : app_("Users, credits, keys, tasks, the queue and the audit.", "audio-api admin") {
    app_.footer(
        "Needs DATABASE_URL in the environment; key create uses BRAND, queue AMQP_URL.\n"
        "--user takes an email address or a user id. Each command has --help and --json.");
    app_.require_subcommand(1);
    add_user_commands();
    add_credits_commands();
    add_key_commands();
    add_task_commands();
    leaf(&app_, "queue", "how much work waits, and who does it", queue, "queue");
    leaf(&app_,
         "audit",
         "check the books and the queue against their rules; exit 1 unless all hold",
         audit,
         "audit --json");
  }

  // May throw CLI::ParseError, for --help too.
  void parse(std::vector<std::string> args) {
    std::reverse(args.begin(), args.end());  // As CLI11 wants it.
    app_.parse(std::move(args));
  }

  CLI::App& app() { return app_; }
  const Options& options() const { return options_; }
  Command command() const { return command_; }

 private:
  void add_user_commands() {
    CLI::App* user = group("user", "make and show users");
    CLI::App* create = leaf(user,
                            "create",
                            "make a user without credits",
                            user_create,
                            "user create --email ann@example.com --plan paid");
    create->add_option("--email", options_.email, "address, unique; kept in lower case")
        ->required();
    plan(create);
    CLI::App* show = leaf(user,
                          "show",
                          "plan, API access and credits of a user",
                          user_show,
                          "user show --user ann@example.com");
    who(show);
    CLI::App* change = leaf(user,
                            "plan",
                            "put a user on a plan; a paid one opens API access",
                            user_plan,
                            "user plan --user ann@example.com --plan paid");
    who(change);
    plan(change)->required();
  }

  void add_credits_commands() {
    CLI::App* credits = group("credits", "give credits and take them back");
    CLI::App* grant = leaf(
        credits,
        "grant",
        "book credits, once per reference",
        credits_grant,
        "credits grant --user ann@example.com --credits 500 --kind purchase --reference inv-1001\n"
        "  audio-api admin credits grant --user ann@example.com --credits=-12.5 --kind adjustment "
        "--reference fix-7");
    who(grant);
    grant
        ->add_option("--credits",
                     options_.credits,
                     "how many, at most three decimals; less than 0 only for an adjustment")
        ->required();
    grant
        ->add_option(
            "--kind", options_.kind, "purchase (opens API access), plan, bonus or adjustment")
        ->required()
        ->check(CLI::IsMember(kinds()));
    grant
        ->add_option("--reference",
                     options_.reference,
                     "the payment's own id: repeating a grant with it changes nothing")
        ->required();
  }

  void add_key_commands() {
    CLI::App* key = group("key", "make, list and delete API keys");
    CLI::App* create = leaf(key,
                            "create",
                            "make an API key; it is shown only once",
                            key_create,
                            "key create --user ann@example.com --name laptop");
    who(create);
    create->add_option("--name", options_.name, "what the key is for, 1-100 characters")
        ->required();
    CLI::App* list = leaf(key,
                          "list",
                          "the keys of a user, without their secret part",
                          key_list,
                          "key list --user ann@example.com");
    who(list);
    CLI::App* end = leaf(key,
                         "delete",
                         "end a key, at once and for good",
                         key_delete,
                         "key delete --key key_01j...");
    end->add_option("--key", options_.id, "the key's id, as key list shows it")->required();
  }

  void add_task_commands() {
    CLI::App* task = group("task", "look at tasks and cancel them");
    CLI::App* list = leaf(task,
                          "list",
                          "tasks, newest first",
                          task_list,
                          "task list --user ann@example.com --status running --limit 10");
    list->add_option("--user", options_.user, "email address or user id; all users without it")
        ->check(not_empty());
    list->add_option("--status", options_.status, "queued, running, succeeded, failed or canceled")
        ->check(CLI::IsMember({"queued", "running", "succeeded", "failed", "canceled"}));
    list->add_option("--limit", options_.limit, "at most so many, 1-1000; default 50")
        ->check(CLI::Range(1, 1000));
    CLI::App* show = leaf(task,
                          "show",
                          "one task: attempts, ledger rows, timeline",
                          task_show,
                          "task show aud_01j...");
    id(show);
    CLI::App* cancel = leaf(task,
                            "cancel",
                            "end an open task and return what it reserved",
                            task_cancel,
                            "task cancel aud_01j...");
    id(cancel);
  }

  CLI::App* group(const char* name, const char* description) {
    CLI::App* out = app_.add_subcommand(name, description);
    out->require_subcommand(1);
    return out;
  }

  CLI::App* leaf(CLI::App* parent,
                 const char* name,
                 const char* description,
                 Command run,
                 const char* example) {
    CLI::App* out = parent->add_subcommand(name, description);
    out->add_flag("--json", options_.json, "answer with one JSON object");
    out->footer(std::string("Example:\n  audio-api admin ") + example);
    out->callback([this, run] { command_ = run; });
    return out;
  }

  static CLI::Validator not_empty() {
    return CLI::Validator([](std::string& text) { return text.empty() ? "must not be empty" : ""; },
                          "");
  }
  void who(CLI::App* command) {
    command->add_option("--user", options_.user, "email address or user id")->required();
  }
  CLI::Option* plan(CLI::App* command) {
    return command->add_option("--plan", options_.plan, "free or paid")
        ->check(CLI::IsMember(plans()));
  }
  void id(CLI::App* command) {
    command->add_option("ID", options_.id, "the task's id (aud_...)")->required();
  }

  CLI::App app_;
  Options options_;
  Command command_ = nullptr;
};

int fail(std::string message, bool json, std::ostream& err) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (json) {
    Json line;
    line.member("message", message);
    err << "{\"error\":" << line.finish() << "}\n";
  } else {
    err << "audio-api admin: " << message << "\n";
  }
  return 1;
}

}  // namespace

int run_admin(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  CommandLine line;
  try {
    line.parse(args);
  } catch (const CLI::Success& help) {
    return line.app().exit(help, out, err);
  } catch (const CLI::ParseError& e) {
    const bool json = std::find(args.begin(), args.end(), "--json") != args.end();
    return fail(std::string(e.what()) + "; see --help", json, err);
  }
  const bool json = line.options().json;
  // What the store logs is in the one line of a failure.
  log::init("audio-api", "error", "text");
  const auto url = load_database_url();
  if (!url) {
    return fail(url.error().message, json, err);
  }
  try {
    const auto answer = line.command()(*url, line.options());
    if (!answer) {
      return fail(answer.error().message, json, err);
    }
    if (json) {
      out << answer->json << "\n";
    } else {
      out << for_people(answer->json);
      if (!answer->note.empty()) {
        out << "\n" << answer->note << "\n";
      }
    }
    return answer->ok ? 0 : 1;
  } catch (const std::exception& e) {
    return fail(e.what(), json, err);
  }
}

}  // namespace audiogen::api
