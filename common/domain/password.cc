#include "common/domain/password.h"

#include <algorithm>

#include "common/base/ascii.h"
#include "common/base/utf8.h"

namespace audiogen {
namespace {

// Between bars and in lower case, those of kPasswordMin characters and more that lists of leaked
// passwords agree on, and what the rule about the length makes of shorter ones. Not long: attempts
// are limited to a few a minute (RateLimiter), so what counts are the first thousands of guesses,
// and nearly all of the usual lists is shorter than we allow.
constexpr std::string_view kCommon =
    "|000000000000|0123456789012|012345678910|0987654321098|098765432109|111111111111|"
    "111111222222|112233445566|121212121212|123123123123|1231231231231|123321123321|"
    "1234123412341234|123412341234|123456123456|1234567890123|12345678901234|123456789012345|"
    "1234567890123456|123456789012|12345678910111|123456789101112|12345678987654321|"
    "1234567890qwerty|123456789abc|123456qwerty|123qweasdzxc|147258369147|1q2w3e4r5t6y|"
    "1q2w3e4r5t6y7u|1q2w3e4r5t6y7u8i|1qaz2wsx3edc|1qaz2wsx3edc4rfv|1qazxsw23edc|222222222222|"
    "333333333333|444444444444|555555555555|666666666666|777777777777|888888888888|"
    "987654321012|987654321098|999999999999|aaaaaaaaaaaa|abc123abc123|abcabcabcabc|"
    "abcd1234abcd|abcd12345678|abcdef123456|abcdefghijkl|abcdefghijklm|abcdefghijklmnop|"
    "administrator|administrator1|adminadminadmin|admin1234567|asdfasdfasdf|asdfghjkl123|"
    "asdfghjkl;'\\|asdfghjklqwe|azertyuiop123|azertyuiopqs|basketball12|changeme1234|"
    "changemechangeme|correcthorsebatterystaple|correct horse battery staple|defaultpassword|"
    "football1234|forgotpassword|iloveyou1234|iloveyouforever|iloveyousomuch|letmein12345|"
    "letmeinletmein|liverpool123|manchesterunited|mypassword12|mypassword123|newpassword1|"
    "p@ssw0rd1234|passw0rd1234|password1234|password12345|password123456|passwordpassword|"
    "princess1234|q1w2e3r4t5y6|qazwsxedcrfv|qwerty123456|qwertyqwerty|qwertyuiop12|"
    "qwertyuiop123|qwertyuiop[]|zxcvbnm12345|";

}  // namespace

std::optional<std::string> password_fault(std::string_view password, std::string_view email) {
  if (utf8_length(password) < kPasswordMin) {
    return "password must be at least " + std::to_string(kPasswordMin) + " characters long.";
  }
  if (password.size() > kPasswordBytesMax) {
    return "password must be at most " + std::to_string(kPasswordBytesMax) + " bytes long.";
  }
  const std::string lower = ascii::lower(password);
  if (kCommon.find("|" + lower + "|") != std::string_view::npos) {
    return "password is one of those that are tried first; take another.";
  }
  const std::string mail = ascii::lower(email);
  const auto at = std::min(mail.find('@'), mail.size());
  if (lower == mail || lower == mail.substr(0, at) ||
      lower == mail.substr(std::min(at + 1, mail.size()))) {
    return "password must not be the account's mail address; take another.";
  }
  return std::nullopt;
}

}  // namespace audiogen
