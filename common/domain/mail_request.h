// Reading what the console sends about mail addresses and the end of an account.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/crypto.h"
#include "common/base/result.h"
#include "common/domain/api_error.h"

namespace audiogen {

// {"email"}: an address that mail can be sent to (is_mail_address()), in lower case, as accounts
// have them. An error of these never repeats a value.
Result<std::string, ApiError> parse_mail_address(std::string_view body);

// {"token"}: the hash of a link's; nullopt: no link was ever like it.
Result<std::optional<Sha256>, ApiError> parse_mail_token(std::string_view body);

struct AccountEndRequest {
  std::string email;  // In lower case, to be compared with the account's.
  bool forfeits_credits = false;
};

// {"email", "forfeit_credits"?}
Result<AccountEndRequest, ApiError> parse_account_end(std::string_view body);

}  // namespace audiogen
