#include "api/admin/queue_screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/utf8.h"
#include "common/domain/open_task.h"

namespace audiogen::api {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

// From then on nobody should go by what is shown.
constexpr seconds kOld{5};

std::string number(double value) {
  char out[32];
  std::snprintf(out, sizeof out, value < 10 && value != std::floor(value) ? "%.1f" : "%.0f", value);
  return out;
}

std::string time(std::chrono::duration<double> of) {
  const double value = std::max(of.count(), 0.0);
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  return value < 2 * kMinute ? number(std::floor(value)) + " s"
         : value < 2 * kHour ? number(std::floor(value / kMinute)) + " min"
         : value < 2 * kDay  ? number(std::floor(value / kHour)) + " h"
                             : number(std::floor(value / kDay)) + " d";
}

template <class T>
std::string known(const std::optional<T>& value, const char* unit = "") {
  return value ? number(static_cast<double>(*value)) + unit : "?";
}

// Characters, as far as they take a column each.
std::size_t width(std::string_view text) {
  return utf8_length(text);
}

// Exactly `columns` wide; control characters, which names of hosts may have, become "?".
std::string fit(std::string_view text, std::size_t columns, bool right = false) {
  std::string out = clip_utf8(text, columns);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return ascii::is_control(c); }, '?');
  const std::size_t missing = columns - std::min(columns, width(out));
  return right ? std::string(missing, ' ') + out : out + std::string(missing, ' ');
}

std::string cut(std::string_view text, std::size_t columns) {
  std::string out = fit(text, std::min(columns, width(text)));
  return out;
}

struct Column {
  std::string title;
  std::size_t width = 0;
  bool right = false;
  int weight = 0;  // Where there is no room for all, the lightest are left out.
};
using Cells = std::vector<std::string>;

// The head, then a line for each row.
std::vector<std::string> table(std::vector<Column> columns,
                               std::vector<Cells> rows,
                               std::size_t room) {
  const auto taken = [&] {
    std::size_t sum = 0;
    for (const Column& column : columns) {
      sum += column.width + 2;
    }
    return sum - 2;
  };
  while (columns.size() > 1 && taken() > room) {
    const auto least =
        std::min_element(columns.begin(), columns.end(), [](const auto& a, const auto& b) {
          return a.weight < b.weight;
        });
    const auto at = least - columns.begin();
    columns.erase(least);
    for (Cells& row : rows) {
      row.erase(row.begin() + at);
    }
  }
  std::vector<std::string> out;
  const auto line = [&](const auto& cell) {
    std::string text;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      text += (i == 0 ? "" : "  ") + fit(cell(i), columns[i].width, columns[i].right);
    }
    out.push_back(cut(text, room));
  };
  line([&](std::size_t i) { return columns[i].title; });
  for (const Cells& row : rows) {
    line([&](std::size_t i) { return row[i]; });
  }
  return out;
}

std::string state_of(const Situation::Worker& worker) {
  return worker.drains() ? "draining" : std::string(worker_state_name(worker.state));
}

std::vector<std::string> provider_lines(const QueueSeen& seen, std::size_t most, std::size_t room) {
  auto providers = providers_of(seen.now);
  providers.resize(std::min(providers.size(), most));
  std::vector<Cells> rows;
  for (const ProviderSum& p : providers) {
    rows.push_back({p.name,
                    p.overridden ? (p.overridden->open ? "op:open" : "op:closed") : p.state,
                    std::to_string(p.in_flight) + "/" + (p.limit ? std::to_string(*p.limit) : "?"),
                    std::to_string(p.waiting),
                    std::to_string(p.workers_ready) + "/" + std::to_string(p.workers)});
  }
  return table({{"PROVIDER", 20, false, 9},
                {"STATE", 9, false, 8},
                {"IN FLIGHT", 9, true, 7},
                {"WAITING", 7, true, 5},
                {"WORKERS", 7, true, 4}},
               std::move(rows),
               room);
}

// Those that work first, then those that went last.
std::vector<std::string> worker_lines(const QueueSeen& seen, std::size_t most, std::size_t room) {
  std::vector<const Situation::Worker*> workers;
  for (const auto& worker : seen.now.workers) {
    workers.push_back(&worker);
  }
  std::stable_sort(workers.begin(), workers.end(), [](const auto* a, const auto* b) {
    return std::pair(a->state, b->seen_at) < std::pair(b->state, a->seen_at);
  });
  workers.resize(std::min(workers.size(), most));
  std::vector<Cells> rows;
  for (const auto* worker : workers) {
    rows.push_back({worker->host,
                    std::to_string(worker->pid),
                    worker->status.version.empty() ? "?" : worker->status.version,
                    state_of(*worker),
                    std::to_string(worker->in_flight) + "/" + std::to_string(worker->places),
                    time(seen.now.at - worker->ended_at.value_or(worker->seen_at))});
  }
  return table({{"WORKER", 20, false, 9},
                {"PID", 7, true, 5},
                {"VERSION", 8, false, 3},
                {"STATE", 8, false, 8},
                {"IN FLIGHT", 9, true, 7},
                {"SEEN", 7, true, 6}},
               std::move(rows),
               room);
}

std::string cause(const QueueSeen& seen, const store::TaskRow& task) {
  const auto of = cause_of(task.view, task.lease_until, seen.oldest.at);
  return of ? std::string(cause_name(*of)) : "";
}

std::vector<std::string> task_lines(const QueueSeen& seen,
                                    const std::vector<store::TaskRow>& tasks,
                                    std::size_t room) {
  std::vector<Cells> rows;
  for (const store::TaskRow& task : tasks) {
    rows.push_back({task.view.id.text(),
                    std::string(state_name(task.view.state)),
                    time(seen.oldest.at - task.view.created_at),
                    cause(seen, task),
                    std::to_string(task.view.claims)});
  }
  return table({{"TASK", 30, false, 9},
                {"STATUS", 8, false, 4},
                {"AGE", 7, true, 8},
                {"WAITS FOR", 11, false, 7},
                {"CLAIMS", 6, true, 3}},
               std::move(rows),
               room);
}

// Words of a line, in as few lines as they fit into, two blanks between them.
void flow(std::vector<std::string>& out, const std::vector<std::string>& parts, std::size_t room) {
  std::string line;
  for (const std::string& part : parts) {
    if (!line.empty() && width(line) + 2 + width(part) > room) {
      out.push_back(cut(std::exchange(line, ""), room));
    }
    line += (line.empty() ? "" : "  ") + part;
  }
  out.push_back(cut(line, room));
}

std::vector<std::string> figures(const QueueSeen& seen, std::size_t room) {
  const Situation& now = seen.now;
  const auto ended = ended_in_last_minute(now);
  const auto drain = drain_seconds(now.backlog(), completions_per_second(now));
  const std::string or_more = now.open().exact ? "" : "+";
  std::vector<std::string> out;
  flow(out,
       {"ready " + count_text(now.ready),
        "running " + count_text(now.running),
        "retry " + count_text(now.waiting_retry),
        "parked " + count_text(now.parked),
        "oldest " + time(now.oldest_waiting()) + or_more},
       room);
  flow(out,
       {"arrivals " + number(now.arrivals_per_second) + "/s",
        "done " + (ended ? number(static_cast<double>(ended->succeeded)) : "?") + "/min",
        "failed " + (ended ? number(static_cast<double>(ended->failures())) : "?") + "/min",
        "p50 " + known(ended ? ended->times.median_seconds() : std::nullopt, " s"),
        "drain " + (drain ? time(std::chrono::duration<double>(*drain)) + or_more : "?")},
       room);
  std::vector<std::string> rest = {
      "held " + format_credits(now.credits_held) + or_more + " credits",
      "dead " + known(seen.dead)};
  for (const auto& api : now.apis) {
    if (api.alive && api.unsent > seconds(0)) {
      rest.push_back("hints unsent " + time(api.unsent));
      break;
    }
  }
  const auto refused = now.refused_share();
  if (!refused) {
    rest.push_back("refused ?");
  } else if (*refused > 0) {
    rest.push_back("refused " + number(100 * *refused) + " %");
  }
  if (ended) {
    for (const auto& [code, count] : ended->failed) {
      rest.push_back(code + " " + std::to_string(count));
    }
  }
  flow(out, rest, room);
  return out;
}

std::string painted(std::string line, const char* attribute, Paint paint) {
  return paint == Paint::kNone ? line : "\x1B[" + std::string(attribute) + "m" + line + "\x1B[0m";
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

const char* sort_name(QueueView::Sort sort) {
  switch (sort) {
    case QueueView::Sort::kAge:
      return "age";
    case QueueView::Sort::kCause:
      return "cause";
    case QueueView::Sort::kUser:
      break;
  }
  return "user";
}

}  // namespace

std::vector<store::TaskRow> tasks_of(const QueueSeen& seen, const QueueView& view) {
  std::vector<store::TaskRow> out;
  for (const store::TaskRow& task : seen.oldest.tasks) {
    const std::string text = task.view.id.text() + " " + task.user.text() + " " +
                             cause(seen, task) + " " + std::string(state_name(task.view.state));
    if (text.find(view.find) != std::string::npos) {
      out.push_back(task);
    }
  }
  if (view.sort != QueueView::Sort::kAge) {
    std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
      return view.sort == QueueView::Sort::kUser ? a.user < b.user
                                                 : cause(seen, a) < cause(seen, b);
    });
  }
  return out;
}

std::vector<std::string> draw(const QueueSeen& seen,
                              const QueueView& view,
                              ScreenSize size,
                              Paint paint) {
  const std::size_t room = std::max<std::size_t>(size.columns, 1);
  const bool old = seen.age >= kOld || !view.trouble.empty();
  std::vector<std::string> out;
  const auto add = [&](const std::string& line, const char* attribute = nullptr) {
    // What is old is grey, whatever it says.
    const char* const as = old ? "2" : attribute;
    out.push_back(as == nullptr ? line : painted(line, as, paint));
  };
  const std::string at = format_iso(seen.now.at).substr(0, 19);
  add(cut("queue at " + at + "Z, " + time(seen.age) + " old" + (view.paused ? ", paused" : "") +
              (view.trouble.empty() ? "" : ": " + view.trouble),
          room));
  const auto [how, health] = assess(seen.now);
  const bool well = health == Health::kHealthy;
  add(cut(how, room), paint == Paint::kColours ? (well ? "1;32" : "1;31") : "1");
  const std::size_t body = size.rows > 1 ? size.rows - 1 : 1;
  if (view.task) {
    add("");
    const auto lines = lines_of(*view.task);
    for (std::size_t i = view.task_line; i < lines.size() && out.size() < body; ++i) {
      add(cut(lines[i], room));
    }
  } else {
    for (const std::string& line : figures(seen, room)) {
      add(line);
    }
    // A third of what is left for providers, of the rest half for workers.
    const auto left = [&] { return body - std::min(body, out.size()); };
    const auto block = [&](const std::vector<std::string>& lines) {
      if (lines.size() > 1 && left() > 2) {
        add("");
        for (std::size_t i = 0; i < lines.size() && left() > 0; ++i) {
          add(lines[i], i == 0 ? "4" : nullptr);
        }
      }
    };
    constexpr std::size_t kHead = 2;
    const auto most = [&](std::size_t part) {
      return std::max<std::size_t>(left() / part, kHead + 1) - kHead;
    };
    block(provider_lines(seen, most(3), room));
    block(worker_lines(seen, most(2), room));
    const auto tasks = tasks_of(seen, view);
    const auto lines = task_lines(seen, tasks, room);
    if (lines.size() > 1 && left() > 2) {
      add("");
      add(lines[0], "4");
      // The selected one is among those that there is room for.
      const std::size_t selected = std::min(view.selected, tasks.size() - 1);
      const std::size_t rows = left();
      const std::size_t first = selected < rows ? 0 : selected + 1 - rows;
      for (std::size_t i = first; i < tasks.size() && left() > 0; ++i) {
        add(lines[i + 1], i == selected && paint != Paint::kNone ? "7" : nullptr);
      }
    }
  }
  out.resize(body);
  std::string keys = view.task ? "q back  up/down scroll"
                               : "q quit  p " + std::string(view.paused ? "go on" : "pause") +
                                     "  s sort: " + sort_name(view.sort) + "  / find" +
                                     (view.find.empty() ? "" : ": " + view.find) + "  Enter open";
  if (view.finding) {
    keys = "find: " + view.find + "_  (Enter: done, Esc: all)";
  }
  if (size.rows > 1) {
    out.push_back(painted(cut(keys, room), "2", paint));
  }
  return out;
}

Act press(QueueView& view, const QueueSeen& seen, Key key) {
  const auto code = static_cast<std::uint32_t>(key);
  if (view.finding) {
    if (key == Key::kEnter) {
      view.finding = false;
    } else if (key == Key::kEscape) {
      view.finding = false;
      view.find.clear();
    } else if (key == Key::kBackspace) {
      view.find.resize(view.find.size() - std::min<std::size_t>(view.find.size(), 1));
    } else if (code >= ' ' && code < 0x7F && view.find.size() < 40) {
      view.find += static_cast<char>(code);
    }
    view.selected = 0;
    return Act::kNone;
  }
  const std::size_t step = key == Key::kPageUp || key == Key::kPageDown ? 10 : 1;
  const bool up = key == Key::kUp || key == Key::kPageUp || code == 'k';
  const bool down = key == Key::kDown || key == Key::kPageDown || code == 'j';
  const std::size_t rows = view.task ? lines_of(*view.task).size() : tasks_of(seen, view).size();
  std::size_t& place = view.task ? view.task_line : view.selected;
  place = std::min(place, rows == 0 ? 0 : rows - 1);
  if (up) {
    place -= std::min(place, step);
  } else if (down) {
    place = rows == 0 ? 0 : std::min(place + step, rows - 1);
  } else if (view.task && (code == 'q' || key == Key::kEscape || key == Key::kEnter)) {
    view.task.reset();
  } else if (code == 'q') {
    return Act::kQuit;
  } else if (code == 'p') {
    view.paused = !view.paused;
  } else if (code == 's' && !view.task) {
    view.sort = view.sort == QueueView::Sort::kAge     ? QueueView::Sort::kCause
                : view.sort == QueueView::Sort::kCause ? QueueView::Sort::kUser
                                                       : QueueView::Sort::kAge;
  } else if (code == '/' && !view.task) {
    view.finding = true;
    view.find.clear();
  } else if (key == Key::kEnter && rows > 0) {
    return Act::kOpen;
  }
  return Act::kNone;
}

}  // namespace audiogen::api
