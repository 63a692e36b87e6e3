// Creations and polls.
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "tests/bench/ceilings.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"

namespace audiogen::bench {
namespace {

// Open loop: this part of what the closed loop reached, over enough connections that requests never
// wait for one.
constexpr double kOpenLoad = 0.7;
constexpr std::size_t kOpenConnections = 256;

// Creations with an Idempotency-Key of their own each.
class KeyedCreates : public Aim {
 public:
  explicit KeyedCreates(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      requests_.push_back(create_request(key, "Idempotency-Key: " + std::string(kPlace) + "\r\n"));
    }
    place_at_ = requests_.front().find(kPlace);
  }
  Shot next(std::size_t) override {
    char number[sizeof kPlace];
    std::snprintf(number, sizeof number, "%012zu", ++count_);
    std::string& request = requests_[count_ % requests_.size()];
    request.replace(place_at_, sizeof number - 1, number);
    return {request};
  }
  void answered(std::size_t, int, std::string_view) override {}

 private:
  static constexpr char kPlace[] = "000000000000";
  std::vector<std::string> requests_;
  std::size_t place_at_ = 0, count_ = 0;
};

// Each connection creates a task and polls it ten times, again and again.
class Mixed : public Aim {
 public:
  static constexpr std::size_t kCreate = 0, kPoll = 1;
  Mixed(const std::vector<std::string>& keys, std::size_t connections)
      : keys_(keys), clients_(connections) {}
  Shot next(std::size_t connection) override {
    Client& client = clients_[connection];
    const std::string& key = keys_[connection % keys_.size()];
    if (client.task.empty() || client.polls == 10) {
      client = {.request = create_request(key), .creating = true};
      return {client.request, kCreate};
    }
    ++client.polls;
    client.request = poll_request(key, client.task);
    return {client.request, kPoll};
  }
  void answered(std::size_t connection, int status, std::string_view body) override {
    Client& client = clients_[connection];
    if (std::exchange(client.creating, false) && status == 202) {
      constexpr std::string_view kId = "\"id\":\"";
      const auto at = body.find(kId);
      client.task = body.substr(at + kId.size(), 30);
    }
  }

 private:
  struct Client {
    std::string task{}, request{};
    std::size_t polls = 0;
    bool creating = false;
  };
  const std::vector<std::string>& keys_;
  std::vector<Client> clients_;
};

// What a closed loop is to reach; 0: nothing is asked.
struct Wanted {
  std::string what{};
  double per_second = 0, p99_ms = 0, api_us = 0;
  double client_us = 0;  // What the ceiling's own side takes.
};

void note_goals(Context& context, const Wanted& wanted, const LoadResult& result, double ceiling) {
  const Tally all = result.all();
  if (wanted.per_second > 0) {
    context.report.goal({.what = wanted.what,
                         .figure = result.good_per_second(),
                         .target = wanted.per_second,
                         .unit = "/s",
                         .ceiling = ceiling});
  }
  if (wanted.p99_ms > 0) {
    context.report.goal({.what = wanted.what + ", p99",
                         .figure = all.latency.quantile(0.99),
                         .target = wanted.p99_ms,
                         .unit = "ms",
                         .at_most = true,
                         .digits = 1});
  }
  if (wanted.api_us > 0) {
    context.report.goal({.what = wanted.what + ", CPU of the API",
                         .figure = context.report.cost("api"),
                         .target = wanted.api_us,
                         .unit = "us",
                         .at_most = true,
                         .ceiling = wanted.client_us,
                         .digits = 1});
  }
}

// Closed loop for the throughput, then open loop for the latency at a load it can bear, which is
// returned. An aim that follows its connections needs one of its own for each.
LoadResult closed_and_open(Context& context,
                           Stand& stand,
                           Aim& closed_aim,
                           Aim& open_aim,
                           double ceiling,
                           const Wanted& wanted) {
  const std::uint16_t port = stand.api_port();
  run_load({.port = port, .connections = kConnections, .seconds = context.seconds / 5}, closed_aim);
  const LoadResult closed =
      measured(context,
               stand,
               "closed loop, 64 connections",
               {.port = port, .connections = kConnections, .rate = 0, .seconds = context.seconds},
               closed_aim,
               ceiling);
  note_goals(context, wanted, closed, ceiling);
  const double rate = kOpenLoad * closed.good_per_second();
  return measured(
      context,
      stand,
      "open loop at 70 %",
      {.port = port, .connections = kOpenConnections, .rate = rate, .seconds = context.seconds},
      open_aim,
      0);
}

// How many commands of a kind go to the database at once, since the stand began.
std::string together(Stand& stand) {
  std::string out;
  const auto add = [&](const char* what, const std::string& ops, const std::string& use) {
    const auto of = [&](const std::string& part) {
      return metric(ops, "audiogen_commit_batch_size_" + part + "{use=\"" + use + "\"}");
    };
    if (const double batches = of("count"); batches > 0) {
      out += (out.empty() ? "" : ", ") + fixed(of("sum") / batches, 1) + " " + what;
    }
  };
  add("polls", stand.stack().ops_url(), "find");
  add("creations", stand.stack().ops_url(), "create");
  add("claims", stand.stack().worker_ops_url(0), "claim");
  add("settlements", stand.stack().worker_ops_url(0), "settle");
  return out;
}

}  // namespace

void expect_borne(const std::string& name, const LoadResult& result) {
  const Tally all = result.all();
  std::uint64_t answers = 0;
  std::string told;
  for (const auto& [status, count] : all.statuses) {
    answers += count;
    told += " " + std::to_string(status) + ": " + std::to_string(count);
  }
  if (answers != all.good + all.refused() || all.good == 0 || result.broken > 0) {
    fail(name + ": unexpected answers:" + told + "; broken: " + std::to_string(result.broken));
  }
}

LoadResult measured(Context& context,
                    Stand& stand,
                    const std::string& name,
                    const LoadOptions& options,
                    Aim& aim,
                    double ceiling) {
  const Usage before = stand.usage();
  LoadResult result = run_load(options, aim);
  const Usage after = stand.usage();
  expect_borne(name, result);
  const Tally all = result.all();
  Row row{.name = name,
          .per_second = result.good_per_second(),
          .latency = &all.latency,
          .ceiling = ceiling};
  if (options.rate > 0) {
    row.note = "asked for " + fixed(options.rate, 0) + "/s";
  }
  for (const auto& [count, what] :
       {std::pair(all.refused(), " refused with 503"), std::pair(result.not_sent, " not sent")}) {
    if (count > 0) {
      row.note += (row.note.empty() ? "" : ", ") + std::to_string(count) + what;
    }
  }
  context.report.row(row, static_cast<double>(all.good), before, after);
  return result;
}

void bench_create(Context& context) {
  Stand stand(context.stand(true));
  context.report.table(
      "POST, 256 users, workers stopped. Ceiling: the same transactions from a "
      "bare loop, batches of 32.");
  const auto own_cpu = [] { return cpu_seconds(::getpid()).value_or(0); };
  const double cpu_before = own_cpu();
  double ceiling = create_ceiling(stand, context.seconds / 2, stand.users().size(), false);
  const double client_us = (own_cpu() - cpu_before) / (ceiling * context.seconds / 2) * 1e6;
  Rounds aim = creates_of(stand.keys());
  closed_and_open(context,
                  stand,
                  aim,
                  aim,
                  ceiling,
                  {.what = "creations",
                   .per_second = 14'000,
                   .p99_ms = 15,
                   .api_us = 40,
                   .client_us = client_us});
  KeyedCreates keyed(stand.keys());
  ceiling = create_ceiling(stand, context.seconds / 2, stand.users().size(), true);
  measured(context,
           stand,
           "with Idempotency-Key, closed loop",
           {.port = stand.api_port(),
            .connections = kConnections,
            .rate = 0,
            .seconds = context.seconds},
           keyed,
           ceiling);
  context.report.line({.name = "broker alone: hints confirmed",
                       .per_second = publish_ceiling(context.seconds / 2)});
  stand.audit();
}

void bench_hot_user(Context& context) {
  Stand stand(context.stand(true));
  context.report.table("POST, all of one user: one balance row, one lock.");
  Rounds aim = creates_of(std::span(stand.keys()).first(1));
  closed_and_open(context,
                  stand,
                  aim,
                  aim,
                  create_ceiling(stand, context.seconds / 2, 1, false),
                  {.what = "creations, all of one user", .per_second = 10'000});
  stand.audit();
}

void bench_poll(Context& context) {
  Stand stand(context.stand(true));
  const std::vector<TaskId> tasks = stand.fill(context.scaled(20'000, 500));
  context.report.table(
      "GET, 256 users, 20,000 tasks in turn. Ceiling: the HTTP server alone with "
      "a constant answer.");
  const double bare =
      http_ceiling(context.seconds / 2, poll_request(stand.keys().front(), tasks.front().text()));
  context.report.line({.name = "database alone: one row a round trip, 4 connections",
                       .per_second = read_ceiling(stand, context.seconds / 2, tasks)});
  Rounds aim = polls_of(stand.keys(), tasks);
  closed_and_open(
      context, stand, aim, aim, bare, {.what = "polls", .per_second = 50'000, .p99_ms = 5});
  stand.audit();
}

void bench_mixed(Context& context) {
  Stand stand(context.stand(true));
  const Provider provider(stand.stack().log_folder(), 0);
  stand.watch("provider", {provider.pid()});
  stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
  context.report.table("Ten polls per creation, one worker on.");
  Mixed closed(stand.keys(), kConnections);
  Mixed open(stand.keys(), kOpenConnections);
  const LoadResult paced = closed_and_open(context, stand, closed, open, 0, {});
  context.report.line({.name = "… its creations", .latency = &paced.kinds[Mixed::kCreate].latency});
  context.report.line({.name = "… its polls", .latency = &paced.kinds[Mixed::kPoll].latency});
  context.report.line({.name = "… in one round trip or transaction", .note = together(stand)});
  stand.audit();
}

}  // namespace audiogen::bench
