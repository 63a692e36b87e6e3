#include "common/domain/mail.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/base/ascii.h"
#include "common/base/mail_address.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

constexpr std::size_t kLineMax = 998;  // RFC 5322 section 2.1.1, without its CRLF.

// RFC 5322 section 3.3; the names are its own and no locale's.
std::string date_time(Instant at) {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(at - day));
  char out[64];
  std::snprintf(out,
                sizeof out,
                "%s, %02u %s %04d %02d:%02d:%02d +0000",
                kDays.at(std::chrono::weekday(day).c_encoding()),
                static_cast<unsigned>(date.day()),
                kMonths.at(static_cast<unsigned>(date.month()) - 1),
                static_cast<int>(date.year()),
                static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return out;
}

// `line`, which has no line break, as one or more lines that any server takes.
void append_line(std::string& out, std::string_view line) {
  do {
    for (const char c : line.substr(0, kLineMax)) {
      out += ascii::is_visible(c) || c == ' ' ? c : '?';
    }
    out += "\r\n";
    line.remove_prefix(std::min(kLineMax, line.size()));
  } while (!line.empty());
}

std::string minutes(std::chrono::minutes time) {
  return std::to_string(time.count());
}

std::string_view what_happened(Notice notice) {
  switch (notice) {
    case Notice::kPasswordSet:
      return "The password of your account was set. All other sessions have ended.";
    case Notice::kPasskeyAdded:
      return "A passkey was added to your account. It opens the account without the password.";
    case Notice::kManagingKeyMade:
      return "An API key of your account that may make other keys was made or changed.";
    case Notice::kMailChanged:
      return "The mail address of your account was changed. This one no longer belongs to it.";
    case Notice::kIssuerLinked:
      return "Somebody signed in to your account by an issuer for the first time. Its word opens "
             "the\n"
             "account from now on.";
    case Notice::kIssuerUnlinked:
      return "The issuer by which you could sign in to your account was unlinked. Its word opens "
             "the\n"
             "account no more.";
    case Notice::kAccountDeleted:
      break;
  }
  return "Your account was deleted. Its keys and sessions have ended, and what it has made is\n"
         "being erased.";
}

std::string_view subject_of(Notice notice) {
  switch (notice) {
    case Notice::kPasswordSet:
      return "Your password was set";
    case Notice::kPasskeyAdded:
      return "A passkey was added to your account";
    case Notice::kManagingKeyMade:
      return "An API key that manages your account";
    case Notice::kMailChanged:
      return "Your mail address was changed";
    case Notice::kIssuerLinked:
      return "An issuer may sign in to your account";
    case Notice::kIssuerUnlinked:
      return "An issuer was unlinked from your account";
    case Notice::kAccountDeleted:
      break;
  }
  return "Your account was deleted";
}

}  // namespace

MailText sign_in_mail(std::string_view link) {
  return {"Your sign-in link",
          "Somebody, you we hope, wants to sign in with this mail address:\n\n" +
              std::string(link) + "\n\nThe link works once, within " + minutes(kLoginLinkLife) +
              " minutes. Whoever has it can sign in as you, so\ngive it to nobody. If it was not "
              "you who asked for it, there is nothing to do.\n"};
}

MailText sign_up_mail(std::string_view link) {
  return {"Your new account",
          "Somebody, you we hope, wants an account with this mail address:\n\n" +
              std::string(link) + "\n\nThe link works once, within " + minutes(kLoginLinkLife) +
              " minutes, and makes the account. If it was\nnot you who asked for it, there is "
              "nothing to do: then there will be none.\n"};
}

MailText mail_change_mail(std::string_view site, std::string_view link) {
  return {"Confirm your mail address",
          "Somebody who is signed in at " + std::string(site) +
              " wants to have this mail address:\n\n" + std::string(link) +
              "\n\nThe link works once, within " + minutes(kMailChangeLife) +
              " minutes, for that person alone. If it was not you,\nthere is nothing to do.\n"};
}

MailText notice_mail(Notice notice, std::string_view site, Instant at) {
  return {std::string(subject_of(notice)),
          std::string(what_happened(notice)) + "\n\nAt: " + std::string(site) +
              "\nTime: " + format_iso(at) +
              "\n\nIf it was not you, sign in, end the sessions that you do not know, delete the "
              "keys\nthat you do not know, and set a password. If you cannot sign in any more, "
              "write to\nwhoever runs the service.\n"};
}

std::string render_mail(const MailHead& head, const MailText& text) {
  std::string out;
  append_line(out, "Date: " + date_time(head.at));
  append_line(out, "From: <" + std::string(head.from) + ">");
  append_line(out, "To: <" + std::string(head.to) + ">");
  append_line(
      out,
      "Message-ID: <" + std::string(head.unique) + "@" + std::string(mail_domain(head.from)) + ">");
  append_line(out, "Subject: " + text.subject);
  append_line(out, "MIME-Version: 1.0");
  append_line(out, "Content-Type: text/plain; charset=us-ascii");
  append_line(out, "Content-Transfer-Encoding: 7bit");
  append_line(out, "Auto-Submitted: auto-generated");  // RFC 3834: no answer from a holiday.
  out += "\r\n";
  std::string_view left = text.body;
  while (!left.empty()) {
    const auto end = std::min(left.find('\n'), left.size());
    append_line(out, left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return out;
}

}  // namespace audiogen
