#include "api/admin/dead.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/admin/output.h"
#include "common/base/crypto.h"
#include "common/base/utf8.h"
#include "common/queue/dead_letters.h"

namespace audiogen::api {
namespace {

using queue::DeadLetter;
using queue::DeadLetters;

// Among so many of the oldest one is looked for.
constexpr std::size_t kLookedAt = 10'000;

Failure away(const Error& error) {
  return {error.message, store::ActionResult::kFailed};
}

bool is_text(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_sequence_length(bytes);
    if (length == 0) {
      return false;
    }
    bytes.remove_prefix(length);
  }
  return true;
}

// Of what others wrote, and of any length.
std::string clean(std::string_view text) {
  constexpr std::size_t kMax = 1'000;
  return clip_utf8(text, kMax);
}

void summary(Json& json, const DeadLetter& letter) {
  json.member("id", letter.id)
      .member("died_at", queue::died_at(letter))
      .member("queue", clean(letter.header("x-death.0.queue")))
      .member("bytes", letter.bytes)
      .member("why", queue::why_dead(letter));
}

// In full: as text where it is text.
void body(Json& json, const DeadLetter& letter) {
  const bool text = is_text(letter.body);
  const auto bytes = [&] {
    return std::span(reinterpret_cast<const std::uint8_t*>(letter.body.data()), letter.body.size());
  };
  json.member("whole", letter.body.size() == letter.bytes)
      .member("body", text ? std::optional<std::string_view>(letter.body) : std::nullopt)
      .member("body_hex", text ? std::nullopt : std::optional(to_hex(bytes())));
}

void headers(Json& json, const DeadLetter& letter) {
  json.objects("headers", letter.headers, [&](const auto& header) {
    json.member("name", clean(header.first)).member("value", clean(header.second));
  });
}

Result<DeadLetters, Failure> open() {
  const auto broker = load_amqp_url();
  if (!broker) {
    return Failure{broker.error().message};
  }
  auto letters = DeadLetters::open(*broker);
  return letters ? Result<DeadLetters, Failure>(*std::move(letters)) : away(letters.error());
}

// The oldest one with this id; nullopt: it is not among the first kLookedAt.
Result<std::optional<DeadLetter>, Failure> find(DeadLetters& letters, const std::string& id) {
  for (std::size_t i = 0; i < kLookedAt; ++i) {
    auto letter = letters.next();
    if (!letter) {
      return away(letter.error());
    }
    if (!*letter || (*letter)->id == id) {
      return *std::move(letter);
    }
  }
  return std::optional<DeadLetter>();
}

Failure not_there(const std::string& id) {
  return {"there is no dead message " + id + " among the oldest " + std::to_string(kLookedAt)};
}

}  // namespace

Reply dead_list(Doors&, const Options& o) {
  auto letters = open();
  if (!letters) {
    return letters.error();
  }
  std::vector<DeadLetter> found;
  bool whole = false;
  while (!whole && found.size() < o.limit) {
    auto letter = letters->next();
    if (!letter) {
      return away(letter.error());
    }
    whole = !*letter;
    if (*letter) {
      found.push_back(**std::move(letter));
      found.back().body.resize(std::min(found.back().body.size(), queue::kMessageBytesMax));
    }
  }
  if (const auto back = letters->put_back(); !back) {
    return away(back.error());
  }
  Json json;
  json.member("whole", whole).objects("messages", found, [&](const DeadLetter& letter) {
    summary(json, letter);
  });
  return Answer{json.finish(), whole ? "" : "There may be more: these are the oldest (--limit)."};
}

Reply dead_show(Doors&, const Options& o) {
  auto letters = open();
  if (!letters) {
    return letters.error();
  }
  const auto letter = find(*letters, o.id);
  const auto back = letters->put_back();
  if (!letter) {
    return letter.error();
  }
  if (!*letter) {
    return not_there(o.id);
  }
  if (!back) {
    return away(back.error());
  }
  Json json;
  summary(json, **letter);
  body(json, **letter);
  headers(json, **letter);
  return Answer{json.finish()};
}

Reply dead_drop(Doors& doors, const Options& o) {
  if (o.all != o.id.empty()) {
    return Failure{"say which: the id of a message, as dead list shows it, or --all"};
  }
  auto letters = open();
  if (!letters) {
    return letters.error();
  }
  std::vector<DeadLetter> found;
  if (o.all) {
    while (found.size() < o.limit) {
      auto letter = letters->next();
      if (!letter) {
        return away(letter.error());
      }
      if (!*letter) {
        break;
      }
      found.push_back(**std::move(letter));
    }
  } else {
    auto letter = find(*letters, o.id);
    if (!letter) {
      return letter.error();
    }
    if (!*letter) {
      return not_there(o.id);
    }
    found.push_back(**std::move(letter));
  }
  std::vector<std::uint64_t> tags;
  std::string ids;
  for (const DeadLetter& letter : found) {
    tags.push_back(letter.tag);
    ids += (ids.empty() ? "" : " ") + letter.id;
  }
  // The record first: nothing goes without one. Should the broker go away now, it may say too much.
  const auto noted = doors.operators.note_result(
      store::ActionResult::kDone, std::to_string(found.size()) + " messages: " + ids);
  if (!noted) {
    return failure(noted.error());
  }
  const auto dropped = letters->drop(tags);
  const auto back = dropped ? letters->put_back() : dropped;
  if (!back) {
    return Failure{back.error().message + "; some of them may be there still (dead list)",
                   store::ActionResult::kFailed};
  }
  Json json;
  json.member("dropped", found.size()).objects("messages", found, [&](const DeadLetter& letter) {
    summary(json, letter);
    body(json, letter);
  });
  return Answer{json.finish()};
}

}  // namespace audiogen::api
