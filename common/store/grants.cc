#include "common/store/grants.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/store/migrate.h"
#include "common/store/session.h"

namespace audiogen::store {

extern const std::string_view grants_sql;  // schema/grants.sql, embedded by the build

namespace {

// Rights on one table: SELECT, INSERT … and "UPDATE (column)", one by one.
using Rights = std::map<std::string, std::set<std::string>>;

std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '\n' && c != ' ') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

// "SELECT, UPDATE (a, b)" one by one: SELECT, UPDATE (a), UPDATE (b).
std::set<std::string> one_by_one(std::string_view list) {
  std::set<std::string> out;
  std::string verb;
  std::string word;
  bool inside = false;
  const auto take = [&] {
    if (!word.empty()) {
      out.insert(inside ? verb + " (" + word + ")" : word);
    }
    word.clear();
  };
  for (const char c : list) {
    if (c == '(') {
      verb = std::exchange(word, "");
      inside = true;
    } else if (c == ')' || c == ',') {
      take();
      inside = inside && c == ',';
    } else if (c != ' ') {
      word += c;
    }
  }
  take();
  return out;
}

// What schema/grants.sql gives to `role`: each statement is "GRANT rights ON table TO role".
Rights wanted(std::string_view role) {
  Rights out;
  for (const std::string& statement : split_statements(grants_sql)) {
    const std::string text = squeezed(statement);
    constexpr std::string_view kGrant = "GRANT ", kOn = " ON ", kTo = " TO ";
    const auto on = text.rfind(kOn);
    const auto to = text.rfind(kTo);
    AG_CHECK(text.starts_with(kGrant) && on < to && to != std::string::npos);
    if (text.substr(to + kTo.size()) == role) {
      const std::string table = text.substr(on + kOn.size(), to - on - kOn.size());
      out[table].merge(
          one_by_one(std::string_view(text).substr(kGrant.size(), on - kGrant.size())));
    }
  }
  return out;
}

// 'name'@'host' of name@host; nullopt when it is not that, or holds what would need escaping.
std::optional<std::string> quoted(const std::string& account) {
  const auto at = account.rfind('@');
  const bool plain = std::all_of(account.begin(), account.end(), [](char c) {
    return ascii::is_visible(c) && c != '\'' && c != '"' && c != '`' && c != '\\' && c != ';';
  });
  if (at == std::string::npos || at == 0 || at + 1 == account.size() || !plain) {
    return std::nullopt;
  }
  return "'" + account.substr(0, at) + "'@'" + account.substr(at + 1) + "'";
}

// What `account` has on tables and columns of the database, in the form of one_by_one().
Rights present(Session& session, const std::string& account) {
  Rights out;
  const auto read = [&](const char* query) {
    Sql sql = Sql::trusted(query);
    Rows rows = session.query(sql.bytes(account));
    while (rows.next()) {
      out[rows.text(1)].insert(rows.text(2));
    }
  };
  read(
      "SELECT TABLE_NAME, PRIVILEGE_TYPE FROM information_schema.TABLE_PRIVILEGES "
      "WHERE TABLE_SCHEMA=DATABASE() AND PRIVILEGE_TYPE<>'USAGE' AND GRANTEE=");
  read(
      "SELECT TABLE_NAME, CONCAT(PRIVILEGE_TYPE, ' (', COLUMN_NAME, ')') FROM "
      "information_schema.COLUMN_PRIVILEGES WHERE TABLE_SCHEMA=DATABASE() AND GRANTEE=");
  return out;
}

std::string joined(const std::set<std::string>& rights) {
  std::string out;
  for (const std::string& right : rights) {
    out += (out.empty() ? "" : ", ") + right;
  }
  return out;
}

std::set<std::string> without(const std::set<std::string>& from,
                              const std::set<std::string>& less) {
  std::set<std::string> out;
  std::set_difference(
      from.begin(), from.end(), less.begin(), less.end(), std::inserter(out, out.end()));
  return out;
}

// Those of `rights` that are columns of a verb that `taken` has for the whole table: in both server
// families its REVOKE takes it from each column, too.
std::set<std::string> taken_along(const std::set<std::string>& rights,
                                  const std::set<std::string>& taken) {
  std::set<std::string> out;
  for (const std::string& right : rights) {
    const auto column = right.find(" (");
    if (column != std::string::npos && taken.contains(right.substr(0, column))) {
      out.insert(right);
    }
  }
  return out;
}

std::string on(const DatabaseUrl& url, const std::string& table) {
  return " ON `" + url.database + "`.`" + table + "`";
}

// Missing rights first, then what is too much, so that nothing needed is away, but for what a
// REVOKE takes along, which is given again at once. What is too much for this program may be what a
// newer one needs, whose schema is there already.
std::vector<std::string> statements(Session& session,
                                    const DatabaseUrl& url,
                                    const Rights& want,
                                    const std::string& account,
                                    bool takes) {
  const Rights have = present(session, account);
  std::vector<std::string> out;
  const auto of = [](const Rights& rights, const std::string& table) {
    const auto found = rights.find(table);
    return found == rights.end() ? std::set<std::string>() : found->second;
  };
  const auto give = [&](const std::set<std::string>& rights, const std::string& table) {
    if (!rights.empty()) {
      out.push_back("GRANT " + joined(rights) + on(url, table) + " TO " + account);
    }
  };
  for (const auto& [table, rights] : want) {
    give(without(rights, of(have, table)), table);
  }
  if (!takes) {
    return out;
  }
  Rows whole = session.query(Sql("SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES WHERE "
                                 "TABLE_SCHEMA=DATABASE() AND PRIVILEGE_TYPE<>'USAGE' AND GRANTEE=")
                                 .bytes(account));
  if (whole.next()) {
    out.push_back("REVOKE ALL PRIVILEGES ON `" + url.database + "`.* FROM " + account);
  }
  for (const auto& [table, rights] : have) {
    if (const auto extra = without(rights, of(want, table)); !extra.empty()) {
      out.push_back("REVOKE " + joined(extra) + on(url, table) + " FROM " + account);
      give(taken_along(of(want, table), extra), table);
    }
  }
  return out;
}

// Rights of `account` that lie beyond the tables of this database and so are not taken by us: for
// all databases, and for those whose names are like this one's. A sentence; nullopt: there are
// none.
std::optional<std::string> beyond_ours(Session& session,
                                       const std::string& account,
                                       std::string_view name,
                                       std::string_view host) {
  std::set<std::string> rights;
  // Those by which tables are reached; to see processes, for instance, is none.
  Sql global(
      "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE FIND_IN_SET("
      "PRIVILEGE_TYPE, 'SELECT,INSERT,UPDATE,DELETE,DELETE HISTORY,CREATE,DROP,ALTER,INDEX,"
      "REFERENCES,TRIGGER,EVENT,EXECUTE,CREATE VIEW,CREATE ROUTINE,ALTER ROUTINE,CREATE USER,"
      "FILE,SUPER') AND GRANTEE=");
  Rows all = session.query(global.bytes(account));
  while (all.next()) {
    rights.insert(all.text(1));
  }
  if (!rights.empty()) {
    return account + " has rights on all databases (" + joined(rights) +
           "), which reach ours; take them: REVOKE … ON *.* FROM " + account;
  }
  Sql like("SELECT Db FROM mysql.db WHERE Db<>DATABASE() AND DATABASE() LIKE Db AND User=");
  like.bytes(name) << " AND Host=";
  Rows patterns = session.query(like.bytes(host));
  if (patterns.next()) {
    return account + " has rights on databases like " + patterns.text(1) +
           ", which reach ours; take them: REVOKE ALL PRIVILEGES ON `" + patterns.text(1) +
           "`.* FROM " + account;
  }
  return std::nullopt;
}

// Rights that `account` comes by without having been given them itself, where present() does not
// look: by roles and, in MariaDB, by what everybody may (PUBLIC). A sentence; nullopt: there are
// none.
std::optional<std::string> by_others(Session& session,
                                     const std::string& account,
                                     std::string_view name,
                                     std::string_view host) {
  // The families of servers keep roles in tables of different names.
  const bool is_mariadb =
      session
          .query(Sql("SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA='mysql' AND "
                     "TABLE_NAME='roles_mapping'"))
          .next();
  Sql granted;
  if (is_mariadb) {
    granted << "SELECT CONCAT('`',Role,'`') FROM mysql.roles_mapping WHERE User=";
    granted.bytes(name) << " AND Host=";
  } else {
    granted << "SELECT CONCAT(QUOTE(FROM_USER),'@',QUOTE(FROM_HOST)) FROM mysql.role_edges WHERE "
               "TO_USER=";
    granted.bytes(name) << " AND TO_HOST=";
  }
  std::set<std::string> roles;
  Rows rows = session.query(granted.bytes(host));
  while (rows.next()) {
    roles.insert(rows.text(1));
  }
  if (!roles.empty()) {
    return account + " has rights by roles (" + joined(roles) +
           "), which may reach ours; take each: REVOKE " + *roles.begin() + " FROM " + account;
  }
  if (!is_mariadb) {
    Rows mandatory = session.query(Sql("SELECT @@GLOBAL.mandatory_roles"));
    if (mandatory.next() && !mandatory.text(1).empty()) {
      return "everybody has rights by roles, which may reach ours: mandatory_roles is " +
             mandatory.text(1);
    }
    return std::nullopt;
  }
  Rows everybody = session.query(
      Sql("SELECT '*.*' FROM mysql.user WHERE User='PUBLIC' AND Host='' AND 'Y' IN (Select_priv,"
          "Insert_priv,Update_priv,Delete_priv,Delete_history_priv,Create_priv,Drop_priv,"
          "Alter_priv,Index_priv,References_priv,Trigger_priv,Event_priv,Execute_priv,"
          "Create_view_priv,Create_routine_priv,Alter_routine_priv,Create_user_priv,File_priv,"
          "Super_priv) "
          "UNION ALL SELECT CONCAT('`',Db,'`.*') FROM mysql.db WHERE User='PUBLIC' AND Host='' AND "
          "(Db=DATABASE() OR DATABASE() LIKE Db) "
          "UNION ALL SELECT CONCAT('`',Db,'`.`',Table_name,'`') FROM mysql.tables_priv WHERE "
          "User='PUBLIC' AND Host='' AND Db=DATABASE()"));
  if (everybody.next()) {
    return "everybody has rights on " + everybody.text(1) +
           " (PUBLIC), which reach ours; take them: REVOKE ALL PRIVILEGES ON " + everybody.text(1) +
           " FROM PUBLIC";
  }
  return std::nullopt;
}

// What each account needs, by its name as statements have it: for all roles that it plays, or one
// would take what another gives.
Result<std::map<std::string, Rights>> wanted_by_account(Session& session,
                                                        const std::vector<Grantee>& grantees,
                                                        bool takes) {
  std::map<std::string, Rights> out;
  // Without a look at these the server says of other accounts that they have nothing, and nothing
  // would be taken.
  session.query(Sql("SELECT 1 FROM mysql.tables_priv, mysql.columns_priv LIMIT 1"));
  for (const Grantee& grantee : grantees) {
    Rights want = wanted(grantee.role);
    const auto account = quoted(grantee.account);
    if (want.empty()) {
      return Error{"a role must be api, worker or admin"};
    }
    if (!account) {
      return Error{"an account must be name@host of plain characters, like worker@10.0.0.%"};
    }
    // MariaDB makes an account that is not there, without a password.
    const std::string_view name = grantee.account;
    const auto at = name.rfind('@');
    Sql known("SELECT 1 FROM mysql.user WHERE User=");
    known.bytes(name.substr(0, at)) << " AND Host=";
    if (!session.query(known.bytes(name.substr(at + 1))).next()) {
      return Error{"there is no account " + grantee.account};
    }
    if (takes) {
      for (const auto look : {beyond_ours, by_others}) {
        if (auto why = look(session, *account, name.substr(0, at), name.substr(at + 1))) {
          return Error{*std::move(why)};
        }
      }
    }
    for (auto& [table, rights] : want) {
      out[*account][table].merge(rights);
    }
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> bring_grants(const DatabaseUrl& url,
                                              const std::vector<Grantee>& grantees,
                                              bool only_look,
                                              std::vector<std::string>* done) {
  try {
    Session session(url);
    std::vector<std::string> out;
    const bool takes = look_at_schema(session).begun <= newest_migration();
    const auto accounts = wanted_by_account(session, grantees, takes);
    if (!accounts) {
      return accounts.error();
    }
    for (const auto& [account, want] : *accounts) {
      auto todo = statements(session, url, want, account, takes);
      std::move(todo.begin(), todo.end(), std::back_inserter(out));
    }
    if (only_look) {
      return out;
    }
    for (const std::string& statement : out) {
      session.execute(Sql::trusted(statement));
      if (done != nullptr) {
        done->push_back(statement);
      }
    }
    return out;
  } catch (const DbError& e) {
    return Error{
        std::string("the rights could not be given; may this user grant, and read the tables of "
                    "mysql? ") +
        e.what()};
  }
}

}  // namespace audiogen::store
