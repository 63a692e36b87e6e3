#include "common/domain/spend_limit.h"

namespace audiogen {

std::string_view period_name(SpendPeriod period) {
  return period == SpendPeriod::kDay ? "day" : "month";
}

std::optional<SpendPeriod> parse_period(std::string_view name) {
  for (const SpendPeriod period : {SpendPeriod::kDay, SpendPeriod::kMonth}) {
    if (period_name(period) == name) {
      return period;
    }
  }
  return std::nullopt;
}

bool is_spend_limit(const SpendLimit& limit) {
  return limit.amount >= credits(kSpendLimitMin) && limit.amount <= credits(kSpendLimitMax) &&
         limit.amount.value % credits(1).value == 0;
}

std::string spend_limit_text(const SpendLimit& limit) {
  return format_credits(limit.amount) + " credits a " + std::string(period_name(limit.period));
}

SpendWindow spend_window(SpendPeriod period, Instant at) {
  using std::chrono::days, std::chrono::months, std::chrono::sys_days;
  const auto day = std::chrono::floor<days>(at);
  if (period == SpendPeriod::kDay) {
    return {day, day + days(1)};
  }
  const std::chrono::year_month_day date(day);
  const auto first = date.year() / date.month() / 1;
  return {sys_days(first), sys_days(first + months(1))};
}

bool lifts(const std::optional<SpendLimit>& after, const std::optional<SpendLimit>& before) {
  return before && (!after || after->period != before->period || after->amount > before->amount);
}

}  // namespace audiogen
