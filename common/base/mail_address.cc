#include "common/base/mail_address.h"

#include <algorithm>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

constexpr std::size_t kLocalPartMax = 64, kLabelMax = 63;  // RFC 5321 4.5.3.1.1, RFC 1035 2.3.4.

bool is_atom(std::string_view text) {
  constexpr std::string_view kSigns = "!#$%&'*+-/=?^_`{|}~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return ascii::is_alnum(c) || kSigns.find(c) != std::string_view::npos;
  });
}

bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= kLabelMax && text.front() != '-' && text.back() != '-' &&
         std::all_of(
             text.begin(), text.end(), [](char c) { return ascii::is_alnum(c) || c == '-'; });
}

// Whether `text` is at least one piece, with dots between them.
bool is_dotted(std::string_view text, bool (*is_piece)(std::string_view)) {
  for (;;) {
    const auto dot = text.find('.');
    if (!is_piece(text.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(dot + 1);
  }
}

}  // namespace

bool is_mail_address(std::string_view text) {
  const auto at = text.find('@');
  return text.size() <= kMailAddressMax && at != std::string_view::npos && at <= kLocalPartMax &&
         is_dotted(text.substr(0, at), is_atom) && is_dotted(text.substr(at + 1), is_label);
}

std::string inbox_of(std::string_view address) {
  const auto at = std::min(address.find('@'), address.size());
  std::string local(address.substr(0, std::min(address.find('+'), at)));
  std::string_view domain = address.substr(at);
  if (domain == "@gmail.com" || domain == "@googlemail.com") {
    std::erase(local, '.');
    domain = "@gmail.com";
  }
  return local + std::string(domain);
}

std::string_view mail_domain(std::string_view address) {
  return address.substr(std::min(address.size(), address.find('@') + 1));
}

}  // namespace audiogen
