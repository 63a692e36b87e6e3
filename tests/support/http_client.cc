#include "tests/support/http_client.h"

#include <memory>

#include <curl/curl.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base/ascii.h"

namespace audiogen::test {
namespace {

std::size_t append_body(char* data, std::size_t size, std::size_t count, void* out) {
  static_cast<std::string*>(out)->append(data, size * count);
  return size * count;
}

std::size_t append_header(char* data, std::size_t size, std::size_t count, void* out) {
  const std::string_view line(data, size * count);
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string name = ascii::lower(line.substr(0, colon));
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) {
      value.remove_prefix(1);
    }
    while (!value.empty() && (value.back() == '\r' || value.back() == '\n')) {
      value.remove_suffix(1);
    }
    static_cast<Reply*>(out)->headers.emplace(std::move(name), std::string(value));
  }
  return size * count;
}

// One handle per thread: connections are kept alive as a real client's.
CURL* handle() {
  thread_local const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  curl_easy_reset(curl.get());
  return curl.get();
}

}  // namespace

std::string Reply::header(const std::string& lower_case_name) const {
  const auto it = headers.find(lower_case_name);
  return it == headers.end() ? "" : it->second;
}

rapidjson::Document Reply::json() const {
  rapidjson::Document document;
  document.Parse(body.data(), body.size());
  if (document.HasParseError()) {
    document.SetNull();
  }
  return document;
}

std::string Reply::text(std::string_view path) const {
  const rapidjson::Document document = json();
  const rapidjson::Value* value = &document;
  while (!path.empty()) {
    const std::string name(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (!value->IsObject() || !value->HasMember(name.c_str())) {
      return "";
    }
    value = &(*value)[name.c_str()];
  }
  if (value->IsString()) {
    return {value->GetString(), value->GetStringLength()};
  }
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value->Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

Reply http(const std::string& method,
           const std::string& url,
           const std::vector<std::string>& headers,
           std::string_view body) {
  Reply reply;
  CURL* const curl = handle();
  curl_slist* lines = nullptr;
  for (const std::string& line : headers) {
    lines = curl_slist_append(lines, line.c_str());
  }
  lines = curl_slist_append(lines, "Expect:");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply.body);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, append_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &reply);
  if (method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (method == "POST" || !body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_TOTAL_TIME, &reply.seconds);
    reply.status = static_cast<int>(status);
  } else {
    reply.error = curl_easy_strerror(code);
  }
  curl_slist_free_all(lines);
  return reply;
}

}  // namespace audiogen::test
