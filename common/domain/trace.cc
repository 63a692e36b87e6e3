#include "common/domain/trace.h"

#include <algorithm>

#include "common/base/crypto.h"

namespace audiogen {
namespace {

// "00-" trace "-" span "-" flags.
constexpr std::size_t kTraceAt = 3, kSpanAt = 36, kTraceFlagsAt = 53, kSize = 55;

int hex_value(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// False unless all of `text` is lower-case hexadecimal, of the size of `out`.
bool read_hex(std::string_view text, std::span<std::uint8_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

bool is_zero(std::span<const std::uint8_t> number) {
  return std::all_of(number.begin(), number.end(), [](std::uint8_t byte) { return byte == 0; });
}

bool is_one(const TraceSpan& span) {
  return !is_zero(span.trace) && !is_zero(span.span);
}

}  // namespace

std::optional<TraceSpan> parse_traceparent(std::string_view text) {
  if (text.size() < kSize || text[kTraceAt - 1] != '-' || text[kSpanAt - 1] != '-' ||
      text[kTraceFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  std::array<std::uint8_t, 1> version{}, flags{};
  TraceSpan out;
  if (!read_hex(text.substr(0), version) || !read_hex(text.substr(kTraceAt), out.trace) ||
      !read_hex(text.substr(kSpanAt), out.span) || !read_hex(text.substr(kTraceFlagsAt), flags)) {
    return std::nullopt;
  }
  constexpr std::uint8_t kNoVersion = 0xFF;
  const bool later = version[0] != 0;
  const bool ends_well = later ? text.size() == kSize || text[kSize] == '-' : text.size() == kSize;
  if (version[0] == kNoVersion || !ends_well || !is_one(out)) {
    return std::nullopt;
  }
  out.flags = flags[0] & (TraceSpan::kSampled | TraceSpan::kRandom);
  return out;
}

std::string traceparent(const TraceSpan& span) {
  return "00-" + to_hex(span.trace) + "-" + to_hex(span.span) + "-" + to_hex({&span.flags, 1});
}

TraceSpan child_of(const TraceSpan& parent, const SpanNumber& dice) {
  TraceSpan out = parent;
  out.span = dice;
  return out;
}

TraceSpan new_trace(const TraceNumber& trace_dice, const SpanNumber& span_dice) {
  return {.trace = trace_dice, .span = span_dice, .flags = TraceSpan::kRandom};
}

std::array<std::uint8_t, TraceSpan::kBytes> pack(const TraceSpan& span) {
  std::array<std::uint8_t, TraceSpan::kBytes> out{};
  const auto end = std::copy(span.trace.begin(), span.trace.end(), out.begin());
  *std::copy(span.span.begin(), span.span.end(), end) = span.flags;
  return out;
}

std::optional<TraceSpan> unpack_trace_span(std::string_view bytes) {
  if (bytes.size() != TraceSpan::kBytes) {
    return std::nullopt;
  }
  TraceSpan out;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  for (std::size_t i = 0; i < out.trace.size(); ++i) {
    out.trace[i] = byte(i);
  }
  for (std::size_t i = 0; i < out.span.size(); ++i) {
    out.span[i] = byte(out.trace.size() + i);
  }
  out.flags = byte(TraceSpan::kBytes - 1);
  return is_one(out) ? std::optional(out) : std::nullopt;
}

std::array<log::Field, 3> about(TaskId task, const Trail& trail) {
  return {log::Field("request_id", trail.request_id),
          log::Field("task_id", task),
          log::Field("trace_id", trail.trace ? to_hex(trail.trace->trace) : std::string())};
}

}  // namespace audiogen
