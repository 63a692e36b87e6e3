#include "common/store/free_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace audiogen::store {
namespace {

Sql& write_value(Sql& sql, KeyColumn::Kind kind, const Rows& rows, std::uint32_t column) {
  switch (kind) {
    case KeyColumn::Kind::kId:
      return sql << rows.uuid(column);
    case KeyColumn::Kind::kBytes:
      return sql.bytes(rows.text(column));
    case KeyColumn::Kind::kTime:  // As a text it would not be looked up by an index of times.
      return sql << "CAST(" << rows.time(column) << " AS DATETIME(6))";
  }
  AG_CHECK(false);
}

Sql named(std::string_view name) {
  return Sql::trusted(std::string(name));
}

}  // namespace

FreeRows::FreeRows(Session& session,
                   const KeyedTable& table,
                   const Sql& from,
                   std::optional<std::size_t> limit)
    : session_(session), table_(table) {
  Sql sql = columns().append(from);
  if (limit) {
    sql << " LIMIT " << *limit;
  }
  keys_ = read(sql << " FOR UPDATE SKIP LOCKED");
  const std::size_t found = rows_of(keys_);
  if (!table.unique && !keys_.empty()) {
    take_whole_ones();
  }
  size_ = rows_of(keys_);
  if (limit && found == *limit && size_ > 0) {
    size_ = std::max(size_, *limit);
  }
}

std::size_t FreeRows::rows_of(const Keys& keys) {
  std::size_t out = 0;
  for (const auto& [key, row] : keys) {
    out += row.count;
  }
  return out;
}

Sql FreeRows::columns() const {
  Sql sql("SELECT ");
  list(sql, table_.key, [&](const KeyColumn& column) {
    sql.append(named(table_.name)).append(named(".")).append(named(column.name));
  });
  return sql << " FROM ";
}

// Each row is looked up in the index. By a condition, of a small table all rows would be looked at,
// those that are held as well; and "(a=1 AND b=2) OR (a=1 AND b=3)" would be looked for by a=1
// alone.
Sql FreeRows::joined() const {
  Sql sql("(SELECT ");
  list(sql, table_.key, [&](const KeyColumn& column) {
    (sql << "NULL AS ").append(named(column.name));
  });
  for (const auto& [key, row] : keys_) {
    (sql << " UNION ALL SELECT ").append(named(key));
  }
  (sql << ") these STRAIGHT_JOIN ").append(named(table_.name)) << " FORCE INDEX (";
  sql.append(named(table_.index)) << ") ON ";
  bool first = true;
  for (const KeyColumn& column : table_.key) {
    sql.append(std::exchange(first, false) ? Sql() : Sql(" AND "))
        .append(named(table_.name))
        .append(named("."))
        .append(named(column.name));
    (sql << "=these.").append(named(column.name));
  }
  return sql;
}

FreeRows::Keys FreeRows::read(const Sql& query) const {
  Keys out;
  Rows rows = session_.query(query);
  while (rows.next()) {
    Sql key;
    std::uint32_t at = 0;
    list(key, table_.key, [&](const KeyColumn& column) {
      write_value(key, column.kind, rows, ++at);
    });
    Row& row = out[key.text()];
    ++row.count;
    if (table_.key.front().kind == KeyColumn::Kind::kId) {
      row.id = rows.uuid(1);
    }
  }
  return out;
}

void FreeRows::take_whole_ones() {
  Sql all = columns().append(joined());
  Keys there = read(all);  // Without a lock: reads past those of others.
  const Keys locked = read(all << " FOR UPDATE SKIP LOCKED");
  std::erase_if(there, [&](const auto& one) {
    const auto& [key, row] = one;
    const auto mine = locked.find(key);
    return mine == locked.end() || mine->second.count != row.count;
  });
  keys_ = std::move(there);
}

void FreeRows::change(const Sql& change) const {
  if (!empty()) {
    Sql sql("UPDATE ");
    session_.later((sql.append(joined()) << " ").append(change));
  }
}

void FreeRows::forget() const {
  if (!empty()) {
    Sql sql("DELETE ");
    (sql.append(named(table_.name)) << " FROM ").append(joined());
    session_.later(sql);
  }
}

std::vector<Uuid> change_free(Session& session,
                              const KeyedTable& table,
                              const Sql& from,
                              const Sql& change) {
  std::vector<Uuid> ids;
  session.transact([&] {
    const FreeRows rows(session, table, from);
    ids = rows.ids<Uuid>();
    rows.change(change);
  });
  return ids;
}

std::size_t forget_free(Session& session,
                        const KeyedTable& table,
                        const Sql& from,
                        std::optional<std::size_t> limit) {
  std::size_t count = 0;
  session.transact([&] {
    const FreeRows rows(session, table, from, limit);
    count = rows.size();
    rows.forget();
  });
  return count;
}

}  // namespace audiogen::store
