// What more of everything costs: rows, workers, API processes.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/store/session.h"
#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"

namespace audiogen::bench {
namespace {

using store::Sql;

// Finished tasks of one user with their ledger rows, made inside the database. They go on growing,
// so all sizes together cost no more than the largest.
class History {
 public:
  explicit History(Stand& stand)
      : stand_(stand),
        session_(
            stand.database(),
            {.read_timeout = std::chrono::hours(1), .statement_max = std::chrono::seconds(0)}) {}

  std::int64_t size() const { return size_; }
  // Nothing else may be booked on this user: the ledger rows are numbered by hand.
  UserId owner() const { return stand_.users().front(); }
  // The id of task n, as grow() wrote it.
  static TaskId task(std::uint64_t n) {
    TaskId id;
    id.uuid.bytes[0] = 0x01;
    id.uuid.bytes[1] = 0x80;
    for (std::size_t k = 0; k < 8; ++k) {
      id.uuid.bytes[15 - k] = static_cast<std::uint8_t>(n >> (8 * k));
    }
    return id;
  }

  void grow(std::int64_t size) {
    constexpr std::int64_t kChunk = 50'000;
    while (size_ < size) {
      const std::int64_t count = std::min(kChunk, size - size_);
      append(count);
      size_ += count;
    }
    // What is left to be written to the disk would slow down what is measured next.
    session_.execute(Sql("FLUSH TABLES tasks, ledger FOR EXPORT"));
    session_.execute(Sql("UNLOCK TABLES"));
  }

  // On the disk, with the indexes.
  double bytes() const {
    double out = 0;
    std::error_code unknown;
    for (const auto& file : std::filesystem::directory_iterator(folder(), unknown)) {
      out += static_cast<double>(file.file_size(unknown));
    }
    return out;
  }

  // Why there is no room on the disk to grow so far; empty: there is, as far as can be told.
  std::string no_room(std::int64_t size) const {
    constexpr double kSpare = 4e9;  // Logs, and temporary tables of the audit.
    std::error_code unknown;
    const auto room = std::filesystem::space(folder(), unknown);
    if (unknown || size_ == 0) {
      return "";
    }
    const double needed =
        bytes() / static_cast<double>(size_) * static_cast<double>(size - size_) + kSpare;
    const auto free = static_cast<double>(room.available);
    return needed <= free ? ""
                          : "skipped: needs " + fixed(needed / 1e9, 0) + " GB of disk, " +
                                fixed(free / 1e9, 0) + " GB are free";
  }

 private:
  std::filesystem::path folder() const {
    return stand_.stack().database().text(Sql("SELECT CONCAT(@@datadir, DATABASE())"));
  }

  void append(std::int64_t count) {
    // In the order of the primary keys: rows append, whole pages are filled.
    const std::string from = " FROM " + numbers(size_, count);
    const std::string owner = (Sql() << this->owner()).text();
    const std::string request = Sql().bytes(usual_request()).text();
    const std::string granted = std::to_string(kGranted.value);
    const std::string id = "UNHEX(CONCAT('0180', LPAD(HEX(n), 28, '0')))";
    session_.execute(Sql::trusted(
        "INSERT INTO tasks (id, user_id, state, request, output_format, held, charged, epoch, "
        "claims, attempts, next_run_at, deadline_at, output_key, output_bytes, output_checksum, "
        "duration_ms, created_at, updated_at, attempt_provider, attempt_epoch, attempt_state, "
        "attempt_started_at, attempt_ended_at, room) SELECT " +
        id + "," + owner + ",3," + request +
        ",2,150000,10000,1,1,1,'2026-01-01','2026-01-01',CONCAT('old/',n,'.wav'),20000,x'" +
        std::string(32, '0') +
        "',417,'2026-01-01','2026-01-01','double',1,2,'2026-01-01','2026-01-01',''" + from +
        " ORDER BY n"));
    // The hold (r=0) and its resolution (r=1) of each task.
    session_.execute(Sql::trusted(
        "INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, d_system, "
        "available_after, held_after, created_at) SELECT " +
        owner + ",n*2+2+r,1+r," + id +
        ",IF(r=0,-150000,140000),IF(r=0,150000,-150000),IF(r=0,0,10000)," + granted +
        "-IF(r=0,n*10000+150000,(n+1)*10000),IF(r=0,150000,0),'2026-01-01'" + from +
        " JOIN (SELECT 0 AS r UNION ALL SELECT 1) y ORDER BY n, r"));
    const std::int64_t all = size_ + count;
    session_.execute(Sql("UPDATE balances SET seq=")
                     << all * 2 + 1 << ", available=" << kGranted.value - all * 10'000
                     << " WHERE user_id=" << this->owner());
  }

  Stand& stand_;
  store::Session session_;
  std::int64_t size_ = 0;
};

// One line: what each operation costs beside the history. Leaves no open task behind.
void measure_beside(Context& context, Stand& stand, const History& history) {
  constexpr std::size_t kBatch = 32;
  const std::size_t rounds = context.scaled(100, 2);
  store::TaskStore store(stand.database());
  const auto us_per = [&](std::size_t operations, const auto& work) {
    const auto began = Clock::now();
    for (std::size_t round = 0; round < rounds; ++round) {
      if (!work(round)) {
        fail("an operation failed beside " + std::to_string(history.size()) + " tasks");
      }
    }
    return since(began) / static_cast<double>(rounds * operations) * 1e6;
  };
  const double sweep = us_per(1, [&](std::size_t) { return bool(store.sweep(200)); });

  std::vector<store::CreateCommand> commands;
  std::vector<TaskId> tasks;
  std::vector<store::FindCommand> finds;
  for (std::size_t i = 0; i < rounds * kBatch; ++i) {
    commands.push_back(usual_command(stand.users()[1 + i % (stand.users().size() - 1)]));
    tasks.push_back(commands.back().id);
    // Anywhere in the history, by steps that jump about in it.
    const std::uint64_t n = i * 7'919'777 % static_cast<std::uint64_t>(history.size());
    finds.push_back({.id = History::task(n), .user = history.owner()});
  }
  const auto batch = [](const auto& items, std::size_t round) {
    return std::span(items).subspan(round * kBatch, kBatch);
  };
  const double create = us_per(kBatch, [&](std::size_t round) {
    const auto some = batch(commands, round);
    create_all(store, {some.begin(), some.end()});
    return true;
  });
  const double find = us_per(kBatch, [&](std::size_t round) {
    const auto found = store.find(batch(finds, round));
    return found.back() && *found.back();
  });
  std::vector<std::vector<store::SettleCommand>> ends(rounds);
  const WorkerId worker = WorkerId::make();
  const double claim = us_per(kBatch, [&](std::size_t round) {
    ends[round] = claim_all(store, batch(tasks, round), worker);
    return true;
  });
  const double settle = us_per(kBatch, [&](std::size_t round) {
    settle_all(store, std::move(ends[round]));
    return true;
  });
  context.report.line({.name = std::to_string(history.size()) + " finished tasks",
                       .note = "us: create " + fixed(create, 0) + ", poll " + fixed(find, 1) +
                               ", claim " + fixed(claim, 0) + ", settle " + fixed(settle, 0) +
                               ", a sweep that finds nothing " + fixed(sweep, 0)});
}

// The audit reads every row several times: ten minutes for ten million tasks.
constexpr std::int64_t kAuditedMax = 1'000'000;

void scale_rows(Context& context) {
  Stand stand(Stand::Options{.api = false, .users = 64, .environment = {}});
  History history(stand);
  double growing = 0;
  for (auto size = static_cast<std::int64_t>(context.scaled(1000, 100)); size <= context.rows_max;
       size *= 10) {
    if (const std::string reason = history.no_room(size); !reason.empty()) {
      context.report.line({.name = std::to_string(size) + " finished tasks", .note = reason});
      break;
    }
    const auto began = Clock::now();
    history.grow(size);
    growing += since(began);
    measure_beside(context, stand, history);
    const auto grown = Clock::now();
    std::string audit = "not audited here";
    if (size <= kAuditedMax) {
      stand.audit();
      audit = "audited in " + fixed(since(grown), 1) + " s";
    }
    context.report.line({.name = "… " + audit,
                         .note = "made in " + fixed(growing, 1) + " s, " +
                                 fixed(history.bytes() / 1e9, 2) + " GB"});
  }
}

// More API processes behind a proxy that hashes on the key, and one without.
void scale_apis(Context& context) {
  Stand stand(context.stand(true));
  const std::vector<TaskId> tasks = stand.fill(context.scaled(20'000, 500));
  Rounds creates = creates_of(stand.keys());
  Rounds polls = polls_of(stand.keys(), tasks);
  double create = 0, poll = 0;  // Without a proxy.
  const auto both = [&](const std::string& where, std::uint16_t port) {
    const LoadOptions options{
        .port = port, .connections = kConnections, .rate = 0, .seconds = context.seconds};
    run_load({.port = port, .connections = kConnections, .seconds = context.seconds / 5}, creates);
    const double created =
        measured(context, stand, "create, " + where, options, creates, create).good_per_second();
    const double polled =
        measured(context, stand, "poll, " + where, options, polls, poll).good_per_second();
    return std::pair(created, polled);
  };
  std::tie(create, poll) = both("one API, no proxy", stand.api_port());
  std::vector<std::uint16_t> apis = {stand.api_port()};
  for (;;) {
    const Proxy proxy(stand.stack().log_folder(), apis);
    stand.watch("proxy", proxy.pids());
    both(std::to_string(apis.size()) + (apis.size() == 1 ? " API" : " APIs") + " behind nginx",
         proxy.port());
    if (apis.size() == 3) {
      break;
    }
    apis.push_back(stand.add_api());
  }
  stand.audit();
}

}  // namespace

void bench_scale(Context& context) {
  context.report.table(
      "First, us per operation in batches of 32 on one connection, beside so many "
      "finished tasks (cold: a 256 MB buffer pool). Then more workers of 200 tasks "
      "each, on jobs as above, beside one. Then more API processes behind nginx, which hashes on "
      "Authorization, beside one without: closed loop of 64 connections, workers "
      "stopped.");
  scale_rows(context);
  const double one = run_jobs(context, 1, 0, 200, 0);
  for (const int workers : context.smoke ? std::vector<int>{2} : std::vector<int>{2, 4, 8}) {
    run_jobs(context, workers, 0, 200, one);
  }
  scale_apis(context);
}

}  // namespace audiogen::bench
