#include "api/wire.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/ids.h"

namespace audiogen::api {
namespace {

constexpr std::string_view kRequestIdHeader = "x-request-id";

// RFC 8259 section 7. `text` is valid UTF-8.
void append_string(std::string& out, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto plain = [](char c) {
    return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
  };
  out += '"';
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), plain);
    out.append(text.begin(), end);
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    if (!text.empty()) {
      const auto byte = static_cast<unsigned char>(text.front());
      if (byte < 0x20) {
        out += "\\u00";
        out += kDigits[byte >> 4U];
        out += kDigits[byte & 0xFU];
      } else {
        out += '\\';
        out += text.front();
      }
      text.remove_prefix(1);
    }
  }
  out += '"';
}

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out += '"';
  out += name;
  out += "\":";
  append_string(out, text);
}

void append_output(std::string& out, const TaskView& task, const WireNames& names) {
  out += "{\"url\":";
  std::string url = names.cdn_url + "/" + task.output_key;
  if (names.links) {
    url += names.links->query(
        task.output_key,
        std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  }
  append_string(out, url);
  out += ",\"duration_seconds\":";
  out += format_seconds(task.duration_ms);
  out += ',';
  append_member(out, "format", format_name(task.output_format));
  if (task.output_deleted_at) {
    out += ',';
    append_member(out, "deleted_at", format_iso(*task.output_deleted_at));
  } else if (names.retention.count() > 0) {
    out += ',';
    append_member(out, "expires_at", format_iso(task.created_at + names.retention));
  }
  out += '}';
}

void append_failure(std::string& out, const TaskView& task) {
  const FailureCode code = task.failure.value_or(FailureCode::kInternalError);
  out += '{';
  append_member(out, "code", failure_code_name(code));
  out += ',';
  append_member(
      out, "message", task.failure_message.empty() ? failure_message(code) : task.failure_message);
  out += failure_retriable(code) ? ",\"retriable\":true}" : ",\"retriable\":false}";
}

std::string error_body(std::string_view code,
                       std::string_view message,
                       std::string_view request_id) {
  std::string out;
  out.reserve(64 + code.size() + message.size() + request_id.size());
  out += "{\"error\":{";
  append_member(out, "code", code);
  out += ',';
  append_member(out, "message", message);
  out += ',';
  append_member(out, "request_id", request_id);
  out += "}}";
  return out;
}

http::Response error_shell(int status, std::string body, std::string_view request_id) {
  http::Response response;
  response.status = status;
  response.headers.reserve(kHeadersUsual);
  response.headers += "Content-Type: application/json\r\nCache-Control: no-store\r\n";
  append_header(response.headers, "X-Request-Id", request_id);
  response.body = std::move(body);
  return response;
}

}  // namespace

std::string render_task(const TaskView& task, const WireNames& names) {
  const bool succeeded = task.state == TaskState::kSucceeded;
  std::string out;
  out.reserve(512);
  out += '{';
  append_member(out, "id", task.id.text());
  out += ",\"object\":\"audio.generation\",";
  append_member(out, "model", names.model);
  out += ',';
  append_member(out, "status", public_status(task.state, task.claims));
  out += ',';
  append_member(out, "created_at", format_iso(task.created_at));
  out += ',';
  append_member(out, "updated_at", format_iso(task.updated_at));
  out += ",\"output\":";
  if (succeeded) {
    append_output(out, task, names);
  } else {
    out += "null";
  }
  out += ",\"usage\":";
  if (succeeded) {
    out += "{\"credits\":" + format_credits(task.charged.value_or(Units{})) + "}";
  } else {
    out += "null";
  }
  out += ",\"billing\":{\"reserved_credits\":" + format_credits(task.held);
  if (task.charged) {
    out += ",\"charged_credits\":" + format_credits(*task.charged);
    out += ",\"returned_credits\":" + format_credits(task.held - *task.charged);
  }
  out += "},\"error\":";
  if (task.state == TaskState::kFailed) {
    append_failure(out, task);
  } else {
    out += "null";
  }
  out += '}';
  return out;
}

std::string render_error(const ApiError& error, std::string_view request_id) {
  return error_body(error_name(error.code), error.message, request_id);
}

http::Response error_response(const ApiError& error, std::string_view request_id) {
  http::Response response =
      error_shell(http_status(error.code), render_error(error, request_id), request_id);
  if (error.retry_after) {
    append_header(response.headers, "Retry-After", std::to_string(error.retry_after->count()));
  }
  if (error.code == ApiErrorCode::kInvalidApiKey) {
    response.headers += "WWW-Authenticate: Bearer\r\n";
  }
  return response;
}

http::Response link_expired_response(std::string_view request_id) {
  return error_shell(
      403,
      error_body("link_expired",
                 "This link has expired. Reading the generation again gives a new one.",
                 request_id),
      request_id);
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

std::string request_id_of(const http::Request* request) {
  if (request != nullptr && request->header_count(kRequestIdHeader) == 1) {
    const std::string_view given = request->header(kRequestIdHeader);
    const bool well_formed =
        !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '.' || c == '_' || c == '-';
        });
    if (well_formed) {
      return std::string(given);
    }
  }
  return "req_" + encode_base32(new_uuid());
}

}  // namespace audiogen::api
