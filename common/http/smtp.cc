#include "common/http/smtp.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <curl/curl.h>

#include "common/base/check.h"
#include "common/base/mail_address.h"
#include "common/http/curl_memory.h"
#include "common/http/outgoing.h"

namespace audiogen::http {
namespace {

struct Message {
  std::string_view left;
  bool begun = false;  // The server has said that it takes one.
};

std::size_t take_some(char* to, std::size_t size, std::size_t count, void* of) {
  auto* const message = static_cast<Message*>(of);
  message->begun = true;
  const std::size_t bytes = std::min(size * count, message->left.size());
  std::memcpy(to, message->left.data(), bytes);
  message->left.remove_prefix(bytes);
  return bytes;
}

int asks_on(void* stopped, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const std::function<bool()>*>(stopped))() ? 1 : 0;
}

// By what the server said last, where that is about this message: to MAIL, RCPT and DATA libcurl
// calls it CURLE_SEND_ERROR, to the text itself something else. A greeting may be a refusal, too.
MailFault fault_of(CURLcode code, long said, bool begun) {
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return MailFault::kStopped;
  }
  const bool of_message = code == CURLE_SEND_ERROR ||
                          (begun && (code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_RECV_ERROR));
  return of_message && said / 100 == 5   ? MailFault::kRefused
         : of_message && said / 100 == 4 ? MailFault::kLater
                                         : MailFault::kUnreachable;
}

template <class T>
void set(CURL* call, CURLoption option, T value) {
  AG_CHECK(curl_easy_setopt(call, option, value) == CURLE_OK);
}

}  // namespace

Result<Done, MailError> send_mail(const SmtpUrl& server,
                                  const std::string& from,
                                  const std::string& to,
                                  std::string_view message,
                                  const SmtpPatience& patience,
                                  const std::function<bool()>& stopped) {
  AG_CHECK(is_mail_address(from) && is_mail_address(to));
  init_curl();
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> owned(curl_easy_init(),
                                                                  curl_easy_cleanup);
  CURL* const call = owned.get();
  AG_CHECK(call != nullptr);
  set_outgoing_rules(call);
  set(call, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
  set(call, CURLOPT_PROXY, "");  // Proxies are for HTTP; mail has a relay of its own.
  // What it greets with is the domain that the mail is from, and nothing of this machine.
  const std::string url = std::string(server.tls_first ? "smtps" : "smtp") + "://" + server.host +
                          ":" + std::to_string(server.port) + "/" + std::string(mail_domain(from));
  set(call, CURLOPT_URL, url.c_str());
  set(call, CURLOPT_USE_SSL, static_cast<long>(server.plain ? CURLUSESSL_NONE : CURLUSESSL_ALL));
  set(call, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!server.ca.empty()) {
    set(call, CURLOPT_CAINFO, server.ca.c_str());
    set(call, CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  if (!server.user.empty()) {
    set(call, CURLOPT_USERNAME, server.user.c_str());
    set(call, CURLOPT_PASSWORD, server.password.c_str());
  }
  set(call, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(patience.connect.count()));
  set(call, CURLOPT_TIMEOUT_MS, static_cast<long>(patience.total.count()));
  set(call, CURLOPT_MAIL_FROM, ("<" + from + ">").c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> recipients(
      curl_slist_append(nullptr, ("<" + to + ">").c_str()), curl_slist_free_all);
  AG_CHECK(recipients != nullptr);
  set(call, CURLOPT_MAIL_RCPT, recipients.get());
  set(call, CURLOPT_UPLOAD, 1L);
  set(call, CURLOPT_READFUNCTION, take_some);
  Message text{.left = message};
  set(call, CURLOPT_READDATA, static_cast<void*>(&text));
  set(call, CURLOPT_NOPROGRESS, 0L);
  set(call, CURLOPT_XFERINFOFUNCTION, asks_on);
  set(call,
      CURLOPT_XFERINFODATA,
      static_cast<void*>(const_cast<std::function<bool()>*>(&stopped)));  // Only called.
  std::array<char, CURL_ERROR_SIZE> why{};
  set(call, CURLOPT_ERRORBUFFER, why.data());
  const CURLcode code = curl_easy_perform(call);
  if (code == CURLE_OK) {
    return Done{};
  }
  long said = 0;
  set(call, CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  static_cast<void>(curl_easy_getinfo(call, CURLINFO_RESPONSE_CODE, &said));
  return MailError{.fault = fault_of(code, said, text.begun),
                   .detail = why[0] != '\0' ? why.data() : curl_easy_strerror(code)};
}

}  // namespace audiogen::http
