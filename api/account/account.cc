#include "api/account/account.h"

#include <utility>

#include "api/account/ledger_entry.h"
#include "api/console/mails.h"
#include "api/generations/event_stream.h"
#include "api/server/answers_of_store.h"
#include "api/server/page.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/domain/key_request.h"

namespace audiogen::api {
namespace {

void write_rate(JsonWriter& json, std::string_view name, const RatePolicy& policy) {
  json.key(name)
      .begin_object()
      .member("per_minute", policy.per_minute)
      .member("burst", policy.burst)
      .end_object();
}

std::string render_account(const store::User& user,
                           const RateLimiter& limiter,
                           const Config& config) {
  const bool paid = user.plan == store::Plan::kPaid;
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .member("object", "account")
      .member("id", user.id)
      .member("email", std::string_view(user.email))
      .member("plan", paid ? "paid" : "free")
      .member("api_access", user.api_access);
  json.key("credits").begin_object();
  write_credits(json, "available", user.balance.available);
  write_credits(json, "reserved", user.balance.held);
  json.end_object().key("limits").begin_object().key("requests").begin_object();
  write_rate(json, "create", limiter.policy(RateClass::kCreate));
  write_rate(json, "read", limiter.policy(RateClass::kRead));
  write_rate(json, "manage", limiter.policy(RateClass::kManage));
  json.end_object()
      .member("open_generations", config.plan_of(paid).open_tasks)
      .member("keys", kKeysMax)
      .member("streams", kStreamsPerKey)
      .end_object()
      .end_object();
  return out;
}

// Of an object that is begun and ended elsewhere.
void write_key_members(JsonWriter& json, const store::KeyInfo& key) {
  json.member("id", key.id)
      .member("name", std::string_view(key.name))
      .member("prefix", std::string_view(key.prefix))
      .member("mode", "live")
      .key("scopes")
      .begin_array();
  for (const Scope scope : kScopes) {
    if (key.scopes.has(scope)) {
      json.value(scope_name(scope));
    }
  }
  json.end_array()
      .member("expires_at", key.expires_at)
      .member("previous_key_expires_at", key.previous_until)
      .key("spend_limit");
  if (key.spend_limit) {
    json.begin_object();
    write_credits(json, "credits", key.spend_limit->amount);
    json.member("period", period_name(key.spend_limit->period)).end_object();
  } else {
    json.null();
  }
  if (key.spent) {
    write_credits(json, "spent_credits", *key.spent);
  } else {
    json.key("spent_credits").null();
  }
  json.member("created_at", key.created_at).member("last_used_at", key.last_used_at);
}

void write_key(JsonWriter& json, const store::KeyInfo& key) {
  json.begin_object();
  write_key_members(json, key);
  json.end_object();
}

// With its secret, which is shown this once.
std::string render_new_secret(const store::KeyInfo& info, const NewApiKey& key) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write_key_members(json, info);
  json.member("key", std::string_view(key.text)).end_object();
  return out;
}

// The page that a list without filters is asked for.
template <class Position>
Result<PageRequest<Position>, ApiError> read_page_of(const Call& call, std::uint8_t version) {
  const auto query = Query::parse(call.request().query, {"limit", "cursor"});
  if (!query) {
    return query.error();
  }
  return read_page<Position>(*query, version);
}

store::Asker asker_of(const store::KeyRecord& caller) {
  return caller.session ? store::Asker(*caller.session) : store::Asker(caller.id);
}

// Who changed which key, for those who look for it later. Never its text.
void note_change(const char* what, const Call& call, KeyId key) {
  const auto& session = call.key().session;
  log::info(
      what,
      {{"request_id", call.request_id()},
       {"user_id", call.key().user},
       {"key_id", key},
       session ? log::Field("by_session_id", *session) : log::Field("by_key_id", call.key().id)});
}

}  // namespace

Account::Account(const Config& config, const RateLimiter& limiter, DoorsPool& pool, Mails* mails)
    : config_(config), limiter_(limiter), pool_(pool), mails_(mails) {}

void Account::tell_of(const Call& call, Scopes scopes) const {
  if (mails_ != nullptr && scopes.has(Scope::kManage)) {
    mails_->tell(Notice::kManagingKeyMade, call.key().user);
  }
}

Handling Account::show(Call call) {
  const auto find = [user = call.key().user](StoreDoors& doors) {
    return doors.accounts.find(user);
  };
  auto outcome = co_await on_store(pool_, call.holder(), find);
  const auto user = told(std::move(outcome), call);
  if (!user) {
    call.fail(user.error());
    co_return;
  }
  call.answer(200, render_account(*user, limiter_, config_));
}

Handling Account::list_keys(Call call) {
  const auto asked = read_page_of<Uuid>(call, kKeyCursor);
  if (!asked) {
    call.fail(asked.error());
    co_return;
  }
  const auto read = [&](StoreDoors& doors) {
    const auto before = asked->before ? std::optional(KeyId{*asked->before}) : std::nullopt;
    return doors.keys.page(call.key().user, before, asked->limit);
  };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto page = told(std::move(outcome), call);
  if (!page) {
    call.fail(page.error());
    co_return;
  }
  std::optional<std::string> next;
  if (page->has_more) {
    next = encode_cursor(kKeyCursor, position_bytes(page->keys.back().id.uuid));
  }
  call.answer_tagged(render_page(page->keys, next, write_key));
}

Handling Account::create_key(Call call) {
  const auto terms = co_await call.json_body(Call::kBytesMax, parse_new_key);
  if (!terms) {
    call.fail(terms.error());
    co_return;
  }
  const NewApiKey key = make_api_key(config_.brand);
  const auto add = [&](StoreDoors& doors) {
    return doors.keys.add(call.key().user, *terms, key, asker_of(call.key()));
  };
  auto outcome = co_await on_store(pool_, call.holder(), add);
  const auto added = told(std::move(outcome), call);
  if (!added) {
    call.fail(added.error());
    co_return;
  }
  note_change("api key made", call, added->id);
  tell_of(call, added->scopes);
  call.answer(201, render_new_secret(*added, key));
}

Handling Account::change_key(Call call) {
  const auto body = co_await call.json_body();
  if (!body) {
    call.fail(body.error());
    co_return;
  }
  const auto id = KeyId::parse(call.parameter(0));
  if (!id) {
    call.fail(key_not_found());
    co_return;
  }
  const auto change = parse_key_change(*body);
  if (!change) {
    call.fail(change.error());
    co_return;
  }
  const auto write = [&](StoreDoors& doors) {
    return doors.keys.change(call.key().user, *id, *change, asker_of(call.key()));
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto changed = told(std::move(outcome), call);
  if (!changed) {
    call.fail(changed.error());
    co_return;
  }
  note_change("api key changed", call, *id);
  tell_of(call, change->scopes.value_or(Scopes()));
  std::string out;
  JsonWriter json(out);
  write_key(json, *changed);
  call.answer(200, std::move(out));
}

Handling Account::rotate_key(Call call) {
  const auto body = co_await call.json_body();
  if (!body) {
    call.fail(body.error());
    co_return;
  }
  const auto id = KeyId::parse(call.parameter(0));
  if (!id) {
    call.fail(key_not_found());
    co_return;
  }
  const auto overlap = parse_key_rotation(*body);
  if (!overlap) {
    call.fail(overlap.error());
    co_return;
  }
  const NewApiKey key = make_api_key(config_.brand);
  const auto write = [&](StoreDoors& doors) {
    return doors.keys.rotate(call.key().user, *id, *overlap, key, asker_of(call.key()));
  };
  auto outcome = co_await on_store(pool_, call.holder(), write);
  const auto rotated = told(std::move(outcome), call);
  if (!rotated) {
    ApiError error = rotated.error();
    error.param.reset();  // What is too much is the key's, and no member of this body.
    call.fail(error);
    co_return;
  }
  note_change("api key rotated", call, *id);
  tell_of(call, rotated->scopes);
  call.answer(200, render_new_secret(*rotated, key));
}

Handling Account::delete_key(Call call) {
  const auto id = KeyId::parse(call.parameter(0));
  if (!id) {
    call.fail(key_not_found());
    co_return;
  }
  const auto remove = [&](StoreDoors& doors) {
    return doors.keys.remove_own(call.key().user, *id, asker_of(call.key()));
  };
  auto outcome = co_await on_store(pool_, call.holder(), remove);
  const auto removed = told(std::move(outcome), call);
  if (!removed) {
    call.fail(removed.error());
    co_return;
  }
  note_change("api key deleted", call, *id);
  call.answer_nothing();
}

Handling Account::delete_current_key(Call call) {
  const auto remove = [&](StoreDoors& doors) {
    return doors.keys.remove_own(call.key().user, call.key().id);
  };
  auto outcome = co_await on_store(pool_, call.holder(), remove);
  const auto removed = told(std::move(outcome), call);
  if (!removed) {
    // It is not there: it was deleted a moment ago, and is only remembered.
    call.fail(removed.error().code == ApiErrorCode::kNotFound ? invalid_api_key()
                                                              : removed.error());
    co_return;
  }
  note_change("api key deleted", call, call.key().id);
  call.answer_nothing();
}

Handling Account::list_ledger(Call call) {
  const auto asked = read_page_of<std::uint64_t>(call, kLedgerCursor);
  if (!asked) {
    call.fail(asked.error());
    co_return;
  }
  const auto read = [&](StoreDoors& doors) {
    return doors.accounts.ledger(call.key().user, asked->before, asked->limit);
  };
  auto outcome = co_await on_store(pool_, call.holder(), read);
  const auto page = told(std::move(outcome), call);
  if (!page) {
    call.fail(page.error());
    co_return;
  }
  std::optional<std::string> next;
  if (page->has_more) {
    next = encode_cursor(kLedgerCursor, position_bytes(page->rows.back().entry.after.seq));
  }
  call.answer_tagged(render_page(page->rows, next, write_entry));
}

}  // namespace audiogen::api
