// Rows that nobody holds. What keeps house changes those at once and leaves the others for its next
// turn: MySQL knows no statement that fails at once instead of waiting for a row, and MariaDB would
// fail it for all of them. So a row that is held keeps nobody but itself.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/store/session.h"
#include "common/store/sql.h"

namespace audiogen::store {

struct KeyColumn {
  enum class Kind { kId, kBytes, kTime };
  std::string_view name;
  Kind kind = Kind::kId;
};

inline constexpr std::array kRowId{KeyColumn{.name = "id"}};
inline constexpr std::array kRowTaskId{KeyColumn{.name = "task_id"}};

// A table, and what its rows are known by: the columns of `index`. Where several rows may have the
// same, only those are free of which nobody holds any.
struct KeyedTable {
  std::string_view name;
  std::span<const KeyColumn> key;
  std::string_view index = "PRIMARY";
  bool unique = true;
};

// Inside a transaction: locks the rows that `from` finds and nobody holds, and knows them by their
// keys. `from` is what stands behind FROM: the table, the index, the condition, the order. `limit`:
// so many are looked for; where keys are not unique there may be more. What is done to them comes
// in the same transaction, so nobody has changed them in between, and none that has been made anew
// is taken for the one that was found.
class FreeRows {
 public:
  FreeRows(Session& session,
           const KeyedTable& table,
           const Sql& from,
           std::optional<std::size_t> limit = std::nullopt);

  // How many they are; `limit` at the least, if there may be more.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Their keys, each once, where those are ids.
  template <class IdType>
  std::vector<IdType> ids() const {
    std::vector<IdType> out;
    for (const auto& [key, row] : keys_) {
      out.push_back(IdType{row.id});
    }
    return out;
  }
  // Both with what the session sends next. `change`: "SET …".
  void change(const Sql& change) const;
  void forget() const;

 private:
  struct Row {
    std::size_t count = 0;
    Uuid id{};
  };
  // By the values of the key, as SQL has them, with commas.
  using Keys = std::map<std::string, Row>;

  Keys read(const Sql& query) const;
  static std::size_t rows_of(const Keys& keys);
  // Leaves out the keys of which somebody holds a row.
  void take_whole_ones();
  // "SELECT … FROM ", and what may stand behind it for exactly the rows of keys_.
  Sql columns() const;
  Sql joined() const;

  Session& session_;
  const KeyedTable table_;
  Keys keys_;
  std::size_t size_ = 0;
};

// In a transaction of its own: does `change`, "SET …", to the rows that `from` finds and nobody
// holds. Which: their keys are ids.
std::vector<Uuid> change_free(Session& session,
                              const KeyedTable& table,
                              const Sql& from,
                              const Sql& change);

// The same with their deletion. How many; fewer than `limit`: there are no more that are free.
std::size_t forget_free(Session& session,
                        const KeyedTable& table,
                        const Sql& from,
                        std::optional<std::size_t> limit = std::nullopt);

}  // namespace audiogen::store
