// What we write to people by mail: plain text of our own, and nothing in its head that anybody else
// has written but an address.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/time.h"

namespace audiogen {

// How long a link works that shows that a new address is read; and one by which an operator invites
// somebody.
inline constexpr std::chrono::minutes kMailChangeLife{60};
inline constexpr std::chrono::days kInvitationLife{7};
// Mailed links that one address may have at a time, of a kind: whoever asks for a neighbour fills
// nobody's inbox.
inline constexpr std::uint64_t kMailedLinksMax = 5;

struct MailText {
  std::string subject;
  std::string body;  // Lines end with "\n".
};

// Of what its owner is told, because somebody else may have done it.
enum class Notice : std::uint8_t {
  kPasswordSet,
  kPasskeyAdded,
  kManagingKeyMade,  // Or it was given another secret, or the scope.
  kMailChanged,      // To the address that was.
  kIssuerLinked,
  kIssuerUnlinked,
  kAccountDeleted,
};

MailText sign_in_mail(std::string_view link);
// To an address without an account.
MailText sign_up_mail(std::string_view link);
// To an address that somebody wants to have at `site`.
MailText mail_change_mail(std::string_view site, std::string_view link);
MailText notice_mail(Notice notice, std::string_view site, Instant at);

struct MailHead {
  std::string_view from, to;  // is_mail_address().
  std::string_view unique;    // Of the Message-ID: a word that no other mail has.
  Instant at;
};

// The whole message (RFC 5322): lines of at most 998 bytes of ASCII that end with CRLF; any other
// byte becomes "?".
std::string render_mail(const MailHead& head, const MailText& text);

}  // namespace audiogen
