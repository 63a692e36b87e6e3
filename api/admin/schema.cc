#include "api/admin/schema.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "api/admin/operator.h"
#include "common/base/config.h"
#include "common/store/action_note.h"
#include "common/store/migrate.h"
#include "common/store/session.h"

namespace audiogen::api {
namespace {

int fail(int code, const std::string& why) {
  std::fprintf(stderr, "audio-api: %s\n", why.c_str());
  return code;
}

void join(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

// After the change, because DDL commits by itself. What failed is recorded where that can be: the
// table may not be there yet, and the database may be what failed.
int record(const DatabaseUrl& url,
           store::AdminAction action,
           store::ActionResult result,
           const std::string& message = {}) {
  action.who = operating_user();
  try {
    store::Session session(url);
    store::ActionNote(std::move(action)).write(session, result, message);
  } catch (const store::DbError& e) {
    if (result == store::ActionResult::kDone) {
      return fail(1, std::string("done, but not recorded: ") + e.what());
    }
  }
  return 0;
}

}  // namespace

int run_migrate() {
  const auto url = load_database_url();
  if (!url) {
    return fail(2, url.error().message);
  }
  const auto applied = store::migrate(*url);
  store::AdminAction action{.action = "migrate", .target = url->database};
  if (!applied) {
    if (const auto look = store::look_at_schema(*url)) {
      action.detail = "at version " + std::to_string(look->complete);
    }
    record(*url, action, store::ActionResult::kFailed, applied.error().message);
    return fail(1, applied.error().message);
  }
  for (const int version : *applied) {
    char number[8];
    std::snprintf(number, sizeof number, "%04d", version);
    std::printf("applied migration %s\n", number);
    join(action.detail, number);
  }
  if (applied->empty()) {
    std::printf("nothing to do: this program knows the schema up to version %d\n",
                store::newest_migration());
    return 0;
  }
  return record(*url, action, store::ActionResult::kDone);
}

int run_grants(const std::vector<store::Grantee>& grantees, bool only_look) {
  // Nothing to do would look as though all had their rights.
  if (grantees.empty()) {
    return fail(2,
                "grants needs the accounts that get rights: --api, --worker, --admin; see --help");
  }
  const auto url = load_database_url();
  if (!url) {
    return fail(2, url.error().message);
  }
  std::vector<std::string> done;
  const auto todo = store::bring_grants(*url, grantees, only_look, &done);
  store::AdminAction action{.action = "grants"};
  for (const store::Grantee& grantee : grantees) {
    join(action.target, grantee.role + "=" + grantee.account);
  }
  if (!done.empty()) {
    // What is taken away is more than what is given, and what there is room for comes first.
    action.detail = std::to_string(done.size()) + (done.size() == 1 ? " statement" : " statements");
    for (const std::string_view kind : {"REVOKE", "GRANT"}) {
      for (const std::string& statement : done) {
        if (statement.starts_with(kind)) {
          join(action.detail, statement);
        }
      }
    }
  }
  if (!todo) {
    if (!only_look) {
      record(*url, action, store::ActionResult::kFailed, todo.error().message);
    }
    return fail(1, todo.error().message);
  }
  for (const std::string& statement : *todo) {
    std::printf("%s;\n", statement.c_str());
  }
  return only_look || todo->empty() ? 0 : record(*url, action, store::ActionResult::kDone);
}

}  // namespace audiogen::api
