// The door to API keys. Requests look keys up by TaskStore::find_keys, many at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/api_key.h"
#include "common/store/door.h"

namespace audiogen::store {

struct KeyInfo {
  KeyId id;
  std::string name, prefix;
  Instant created_at;
  std::optional<Instant> last_used_at, deleted_at;
  Scopes scopes;
  std::optional<Instant> expires_at;
  std::optional<Instant> previous_until;  // The secret before its last rotation works until then.
  std::optional<SpendLimit> spend_limit{};
  // Of the limit, in its current period: what was charged, and what is reserved. Nullopt without
  // one, of a deleted key, and while so much has happened since it was counted last that it is not
  // known now.
  std::optional<Units> spent{};
};

struct DeletedKey {
  KeyInfo key;
  bool repeated = false;  // It was deleted before; nothing was changed.
};

// Some of a list, and whether there is more behind them.
struct KeyPage {
  std::vector<KeyInfo> keys;
  bool has_more = false;
};

// Who wants a key made or changed: an operator, who may do anything; a key, which cannot give what
// it lacks; or a session, which must be fresh to make a key that manages. A key with a spend limit
// cannot let any other key spend, nor get another one's secret that does: two limits beside each
// other are more than one. It may lower its own, and not count it by another period, which begins
// anew.
using Asker = std::variant<std::monostate, KeyId, SessionId>;

// What is changed of a key takes effect everywhere within a second. See Door for threads, blocking
// and failures.
class Keys : private Door {
 public:
  explicit Keys(Session& session, const ActionNote* note = nullptr) : Door(session, note) {}

  // Stores the hash and the prefix of `key`, never its text. Whoever makes or changes keys of a
  // user comes one after the other, so that none is one too many. Faults: kBadKeyName,
  // kBadKeyExpiry, kNoSuchUser, kTooManyKeys, kAskerIsGone, kScopeNotOwn, kExpiryNotOwn,
  // kSpendingNotOwn, kBadSpendLimit, kNotFresh.
  Result<KeyInfo, Fault> add(UserId user,
                             const KeyTerms& terms,
                             const NewApiKey& key,
                             const Asker& asker = {});

  // Oldest first, the deleted ones too. None when there is no such user.
  Result<std::vector<KeyInfo>, Fault> list(UserId user);

  // Those that were not deleted, newest first, at most `limit`; with `before` the ones that follow
  // it, whether it is there or not.
  Result<KeyPage, Fault> page(UserId user, std::optional<KeyId> before, std::size_t limit);

  // Changes a key of `user` that was not deleted. `asker` as above, for what is given, and for the
  // key as it will be when that is more, or lasts longer, than it was; it may be the key itself. A
  // limit counts what is created from then on; one that takes another's place goes on counting, and
  // while there is none nothing counts. Faults: kNoSuchKey, kLimitNotOwn, and as add() but for
  // kNoSuchUser and kTooManyKeys.
  Result<KeyInfo, Fault> change(UserId user, KeyId id, const KeyChange& change, const Asker& asker);

  // Gives a key of `user` that was not deleted another secret, which works at once. The one that it
  // had works for `overlap` more (0: not at all), if the key itself does; one from before that ends
  // now. But where the one that it had was never used, its answer may have been lost: the one from
  // before goes on in its place. `asker` as above, and as though the key were given to it with all
  // it has: whoever rotates a key learns its secret. Faults: kNoSuchKey, kAskerIsGone,
  // kScopeNotOwn, kExpiryNotOwn, kSpendingNotOwn, kNotFresh.
  Result<KeyInfo, Fault> rotate(
      UserId user, KeyId id, std::chrono::hours overlap, const NewApiKey& key, const Asker& asker);

  // The same for an operator, who asks for any key that was not deleted. Faults: kNoSuchKey.
  Result<KeyInfo, Fault> rotate(KeyId id, std::chrono::hours overlap, const NewApiKey& key);

  // How the secret of this key begins; nullopt: there is no such key, or it was deleted.
  Result<std::optional<std::string>, Fault> prefix_of(KeyId id);

  // The key of this id, or the one that was not deleted and has a secret with this prefix that
  // works, the one before its last rotation too; for operators: an id need not be of a key. Faults:
  // kNoSuchKey, kAmbiguousKey.
  Result<KeyId, Fault> resolve(std::string_view id_or_prefix);

  // The key stops working everywhere within a second. Deleting it again changes nothing and
  // succeeds. For operators: nobody asks whose it is. Faults: kNoSuchKey.
  Result<DeletedKey, Fault> remove(KeyId id);

  // The same for a key of `user`; deleting it again is kNoSuchKey, as is another's. `asker` as
  // above: one that is being taken away takes no other meanwhile. Faults: also kAskerIsGone.
  Result<Done, Fault> remove_own(UserId user, KeyId id, const Asker& asker = {});

 private:
  // What is to be given of a key; what is not there is not.
  struct Gift {
    std::optional<KeyId> key{};  // Nullopt: it is new.
    std::optional<Scopes> scopes{};
    std::optional<std::optional<Instant>> expires_at{};
    std::optional<std::optional<SpendLimit>> spend_limit{};
  };

  std::optional<KeyInfo> load(KeyId id);
  // Fills in what they have spent, where one of them has a limit.
  void count_spent(std::span<KeyInfo> keys);
  // Inside a transaction: keeps others from making or changing keys of `user` until its end.
  void lock_keys(UserId user);
  std::size_t count(UserId user);  // Those that were not deleted.
  // Inside a transaction, the following, too: what keeps `asker` from giving as much.
  std::optional<Fault> beyond_asker(UserId user, const Asker& asker, const Gift& gift);
  std::optional<Fault> beyond_key(UserId user, KeyId asker, const Gift& gift);
  std::optional<Fault> beyond_session(UserId user, SessionId asker, const Gift& gift);
  std::uint64_t mark_deleted(KeyId id);  // How many: 1, or 0 when it was deleted before.
};

}  // namespace audiogen::store
