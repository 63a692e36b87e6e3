// The door to accounts: users, their plans and their credits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/ledger.h"
#include "common/domain/task.h"
#include "common/store/door.h"

namespace audiogen::store {

enum class Plan : std::uint8_t { kFree = 0, kPaid = 1 };
enum class GrantKind : std::uint8_t { kPurchase = 1, kPlan = 2, kBonus = 3, kAdjustment = 4 };

struct User {
  UserId id;
  std::string email;
  Plan plan = Plan::kFree;
  bool api_access = false;  // A paid plan or a purchase.
  Balance balance;
  Instant created_at;
};

struct Granted {
  User user;
  bool repeated = false;  // It was booked before; nothing was changed.
};

// One row of a user's ledger.
struct LedgerEntry {
  struct Grant {
    GrantKind kind;
    std::string reference;
  };
  Entry entry;
  Uuid source;                 // The task of a hold and of its resolution; else the grant.
  std::optional<Grant> grant;  // Of what came in or was taken back.
  Instant created_at;
};

// Some of a list, and whether there is more behind them.
struct LedgerPage {
  std::vector<LedgerEntry> rows;
  bool has_more = false;
};

// Inside a transaction: a user without credits, and his balance. kDuplicate when somebody has the
// address, in lower case. The plan is the free one, by the table's default.
void insert_user(Session& session, UserId id, std::string_view email);

// See Door for threads, blocking and failures.
class Accounts : private Door {
 public:
  explicit Accounts(Session& session, const ActionNote* note = nullptr) : Door(session, note) {}

  // `email` must look like an address, at most 254 bytes; kept in lower case. The user and its
  // balance row are one transaction. Faults: kBadEmail, kEmailTaken.
  Result<User, Fault> create(std::string_view email, Plan plan);

  // The user of an address or of an id in text, if there is one. Faults: kBadUserName, kNoSuchUser.
  Result<UserId, Fault> resolve(std::string_view who);

  // Faults of the following: kNoSuchUser.
  Result<User, Fault> find(UserId id);
  // Of a user who gets a paid plan, or has it, what waits is kept back by no plan from now on. What
  // his new one allows the API alone knows: it says so when he asks it for the next. Faults
  // besides: kAccountEnded.
  Result<User, Fault> set_plan(UserId id, Plan plan);
  // By which lane a further task of the user would go, by the rule of creations. `released_max`: by
  // his plan. Waits for nobody.
  Result<Lane, Fault> next_lane(UserId id, std::uint32_t released_max);
  // Gives an account that has not ended another address, of the form as above. Links that sign in
  // by the one it had work no more. Faults besides: kBadEmail, kEmailTaken.
  Result<User, Fault> set_email(UserId id, std::string_view email);

  // Books `amount` (adjustments may be negative) once per reference (1-128 visible ASCII
  // characters): the same reference again with the same user, kind and amount changes nothing and
  // succeeds. A purchase opens API access. An account that its owner has ended is given nothing;
  // what it has may be taken back. Faults: kBadAmount, kNotAnAdjustment, kBadReference,
  // kNoSuchUser, kReferenceReused, kAccountEnded, kWouldOverdraw, kBalanceTooLarge.
  Result<Granted, Fault> grant(UserId user,
                               Units amount,
                               GrantKind kind,
                               std::string_view reference);

  // Rows of a user's ledger, newest first, at most `limit`, all with numbers below `before`. Costs
  // no more for a long ledger than for a short one.
  Result<LedgerPage, Fault> ledger(UserId user,
                                   std::optional<std::uint64_t> before,
                                   std::size_t limit);

 private:
  std::optional<UserId> id_of_email(std::string_view normal);
  Result<User, Fault> load(UserId id);
};

}  // namespace audiogen::store
