#include "api/admin/admin.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

#include "api/admin/command.h"
#include "api/admin/dead.h"
#include "api/admin/operator.h"
#include "api/admin/output.h"
#include "api/admin/previews.h"
#include "api/admin/providers.h"
#include "api/admin/queue.h"
#include "api/admin/queue_watch.h"
#include "api/admin/service.h"
#include "api/admin/stuck.h"
#include "api/operators/task_story.h"
#include "common/base/ascii.h"
#include "common/base/config.h"
#include "common/base/log.h"
#include "common/domain/api_key.h"
#include "common/domain/sign_in.h"
#include "common/domain/voices.h"
#include "common/http/egress.h"
#include "common/store/audit.h"
#include "common/store/audit_record.h"

namespace audiogen::api {
namespace {

using store::GrantKind;
using store::Plan;

constexpr int kProviderDaysMax = 90;

// --- the commands

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
  if (!std::all_of(digits.begin(), digits.end(), ascii::is_digit)) {
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

// "generate,manage"; "" of a key that only reads.
std::string scope_list(Scopes scopes) {
  std::string out;
  for (const Scope scope : kScopes) {
    if (scopes.has(scope)) {
      out += out.empty() ? "" : ",";
      out += scope_name(scope);
    }
  }
  return out;
}

Json& limit_members(Json& json, const store::KeyInfo& key) {
  const auto& limit = key.spend_limit;
  return json.member("spend_limit", limit ? std::optional(limit->amount) : std::nullopt)
      .member("period", limit ? std::optional(period_name(limit->period)) : std::nullopt)
      .member("spent_credits", key.spent);
}

void key_members(Json& json, const store::KeyInfo& key) {
  json.member("id", key.id)
      .member("name", key.name)
      .member("prefix", key.prefix)
      .member("scopes", scope_list(key.scopes))
      .member("expires_at", key.expires_at)
      .member("previous_key_expires_at", key.previous_until);
  limit_members(json, key)
      .member("created_at", key.created_at)
      .member("last_used_at", key.last_used_at)
      .member("deleted_at", key.deleted_at);
}

Reply user_create(Doors& doors, const Options& o) {
  const auto user = doors.accounts.create(o.email, plans().at(o.plan));
  if (!user) {
    return failure(user.error());
  }
  return Answer{Json()
                    .member("id", user->id)
                    .member("email", user->email)
                    .member("plan", plan_name(user->plan))
                    .finish()};
}

Reply shown(const Result<store::User, store::Fault>& user) {
  if (!user) {
    return failure(user.error());
  }
  Json json;
  return Answer{user_members(json, *user).finish()};
}

Reply user_show(Doors& doors, const Options& o) {
  const auto user = doors.accounts.resolve(o.user);
  return user ? shown(doors.accounts.find(*user)) : failure(user.error());
}

Reply user_plan(Doors& doors, const Options& o) {
  const auto user = doors.accounts.resolve(o.user);
  return user ? shown(doors.accounts.set_plan(*user, plans().at(o.plan))) : failure(user.error());
}

constexpr char kAnotherLink[] = "the link is lost: make another";

Reply user_login_link(Doors& doors, const Options& o) {
  const auto public_url = load_public_url();
  if (!public_url) {
    return Failure{public_url.error().message};
  }
  const auto user = doors.accounts.resolve(o.user);
  if (!user) {
    return failure(user.error());
  }
  const NewToken token = make_token();
  const auto expires_at = doors.web_sessions.add_link(*user, token.hash);
  if (!expires_at) {
    return failure(expires_at.error());
  }
  // Behind the #: a browser sends it to nobody, so it stands in no log of a proxy.
  return Answer{.json = Json()
                            .member("url", *public_url + "/console/#login=" + token.text)
                            .member("expires_at", *expires_at)
                            .finish(),
                .note = "Whoever uses it first is signed in as this user; it works once.",
                .unseen = kAnotherLink};
}

Reply user_sign_out(Doors& doors, const Options& o) {
  const auto user = doors.accounts.resolve(o.user);
  if (!user) {
    return failure(user.error());
  }
  const auto ended = doors.web_sessions.close_all(*user);
  if (!ended) {
    return failure(ended.error());
  }
  return Answer{Json().member("id", *user).member("ended_sessions", *ended).finish(),
                "Ended: within a second they open nothing. Keys of the account work on."};
}

Reply user_email(Doors& doors, const Options& o) {
  const auto user = doors.accounts.resolve(o.user);
  return user ? shown(doors.accounts.set_email(*user, o.email)) : failure(user.error());
}

Reply user_invite(Doors& doors, const Options& o) {
  const auto public_url = load_public_url();
  if (!public_url) {
    return Failure{public_url.error().message};
  }
  const NewToken token = make_token();
  const auto expires_at = doors.mail_links.invite(o.email, token.hash);
  if (!expires_at) {
    return failure(expires_at.error());
  }
  return Answer{
      .json = Json()
                  .member("url", *public_url + "/console/#login=" + token.text)
                  .member("expires_at", *expires_at)
                  .finish(),
      .note =
          "Whoever opens it first makes the account and is signed in; it works once, where "
          "the API has\nSIGNUP=invite or open. With SMTP_URL the page mails a link of its own "
          "to that address, too.",
      .unseen = kAnotherLink};
}

Reply credits_grant(Doors& doors, const Options& o) {
  const auto amount = parse_credits(o.credits);
  if (!amount) {
    return Failure{"--credits must be a number of at most three decimals, like 500 or 18.75"};
  }
  const auto user = doors.accounts.resolve(o.user);
  if (!user) {
    return failure(user.error());
  }
  const auto granted = doors.accounts.grant(*user, *amount, kinds().at(o.kind), o.reference);
  if (!granted) {
    return failure(granted.error());
  }
  Json json;
  user_members(json, granted->user).member("reference", o.reference);
  json.member("repeated", granted->repeated);
  return Answer{json.finish(),
                granted->repeated ? "This reference was booked before; nothing was changed." : ""};
}

constexpr char kShownOnce[] = "The key is shown this once and stored nowhere; keep it now.";
constexpr char kBadKeyId[] = "--key must be a key's id (key_...), as key list shows it";

Reply key_create(Doors& doors, const Options& o) {
  const auto brand = load_brand();
  if (!brand) {
    return Failure{brand.error().message};
  }
  const auto user = doors.accounts.resolve(o.user);
  if (!user) {
    return failure(user.error());
  }
  KeyTerms terms{.name = o.name, .scopes = {}, .expires_at = {}};
  for (const std::string& name : o.scopes) {
    const auto scope = parse_scope(name);
    if (!scope) {
      return Failure{"--scopes must be generate, manage, or both, as generate,manage"};
    }
    terms.scopes.add(*scope);
  }
  if (!o.expires.empty()) {
    terms.expires_at = parse_iso(o.expires);
    if (!terms.expires_at) {
      return Failure{"--expires must be a date and time (RFC 3339) like 2027-01-01T00:00:00Z"};
    }
  }
  if (!o.spend_limit.empty()) {
    const auto amount = parse_credits(o.spend_limit);
    terms.spend_limit = SpendLimit{amount.value_or(Units{}), *parse_period(o.period)};
  }
  const NewApiKey key = make_api_key(*brand);
  const auto stored = doors.keys.add(*user, terms, key);
  if (!stored) {
    return failure(stored.error());
  }
  Json json;
  json.member("id", stored->id)
      .member("name", stored->name)
      .member("prefix", stored->prefix)
      .member("scopes", scope_list(stored->scopes))
      .member("expires_at", stored->expires_at);
  limit_members(json, *stored).member("key", key.text);
  return Answer{.json = json.finish(),
                .note = kShownOnce,
                .unseen = "the key is lost: delete " + stored->id.text() + " and make another"};
}

Reply key_rotate(Doors& doors, const Options& o) {
  const auto brand = load_brand();
  if (!brand) {
    return Failure{brand.error().message};
  }
  const auto id = KeyId::parse(o.id);
  if (!id) {
    return Failure{kBadKeyId};
  }
  const auto before = doors.keys.prefix_of(*id);
  if (!before) {
    return failure(before.error());
  }
  // An API refuses keys of another brand by their form. Whoever has not read in its settings has
  // another one here, and its owner would be left with a secret that opens nothing.
  if (*before && !(*before)->starts_with(*brand + "_live_")) {
    return Failure{"BRAND is " + *brand + " here, and the key begins with " + **before +
                   ": set BRAND as the API has it, which would refuse the new secret; nothing was "
                   "changed"};
  }
  const NewApiKey key = make_api_key(*brand);
  const auto rotated = doors.keys.rotate(*id, std::chrono::hours(o.overlap_hours), key);
  if (!rotated) {
    return failure(rotated.error());
  }
  Json json;
  key_members(json, *rotated);
  json.member("key", key.text);
  return Answer{.json = json.finish(),
                .note = kShownOnce,
                .unseen = "the new secret is lost: rotate the key again"};
}

Reply key_list(Doors& doors, const Options& o) {
  const auto user = doors.accounts.resolve(o.user);
  if (!user) {
    return failure(user.error());
  }
  const auto keys = doors.keys.list(*user);
  if (!keys) {
    return failure(keys.error());
  }
  Json json;
  json.objects("keys", *keys, [&](const store::KeyInfo& key) { key_members(json, key); });
  return Answer{json.finish()};
}

Reply key_delete(Doors& doors, const Options& o) {
  const auto id = KeyId::parse(o.id);
  if (!id) {
    return Failure{kBadKeyId};
  }
  const auto deleted = doors.keys.remove(*id);
  if (!deleted) {
    return failure(deleted.error());
  }
  Json json;
  key_members(json, deleted->key);
  json.member("repeated", deleted->repeated);
  return Answer{json.finish(),
                deleted->repeated ? "It was deleted before; nothing was changed."
                                  : "Deleted: it stops working within a second."};
}

Reply task_list(Doors& doors, const Options& o) {
  std::optional<UserId> user;
  if (!o.user.empty()) {
    const auto found = doors.accounts.resolve(o.user);
    if (!found) {
      return failure(found.error());
    }
    user = *found;
  }
  const auto tasks = doors.operators.list_tasks(user, parse_state(o.status), o.limit);
  if (!tasks) {
    return failure(tasks.error());
  }
  Json json;
  json.objects("tasks", *tasks, [&](const store::TaskRow& task) { task_members(json, task); });
  return Answer{json.finish()};
}

Result<TaskId, Failure> task_id(const Options& o) {
  const auto id = TaskId::parse(o.id);
  if (!id) {
    return Failure{"ID must be a task's id (aud_...)"};
  }
  return *id;
}

Reply task_show(Doors& doors, const Options& o) {
  const auto id = task_id(o);
  if (!id) {
    return id.error();
  }
  const auto detail = doors.operators.show_task(*id);
  if (!detail) {
    return failure(detail.error());
  }
  return Answer{task_json(*detail)};
}

Reply task_cancel(Doors& doors, const Options& o) {
  const auto id = task_id(o);
  if (!id) {
    return id.error();
  }
  store::TaskStore tasks(doors.url);
  const auto canceled = doors.operators.cancel_task(tasks, *id);
  if (!canceled) {
    return failure(canceled.error());
  }
  return Answer{Json().member("id", *id).member("status", "canceled").finish(),
                "Canceled: what was reserved is returned."};
}

std::string shown_task(Doors& doors, const std::string& id) {
  Options o;
  o.id = id;
  const auto answer = task_show(doors, o);
  return answer ? for_people(answer->json) : answer.error().message;
}

Reply show_queue(Doors& doors, const Options& o) {
  return o.watch ? queue_watch(doors, o, shown_task) : queue(doors, o);
}

// Whom previews are made for. No mail reaches it (RFC 2606), so nobody else can be it.
constexpr std::string_view kPreviewUser = "voice-previews@audio.invalid";
// A run that was interrupted leaves its key behind.
constexpr auto kPreviewKeyLife = std::chrono::hours(1);

// The account of previews, with credits for so many at a time.
Result<UserId, store::Fault> preview_account(Doors& doors, std::size_t count) {
  auto user = doors.accounts.resolve(kPreviewUser);
  if (!user) {
    const auto created = doors.accounts.create(kPreviewUser, Plan::kPaid);
    if (!created) {
      return created.error();
    }
    user = created->id;
  }
  const auto found = doors.accounts.find(*user);
  if (!found) {
    return found.error();
  }
  const Units missing =
      Units{kHoldAmount.value * static_cast<std::int64_t>(count)} - found->balance.available;
  if (missing > Units{}) {
    const auto granted = doors.accounts.grant(
        *user, missing, GrantKind::kAdjustment, "voice-previews-" + random_base32(26));
    if (!granted) {
      return granted.error();
    }
  }
  return *user;
}

// A key of that account that does not last, instead of those that earlier runs may have left.
Result<store::KeyInfo, store::Fault> preview_key(Doors& doors, UserId user, const NewApiKey& key) {
  const Instant now = std::chrono::floor<Instant::duration>(std::chrono::system_clock::now());
  const auto before = doors.keys.list(user);
  if (!before) {
    return before.error();
  }
  for (const store::KeyInfo& old : *before) {
    if (!old.deleted_at && old.expires_at && *old.expires_at <= now) {
      if (const auto removed = doors.keys.remove(old.id); !removed) {
        return removed.error();
      }
    }
  }
  return doors.keys.add(
      user,
      {.name = "voices render", .scopes = kUsualScopes, .expires_at = now + kPreviewKeyLife},
      key);
}

Reply voices_render(Doors& doors, const Options& o) {
  const auto folder = load_voice_previews_dir();
  const auto brand = load_brand();
  const auto public_url = load_public_url();
  for (const auto* const read : {&folder, &brand, &public_url}) {
    if (!*read) {
      return Failure{read->error().message};
    }
  }
  const auto out = load_outgoing();
  if (!out) {
    return Failure{out.error().message};
  }
  if (folder->empty()) {
    return Failure{"VOICE_PREVIEWS_DIR is not set; it names the folder that previews are kept in"};
  }
  http::set_egress(http::egress_of(*out));
  const VoicePreviews previews(*folder);
  const std::vector<bool> there = previews.which();
  std::vector<std::string_view> wanted;
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (o.again || !there[i]) {
      wanted.push_back(voices()[i].id);
    }
  }
  std::vector<PreviewMade> made;
  if (!wanted.empty()) {
    const auto user = preview_account(doors, wanted.size());
    if (!user) {
      return failure(user.error());
    }
    const NewApiKey key = make_api_key(*brand);
    const auto stored = preview_key(doors, *user, key);
    if (!stored) {
      return failure(stored.error());
    }
    made = make_previews({.url = o.url.empty() ? *public_url : o.url,
                          .public_url = *public_url,
                          .key = key.text,
                          .model = *brand + "-audio-1.0"},
                         previews,
                         wanted);
    if (const auto removed = doors.keys.remove(stored->id); !removed) {
      return failure(removed.error());
    }
  }
  const auto kept = std::count_if(
      made.begin(), made.end(), [](const PreviewMade& one) { return one.why_not.empty(); });
  const bool ok = kept == static_cast<std::ptrdiff_t>(made.size());
  if (!made.empty()) {
    // That it began was noted with its first change, so that none is without a row however this
    // ends; what came of it is a row of its own.
    const store::ActionNote outcome(doors.note->action());
    const auto noted =
        store::Operators(doors.session, &outcome)
            .note_result(ok ? store::ActionResult::kDone : store::ActionResult::kFailed,
                         "kept " + std::to_string(kept) + " of " + std::to_string(made.size()));
    if (!noted) {
      return failure(noted.error());
    }
  }
  Json json;
  json.member("rendered", kept).objects("voices", made, [&](const PreviewMade& one) {
    json.member("id", one.voice).member("result", one.why_not.empty() ? "kept" : one.why_not);
  });
  return Answer{.json = json.finish(),
                .note = made.empty() ? "Every voice has one; --again renders them anew." : "",
                .ok = ok};
}

Reply audit(Doors& doors, const Options& o) {
  const auto checks = store::audit(doors.url, {.recent = !o.full, .resumes = true});
  if (!checks) {
    return Failure{"the audit was not completed: " + worded(checks.error())};
  }
  if (const auto kept = store::keep_audit(doors.url, *checks); !kept) {
    return Failure{"what the audit found could not be kept for monitors: " + worded(kept.error())};
  }
  const bool ok = std::all_of(
      checks->begin(), checks->end(), [](const store::Check& check) { return check.bad == 0; });
  Json json;
  json.member("ok", ok).objects("checks", *checks, [&](const store::Check& check) {
    json.member("name", check.name).member("bad", check.bad);
  });
  return Answer{.json = json.finish(), .ok = ok};
}

const char* result_name(store::ActionResult result) {
  switch (result) {
    case store::ActionResult::kDone:
      return "ok";
    case store::ActionResult::kRefused:
      return "refused";
    case store::ActionResult::kFailed:
      break;
  }
  return "failed";
}

Reply actions(Doors& doors, const Options& o) {
  const auto rows = doors.operators.list_actions(o.limit);
  if (!rows) {
    return failure(rows.error());
  }
  Json json;
  json.objects("actions", *rows, [&](const store::ActionRow& row) {
    json.member("at", row.done_at)
        .member("who", row.action.who)
        .member("action", row.action.action)
        .member("target", row.action.target)
        .member("detail", row.action.detail)
        .member("reason", row.action.reason)
        .member("result", result_name(row.result))
        .member("message", row.message);
  });
  return Answer{json.finish()};
}

// --- the command line

using Command = Reply (*)(Doors&, const Options&);

// What a command that changes something is recorded with: on whom, and its other arguments.
struct Subject {
  std::string target, detail = {};
};
using Describe = Subject (*)(const Options&);

std::string key_terms(const Options& o) {
  std::string out = "name=" + o.name + " scopes=";
  for (const std::string& scope : o.scopes) {
    out += (out.ends_with('=') ? "" : ",") + scope;
  }
  out += o.expires.empty() ? "" : " expires=" + o.expires;
  return out + (o.spend_limit.empty() ? "" : " spend_limit=" + o.spend_limit + " a " + o.period);
}

class CommandLine {
 public:
  CommandLine() : app_("Users, credits, keys, tasks, the queue and the audit.", "audio-api admin") {
    app_.footer(
        "Needs DATABASE_URL in the environment; key create and key rotate use BRAND, queue\n"
        "and dead AMQP_URL, user login-link and user invite PUBLIC_URL, voices render BRAND,\n"
        "PUBLIC_URL, VOICE_PREVIEWS_DIR, EGRESS_PROXY, EGRESS_DIRECT and CONTACT. BRAND and\n"
        "PUBLIC_URL have to be those of the API: by others keys and links do not work.\n"
        "--user takes an email address or a user id. Each command has --help and --json; those "
        "that\n"
        "change something are recorded (actions) with --as NAME and --reason TEXT.");
    app_.require_subcommand(1);
    add_user_commands();
    add_credits_commands();
    add_key_commands();
    add_task_commands();
    add_voice_commands();
    CLI::App* waits =
        leaf(&app_, "queue", "how much work waits, and who does it", show_queue, "queue --watch");
    CLI::Option* once =
        waits->add_flag("--once", options_.once, "one picture of --watch, and no more");
    CLI::Option* watch = waits->add_flag(
        "--watch",
        options_.watch,
        "on a screen of its own, again and again; q ends it, p pauses, s sorts, / finds, Enter "
        "opens a task");
    watch->excludes(waits->get_option("--json"));
    once->needs(watch);
    limit(leaf(&app_,
               "stuck",
               "open tasks that are older than two minutes, by what they wait for",
               stuck,
               "stuck --limit 20"));
    add_dead_commands();
    add_provider_costs();
    add_service_commands();
    leaf(&app_,
         "audit",
         "check the books and the queue against their rules; exit 1 unless all hold",
         audit,
         "audit --json")
        ->add_flag("--full",
                   options_.full,
                   "also what an audit before has found right and that no program may change");
    CLI::App* list = leaf(&app_,
                          "actions",
                          "who changed what by these commands, on whom, why, and what came of it; "
                          "newest first",
                          actions,
                          "actions --limit 20");
    limit(list);
  }

  // May throw CLI::ParseError, for --help too.
  void parse(std::vector<std::string> args) {
    std::reverse(args.begin(), args.end());  // As CLI11 wants it.
    app_.parse(std::move(args));
  }

  CLI::App& app() { return app_; }
  const Options& options() const { return options_; }
  Command command() const { return command_; }
  // Of a command that changes something.
  std::optional<store::ActionNote> note() const {
    if (describe_ == nullptr) {
      return std::nullopt;
    }
    const Subject subject = describe_(options_);
    return store::ActionNote(
        {.who = options_.as.empty() ? operating_user() : options_.as,
         .action = action_,
         .target = subject.target,
         .detail = subject.detail,
         .reason = options_.reason.empty() ? std::nullopt : std::optional(options_.reason)});
  }

 private:
  void add_user_commands() {
    CLI::App* user = group("user", "make and show users");
    CLI::App* create = leaf(user,
                            "create",
                            "make a user without credits",
                            user_create,
                            "user create --email ann@example.com --plan paid",
                            [](const Options& o) {
                              return Subject{o.email, "plan=" + o.plan};
                            });
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
                            "put a user on a plan; a paid one opens API access, and what waits "
                            "already is kept back no more by the one before",
                            user_plan,
                            "user plan --user ann@example.com --plan paid",
                            [](const Options& o) {
                              return Subject{o.user, "plan=" + o.plan};
                            });
    who(change);
    plan(change)->required();
    CLI::App* link = leaf(user,
                          "login-link",
                          "make a link that signs a user in to the console, once and within ten "
                          "minutes",
                          user_login_link,
                          "user login-link --user ann@example.com",
                          [](const Options& o) { return Subject{o.user}; });
    who(link);
    CLI::App* out = leaf(user,
                         "sign-out",
                         "end all sessions of a user in the console, at once",
                         user_sign_out,
                         "user sign-out --user ann@example.com",
                         [](const Options& o) { return Subject{o.user}; });
    who(out);
    CLI::App* email = leaf(user,
                           "email",
                           "give a user another address; links mailed to the one before end",
                           user_email,
                           "user email --user ann@example.com --email ann@example.net",
                           [](const Options& o) {
                             return Subject{o.user, "email=" + o.email};
                           });
    who(email);
    email->add_option("--email", options_.email, "the new address, unique")->required();
    CLI::App* invite = leaf(user,
                            "invite",
                            "make a link by which somebody makes an account of his own, within a "
                            "week",
                            user_invite,
                            "user invite --email ann@example.com",
                            [](const Options& o) { return Subject{o.email}; });
    invite->add_option("--email", options_.email, "whose: the account's address")->required();
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
        "--reference fix-7",
        [](const Options& o) {
          return Subject{o.user,
                         "credits=" + o.credits + " kind=" + o.kind + " reference=" + o.reference};
        });
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
    CLI::App* key = group("key", "make, list, rotate and delete API keys");
    CLI::App* create = leaf(key,
                            "create",
                            "make an API key; it is shown only once",
                            key_create,
                            "key create --user ann@example.com --name laptop",
                            [](const Options& o) {
                              return Subject{o.user, key_terms(o)};
                            });
    who(create);
    create->add_option("--name", options_.name, "what the key is for, 1-100 characters")
        ->required();
    create
        ->add_option("--scopes",
                     options_.scopes,
                     "what it may do beside reading: generate (audio), manage (the account and its "
                     "keys), or both, as generate,manage")
        ->delimiter(',')
        ->capture_default_str();
    create->add_option(
        "--expires", options_.expires, "when it stops working, like 2027-01-01T00:00:00Z");
    CLI::Option* spend = create->add_option(
        "--spend-limit",
        options_.spend_limit,
        "the most it may spend in a --period, in whole credits, reserved ones included");
    CLI::Option* period =
        create->add_option("--period", options_.period, "day or month, of UTC, for --spend-limit")
            ->check(CLI::IsMember({"day", "month"}));
    spend->needs(period)->check(not_empty());
    period->needs(spend);
    CLI::App* list = leaf(key,
                          "list",
                          "the keys of a user, without their secret part, and what they have spent "
                          "of their limits",
                          key_list,
                          "key list --user ann@example.com");
    who(list);
    CLI::App* rotate =
        leaf(key,
             "rotate",
             "give a key another secret, which is shown only once",
             key_rotate,
             "key rotate --key key_01j... --overlap-hours 24",
             [](const Options& o) {
               return Subject{o.id, "overlap_hours=" + std::to_string(o.overlap_hours)};
             });
    rotate->add_option("--key", options_.id, "the key's id, as key list shows it")->required();
    rotate
        ->add_option("--overlap-hours",
                     options_.overlap_hours,
                     "for how long the secret that is replaced still works, 0-168; 0: not at all")
        ->required()
        ->check(CLI::Range(0, static_cast<int>(kKeyOverlapMax.count())));
    CLI::App* end = leaf(key,
                         "delete",
                         "end a key, at once and for good",
                         key_delete,
                         "key delete --key key_01j...",
                         [](const Options& o) { return Subject{o.id}; });
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
    limit(list);
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
                            "task cancel aud_01j...",
                            [](const Options& o) { return Subject{o.id}; });
    id(cancel);
  }

  void add_dead_commands() {
    CLI::App* dead = group("dead", "messages that nobody could read; they are no work");
    limit(leaf(dead,
               "list",
               "the oldest of them, and why they are there",
               dead_list,
               "dead list --limit 20"));
    CLI::App* show =
        leaf(dead, "show", "one of them in full, with its headers", dead_show, "dead show 5f0c...");
    message_id(show)->required();
    CLI::App* drop = leaf(dead,
                          "drop",
                          "remove one of them, or the oldest --limit of all, for good; prints what "
                          "is gone",
                          dead_drop,
                          "dead drop 5f0c... --reason \"a test's\"",
                          [](const Options& o) { return Subject{o.all ? "all" : o.id}; });
    message_id(drop);
    drop->add_flag("--all", options_.all, "the oldest, at most --limit of them");
    limit(drop);
    reason(drop);
  }

  void add_provider_costs() {
    CLI::App* costs =
        leaf(&app_,
             "providers",
             "calls to each provider by day (UTC): what became of them, how long they "
             "took, what they cost, what of it was wasted, what they earned",
             providers,
             "providers --days 30 --credit-value 0.002");
    costs->add_option("--days", options_.days, "today and the days before it, 1-90; default 7")
        ->check(CLI::Range(1, kProviderDaysMax));
    costs->add_option("--credit-value",
                      options_.credit_value,
                      "what a credit brings in, in the currency of the prices of providers; "
                      "margins need it");
  }

  // What operators do by the operations port, too.
  void add_service_commands() {
    const auto on_id = [](const Options& o) { return Subject{o.id}; };
    const auto on_breaker = [](const Options& o) {
      return Subject{o.id, "seconds=" + std::to_string(o.seconds)};
    };
    CLI::App* worker = group("worker", "end workers without losing anything");
    CLI::App* drain = leaf(worker,
                           "drain",
                           "have a worker take nothing more, finish what it has and end",
                           worker_drain,
                           "worker drain wrk_01j... --reason \"its host goes\"",
                           on_id);
    drain->add_option("ID", options_.id, "the worker's id, as queue shows it")->required();
    reason(drain);
    CLI::App* provider = group("provider", "leave a provider alone, or do not");
    const auto breaker = [&](const char* name, const char* what, Command run, Describe on) {
      CLI::App* command =
          leaf(provider,
               name,
               what,
               run,
               (std::string("provider ") + name + " primary --reason \"ticket 17\"").c_str(),
               on);
      command->add_option("NAME", options_.id, "the provider's name, as queue shows it")
          ->required();
      reason(command);
      return command;
    };
    for (CLI::App* command :
         {breaker("open", "no calls to it, whatever they come to", provider_open, on_breaker),
          breaker(
              "close", "calls to it pass, whatever they come to", provider_close, on_breaker)}) {
      command
          ->add_option("--seconds",
                       options_.seconds,
                       "for how long, 1-86400; default 600: then its breaker is its own again")
          ->check(CLI::Range(1, static_cast<int>(kOverrideMax.count())));
    }
    breaker("clear", "its breaker is its own again", provider_clear, on_id);
    CLI::App* intake = group("intake", "take new generations in, or refuse them");
    reason(leaf(intake,
                "pause",
                "refuse creations (503); all that was accepted goes on",
                intake_pause,
                "intake pause --reason \"the database moves\"",
                on_id));
    reason(leaf(intake,
                "resume",
                "take creations again",
                intake_resume,
                "intake resume --reason \"it has moved\"",
                on_id));
    leaf(intake,
         "show",
         "whether it is paused, since when, by whom and why",
         intake_show,
         "intake show");
  }

  void add_voice_commands() {
    CLI::App* voices = group("voices", "what the preset voices sound like");
    CLI::App* render = leaf(voices,
                            "render",
                            "have a short sample made of each voice that has none, as an account "
                            "of the service's own, and keep it in VOICE_PREVIEWS_DIR; needs the "
                            "API and a worker. May be interrupted and repeated",
                            voices_render,
                            "voices render",
                            [](const Options& o) {
                              return Subject{std::string(kPreviewUser), o.again ? "again" : ""};
                            });
    render->add_flag("--again", options_.again, "of those that have one, too");
    render->add_option("--url",
                       options_.url,
                       "where this machine reaches the API, without /api/v1; default: PUBLIC_URL");
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
                 const char* example,
                 Describe describe = nullptr) {
    CLI::App* out = parent->add_subcommand(name, description);
    if (describe != nullptr) {
      out->add_option(
             "--as", options_.as, "who does this, for the record; default: the user of this system")
          ->check(not_empty());
      out->add_option("--reason", options_.reason, "why, for the record")->check(not_empty());
    }
    const std::string action =
        (parent == &app_ ? "" : parent->get_name() + " ") + std::string(name);
    out->add_flag("--json", options_.json, "answer with one JSON object");
    out->footer(std::string("Example:\n  audio-api admin ") + example);
    out->callback([this, run, describe, action] {
      command_ = run;
      describe_ = describe;
      action_ = action;
    });
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
  void limit(CLI::App* command) {
    command->add_option("--limit", options_.limit, "at most so many, 1-1000; default 50")
        ->check(CLI::Range(1, 1000));
  }
  CLI::Option* message_id(CLI::App* command) {
    return command->add_option("ID", options_.id, "the message's id, as dead list shows it");
  }
  // Without one it is not done.
  static void reason(CLI::App* command) { command->get_option("--reason")->required(); }
  void id(CLI::App* command) {
    command->add_option("ID", options_.id, "the task's id (aud_...)")->required();
  }

  CLI::App app_;
  Options options_;
  Command command_ = nullptr;
  Describe describe_ = nullptr;
  std::string action_;
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
    const auto note = line.note();
    Doors doors(*url, note ? &*note : nullptr);
    const auto answer = line.command()(doors, line.options());
    if (!answer) {
      const auto& [why, result] = answer.error();
      const bool noted = static_cast<bool>(doors.operators.note_result(result, why));
      return fail(noted ? why : why + " (and this could not be recorded)", json, err);
    }
    if (json) {
      out << answer->json << "\n";
    } else if (answer->text) {
      out << *answer->text;
    } else {
      out << for_people(answer->json);
      if (!answer->note.empty()) {
        out << "\n" << answer->note << "\n";
      }
    }
    if (!out.flush()) {
      return fail(std::string(note ? "done, but the answer" : "the answer") +
                      " could not be written to standard output" +
                      (answer->unseen.empty() ? "" : "; " + answer->unseen),
                  json,
                  err);
    }
    return answer->code.value_or(answer->ok ? 0 : 1);
  } catch (const std::exception& e) {
    return fail(e.what(), json, err);
  }
}

}  // namespace audiogen::api
