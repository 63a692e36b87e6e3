// What GET …/events says of a task: server-sent events (WHATWG HTML, 9.2), as text.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/generations/resource.h"
#include "common/domain/outlook.h"
#include "common/domain/task.h"

namespace audiogen::api {

// Streams of a key at a time.
inline constexpr std::size_t kStreamsPerKey = 20;
// After this a stream ends, and its client asks again: so no process is kept from stopping, and
// nobody's connection is forgotten.
inline constexpr std::chrono::minutes kStreamMax{5};
inline constexpr std::chrono::seconds kProgressEvery{2}, kCommentEvery{15};
// How often it is asked, at the least, whether the key, or the session, by which it came still
// works; up to a quarter earlier, so that streams that began together do not all ask together.
inline constexpr std::chrono::milliseconds kKeyEvery{1'000};

// The beginning of a stream: how long a client waits before it asks again.
inline constexpr std::string_view kStreamBegin = "retry: 3000\n\n";
// So that proxies and clients see that it lives.
inline constexpr std::string_view kStreamComment = ": still there\n\n";

// Tells the states of one task that a client can see from each other, and grows: the epoch, and one
// more once it is final, because the worker that ends a task does so under the epoch of its claim.
std::uint64_t event_id(const TaskView& task);

// `Last-Event-ID` as event_id() writes it; nullopt: none, or none of ours.
std::optional<std::uint64_t> parse_event_id(std::string_view header);

// With the id, and the generation resource.
std::string status_event(const TaskView& task, const WireNames& names);
// Without an id: it says nothing that lasts.
std::string progress_event(const Prospect& prospect);

// What one stream says, and when: whatever changed at once, how it goes every kProgressEvery, and
// that it lives after kCommentEvery of silence. Time is given to it. For one thread at a time.
class EventFeed {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using ProspectOf = std::function<Prospect(const TaskView&)>;

  // `seen`: the last event that the client has.
  EventFeed(std::optional<std::uint64_t> seen, Time now)
      : seen_(seen), spoke_(now), progress_at_(now) {}

  // What is to be sent now; empty: nothing. `prospect_of` is asked at most once, of an open task.
  std::string say(const TaskView& task,
                  const WireNames& names,
                  const ProspectOf& prospect_of,
                  Time now);
  // When there is something to say of a task that does not change.
  Time due_at() const { return std::min(progress_at_, spoke_ + kCommentEvery); }

 private:
  bool begun_ = false;
  std::optional<std::uint64_t> seen_;
  std::optional<Prospect> told_;
  Time spoke_, progress_at_;
};

}  // namespace audiogen::api
