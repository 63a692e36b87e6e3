#include "api/generations/history.h"

#include <algorithm>
#include <optional>

#include "api/generations/details.h"
#include "api/server/page.h"

namespace audiogen::api {
namespace {

// What a request asks for.
struct Asked {
  store::HistoryFilter filter;
  PageRequest<std::uint64_t> page;  // Positions are numbers of ledger rows of the user.
};

Result<Asked, ApiError> read(std::string_view text) {
  const auto query =
      Query::parse(text, {"status", "created_after", "created_before", "key", "limit", "cursor"});
  if (!query) {
    return query.error();
  }
  Asked out;
  const auto page = read_page<std::uint64_t>(*query, kHistoryCursor);
  if (!page) {
    return page.error();
  }
  out.page = *page;
  if (const auto status = query->text("status")) {
    if (std::find(kPublicStatuses.begin(), kPublicStatuses.end(), *status) ==
        kPublicStatuses.end()) {
      std::string message = "status must be one of ";
      for (const std::string_view name : kPublicStatuses) {
        message += std::string(name) + (name == kPublicStatuses.back() ? "." : ", ");
      }
      return invalid_parameter("status", std::move(message));
    }
    out.filter.status = *status;
  }
  if (const auto key = query->text("key")) {
    // Whosever it is, or was: his own tasks are all that anybody is shown.
    out.filter.key = KeyId::parse(*key);
    if (!out.filter.key) {
      return invalid_parameter("key", "key must be the id of an API key.");
    }
  }
  const auto after = query->time("created_after");
  if (!after) {
    return after.error();
  }
  const auto before = query->time("created_before");
  if (!before) {
    return before.error();
  }
  if (*after && *before && **before <= **after) {
    return invalid_parameter("created_before", "created_before must be later than created_after.");
  }
  out.filter.created_after = *after;
  out.filter.created_before = *before;
  return out;
}

}  // namespace

Handling History::list(Call call) {
  const auto asked = read(call.request().query);
  if (!asked) {
    call.fail(asked.error());
    co_return;
  }
  const auto look = [&](StoreDoors& doors) {
    return doors.history.list(
        call.key().user, asked->filter, asked->page.before, asked->page.limit);
  };
  const auto page = co_await on_store(pool_, call.holder(), look);
  if (!page || !*page) {
    call.fail(service_unavailable());
    co_return;
  }
  std::optional<std::string> next;
  if ((*page)->next) {
    next = encode_cursor(kHistoryCursor, position_bytes(*(*page)->next));
  }
  const auto write = [this](JsonWriter& json, const auto& item) {
    json.raw(render_listed(item.view, item.request, item.key, names_));
  };
  call.answer_tagged(render_page((*page)->items, next, write));
}

Handling History::details(Call call) {
  const auto id = TaskId::parse(call.parameter(0));
  if (!id) {
    call.fail(task_not_found());
    co_return;
  }
  const auto read = [&](StoreDoors& doors) { return doors.history.details(call.key().user, *id); };
  const auto found = co_await on_store(pool_, call.holder(), read);
  if (!found || !*found) {
    call.fail(service_unavailable());
    co_return;
  }
  const std::optional<store::TaskDetails>& details = **found;
  if (!details) {
    call.fail(task_not_found());
    co_return;
  }
  call.answer(200, render_details(*details, lookout_.of(details->view)));
}

Handling History::erase(Call call) {
  const auto id = TaskId::parse(call.parameter(0));
  if (!id) {
    call.fail(task_not_found());
    co_return;
  }
  const auto use = [&](StoreDoors& doors) { return doors.history.erase(call.key().user, *id); };
  const auto erased = co_await on_store(pool_, call.holder(), use);
  if (!erased || !*erased) {
    call.fail(service_unavailable());
    co_return;
  }
  switch (**erased) {
    case store::Erasure::kErased:
      call.answer_nothing();
      break;
    case store::Erasure::kNotFound:
      call.fail(task_not_found());
      break;
    case store::Erasure::kNotFinal:
      call.fail(not_final());
      break;
  }
}

}  // namespace audiogen::api
