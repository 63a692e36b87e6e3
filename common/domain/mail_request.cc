#include "common/domain/mail_request.h"

#include "common/base/ascii.h"
#include "common/base/mail_address.h"
#include "common/domain/json_object.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

constexpr std::size_t kTokenBytesMax = 256;  // Whatever is there instead of one.

// A JSON object with no member twice: `text`, and perhaps `flag` ("": there is none).
Result<rapidjson::Document, ApiError> read_known(std::string_view body,
                                                 std::string_view text,
                                                 std::string_view flag = {}) {
  auto document = read_json_object(body);
  if (!document) {
    return document.error();
  }
  bool has_text = false, has_flag = false;
  for (const auto& member : document->GetObject()) {
    const std::string_view name = text_of(member.name);
    if (name != text && (flag.empty() || name != flag)) {
      return unknown_member(name);
    }
    bool& seen = name == text ? has_text : has_flag;
    if (seen) {
      return wrong_member(name, "may be given once only.");
    }
    seen = true;
    if (name == text ? !member.value.IsString() : !member.value.IsBool()) {
      return wrong_member(name, name == text ? "must be a string." : "must be true or false.");
    }
  }
  if (!has_text) {
    return wrong_member(text, "is required.");
  }
  return document;
}

}  // namespace

Result<std::string, ApiError> parse_mail_address(std::string_view body) {
  const auto document = read_known(body, "email");
  if (!document) {
    return document.error();
  }
  const std::string_view email = text_of((*document)["email"]);
  if (!is_mail_address(email)) {
    return wrong_member("email", "must be a mail address like ann@example.com.");
  }
  return ascii::lower(email);
}

Result<std::optional<Sha256>, ApiError> parse_mail_token(std::string_view body) {
  const auto document = read_known(body, "token");
  if (!document) {
    return document.error();
  }
  const std::string_view token = text_of((*document)["token"]);
  if (token.size() > kTokenBytesMax) {
    return wrong_member("token",
                        "must be at most " + std::to_string(kTokenBytesMax) + " bytes long.");
  }
  return token_hash(token);
}

Result<AccountEndRequest, ApiError> parse_account_end(std::string_view body) {
  const auto document = read_known(body, "email", "forfeit_credits");
  if (!document) {
    return document.error();
  }
  const std::string_view email = text_of((*document)["email"]);
  if (email.size() > kMailAddressMax) {
    return wrong_member("email",
                        "must be at most " + std::to_string(kMailAddressMax) + " bytes long.");
  }
  const bool said = document->HasMember("forfeit_credits");
  return AccountEndRequest{.email = ascii::lower(email),
                           .forfeits_credits = said && (*document)["forfeit_credits"].GetBool()};
}

}  // namespace audiogen
