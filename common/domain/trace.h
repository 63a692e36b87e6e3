// W3C Trace Context: the identifiers by which a request is followed over the systems of others,
// its client's and the providers'. Pure: whoever makes a trace or a span brings the random bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/log.h"

namespace audiogen {

using TraceNumber = std::array<std::uint8_t, 16>;
using SpanNumber = std::array<std::uint8_t, 8>;

// A span of a trace. Neither number is all zero.
struct TraceSpan {
  TraceNumber trace{};
  SpanNumber span{};
  std::uint8_t flags = 0;  // kSampled and kRandom, nothing else.

  static constexpr std::uint8_t kSampled = 0x01;  // Whoever called may have recorded it.
  static constexpr std::uint8_t kRandom = 0x02;   // The last seven bytes of `trace` are random.
  static constexpr std::size_t kBytes = sizeof(TraceNumber) + sizeof(SpanNumber) + 1;

  friend bool operator==(const TraceSpan&, const TraceSpan&) = default;
};

// Reads a `traceparent`: exactly what version 00 allows, and of a later version the part that it
// must have in common with that. Nullopt for anything else, as the standard wants it: whoever sent
// it is not told, and a new trace begins. Flags that are not known are dropped.
std::optional<TraceSpan> parse_traceparent(std::string_view text);
// The reverse, as version 00.
std::string traceparent(const TraceSpan& span);

// A span within the trace of `parent`; `dice` are random and not all zero.
TraceSpan child_of(const TraceSpan& parent, const SpanNumber& dice);
// The first span of a new trace, which nobody has said to record.
TraceSpan new_trace(const TraceNumber& trace_dice, const SpanNumber& span_dice);

// As it is stored, and back; nullopt: that is none.
std::array<std::uint8_t, TraceSpan::kBytes> pack(const TraceSpan& span);
std::optional<TraceSpan> unpack_trace_span(std::string_view bytes);

// By what all that is said of one task, in any program, is found again.
struct Trail {
  std::string request_id{};          // Of the request that created it; empty: not known.
  std::optional<TraceSpan> trace{};  // The task's own span. Nullopt: of a release before traces.

  friend bool operator==(const Trail&, const Trail&) = default;
};
// The members with which each log line about the task begins.
std::array<log::Field, 3> about(TaskId task, const Trail& trail);

}  // namespace audiogen
