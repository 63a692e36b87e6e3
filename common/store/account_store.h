// Users, credits and keys, and what operators read: the store behind `audio-api admin` (DESIGN 5).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/domain/api_key.h"
#include "common/store/commands.h"
#include "common/store/session.h"

namespace audiogen::store {

enum class Plan : std::uint8_t { kFree = 0, kPaid = 1 };
enum class GrantKind : std::uint8_t { kPurchase = 1, kPlan = 2, kBonus = 3, kAdjustment = 4 };

struct User {
  UserId id;
  std::string email;
  Plan plan = Plan::kFree;
  bool api_access = false;
  Balance balance;
  Instant created_at;
};

struct KeyInfo {
  KeyId id;
  std::string name, prefix;
  Instant created_at;
  std::optional<Instant> last_used_at, deleted_at;
};

struct TaskRow {  // For operators: everything but the prompt.
  TaskView view;
  UserId user;
  std::uint32_t epoch = 0, attempts = 0;
  std::optional<WorkerId> worker;
  std::optional<Instant> lease_until, wake_at;
  Instant next_run_at, deadline_at;
  std::uint64_t output_bytes = 0;
};
struct AttemptRow {
  std::uint32_t n = 0, epoch = 0;
  std::string provider;
  std::uint8_t state = 0;  // 1 started 2 succeeded 3 failed 4 unknown
  std::string detail;
  Instant started_at;
  std::optional<Instant> ended_at;
};
struct LedgerRow {
  std::uint64_t seq = 0;
  EntryKind kind = EntryKind::kHold;
  Units d_available, d_held, d_system;
  Balance after;
  Instant created_at;
};
struct TaskDetail {
  TaskRow task;
  std::vector<AttemptRow> attempts;
  std::vector<LedgerRow> ledger;
};

struct QueueView {                   // Counted in the database, the queue of record.
  std::uint64_t ready = 0;           // queued, due
  std::uint64_t in_flight = 0;       // running
  std::uint64_t waiting_retry = 0;   // queued, not due yet
  std::uint64_t oldest_seconds = 0;  // age of the oldest ready task
  struct Worker {
    WorkerId id;
    std::string host;
    std::uint32_t pid = 0, in_flight = 0;
    std::string status_json;
    Instant started_at, seen_at;
    bool alive = false;  // seen within 30 s
  };
  std::vector<Worker> workers;
};

struct Check {
  std::string name;  // "I1" … (must always hold), "L1" … (something is stuck), and a few words
  std::uint64_t bad = 0;  // Users or rows that break it.
};

// For one thread at a time. Every method blocks; failures are one clear sentence for the operator.
class AccountStore {
 public:
  explicit AccountStore(const DatabaseUrl& url);

  // `email` must look like an address, <= 254 bytes; kept in lower case. The user and its balance
  // row are one transaction.
  Result<User> create_user(std::string_view email, Plan plan);
  // `who` is an email or a user id in all calls below.
  Result<User> find_user(std::string_view who);
  Result<User> set_plan(std::string_view who, Plan plan);

  // Books `amount` (adjustments may be negative) once per reference (1-128 visible ASCII): the same
  // reference again with the same user, kind and amount changes nothing and succeeds; with others
  // it is refused. A purchase opens API access.
  struct Granted {
    User user;
    bool repeated = false;
  };
  Result<Granted> grant(std::string_view who,
                        Units amount,
                        GrantKind kind,
                        std::string_view reference);

  // Stores the hash and the prefix of `key`, never its text. `name`: 1-100 characters.
  Result<KeyInfo> add_key(std::string_view who, std::string_view name, const NewApiKey& key);
  // Oldest first, the deleted ones too.
  Result<std::vector<KeyInfo>> list_keys(std::string_view who);
  // The key stops working everywhere within a second. Deleting it again changes nothing and
  // succeeds.
  struct Deleted {
    KeyInfo key;
    bool repeated = false;
  };
  Result<Deleted> delete_key(KeyId id);

  // Newest first; `who` empty: all users.
  Result<std::vector<TaskRow>> list_tasks(std::string_view who,
                                          std::optional<TaskState> state,
                                          std::size_t limit);
  Result<TaskDetail> show_task(TaskId id);
  Result<QueueView> queue();

  // Counts the rows that break each invariant of reliability 9, in our names, all in one consistent
  // snapshot. Reads every row: minutes for many millions, and blocks that long.
  Result<std::vector<Check>> audit();

 private:
  Result<UserId> resolve_user(std::string_view who);
  User load_user(UserId id);
  std::optional<KeyInfo> load_key(KeyId id);

  DatabaseUrl url_;
  Session session_;
};

}  // namespace audiogen::store
