#include "worker/chain/chain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "common/base/utf8.h"
#include "common/domain/scene.h"
#include "common/domain/voices.h"

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Trying the same provider again is for short hiccups; longer ones are for the next provider or for
// later.
constexpr int kTriesMax = 3;
constexpr milliseconds kFirstWait{250};
constexpr milliseconds kWaitMax{2'000};  // It holds a place of the worker meanwhile.
// Of the slots of a chain, so many more tasks are claimed: one, and a quarter.
constexpr std::size_t kReserveShare = 4;

// What a call needs as long as its provider has not shown it: its timeout, this at most, and where
// it has none, this.
constexpr milliseconds kNeededMax{60'000};
constexpr milliseconds kNeededInTheHouse{10'000};

// Of failures so many are remembered, which is all that wait for another try where calls are few.
constexpr std::size_t kFailedMax = 512;

bool has_voice(const Capabilities& able, const std::string& voice) {
  const bool any = able.voices.empty();
  return able.speaks &&
         (any || std::find(able.voices.begin(), able.voices.end(), voice) != able.voices.end());
}

bool can_serve(const Capabilities& able, const GenerationRequest& request) {
  return (request.prompt.size() <= able.prompt_max ||
          utf8_length(request.prompt) <= able.prompt_max) &&
         (request.audio_references.empty() || able.audio_references) &&
         (!request.image_url || able.image) &&
         (!speaker(request.voice) || has_voice(able, *request.voice));
}

// Does `first` serve everything that `second` does?
bool covers(const Capabilities& first, const Capabilities& second) {
  const auto known = [&first](const std::string& voice) {
    return std::find(first.voices.begin(), first.voices.end(), voice) != first.voices.end();
  };
  return first.prompt_max >= std::min(second.prompt_max, kPromptMax) &&
         (first.scenes || !second.scenes) && (first.scenes || first.cues || !second.cues) &&
         (first.speaks || !second.speaks) && (first.audio_references || !second.audio_references) &&
         (first.image || !second.image) &&
         (first.voices.empty() || (!second.voices.empty() &&
                                   std::all_of(second.voices.begin(), second.voices.end(), known)));
}

// Does any of those before it serve everything that `able` does? Then it only gets what those have
// failed.
bool is_covered(const std::vector<const Capabilities*>& before, const Capabilities& able) {
  return std::any_of(before.begin(), before.end(), [&able](const Capabilities* first) {
    return covers(*first, able);
  });
}

// Slots of the providers of a chain, where several may share an account's places.
class Slots {
 public:
  // Of them, those of `provider` that no other has counted.
  std::size_t all_of(const Bulkhead& provider) {
    return part(limits_, provider.account(), provider.limit(), &Account::places);
  }
  // As if no other worker had places of accounts.
  std::size_t all_alone(const Bulkhead& provider) {
    return part(limits_, provider.account(), provider.own_limit(), &Account::most);
  }
  std::size_t idle_of(const Bulkhead& provider) {
    return part(free_, provider.account(), provider.idle(), &Account::free);
  }

 private:
  using Left = std::map<const Account*, std::size_t>;
  static std::size_t part(Left& left,
                          const Account* account,
                          std::size_t own,
                          std::size_t (Account::*count)() const) {
    if (account == nullptr) {
      return own;
    }
    const auto known = left.find(account);
    std::size_t& rest = known == left.end()
                            ? left.emplace(account, (account->*count)()).first->second
                            : known->second;
    const std::size_t out = std::min(own, rest);
    rest -= out;
    return out;
  }

  Left limits_, free_;
};

// Of those that wait for so many slots: a few, so that none idles while the next task is claimed.
std::size_t reserve_of(std::size_t slots) {
  return 1 + slots / kReserveShare;
}

// Free slots, of so many, but for those that are kept, and a few to wait for the next ones.
std::size_t openings_of(std::size_t idle,
                        std::size_t slots,
                        std::size_t waiting,
                        std::size_t coming) {
  const std::size_t kept = std::min(idle, coming), reserve = reserve_of(slots);
  return idle - kept + reserve - std::min(reserve, waiting + coming - kept);
}

milliseconds wait_before_same(const ProviderFault& fault, const Standing& standing) {
  const double base = static_cast<double>((kFirstWait * (1 << (standing.tries - 1))).count());
  auto wait = milliseconds(static_cast<std::int64_t>(base * (1 + 0.5 * standing.jitter)));
  if (fault.retry_after) {
    wait = std::max<milliseconds>(wait, *fault.retry_after);
  }
  return wait;
}

// What a fault says against its provider.
Breaker::Failure failure_of(std::optional<Fault> fault) {
  using Failure = Breaker::Failure;
  if (!fault) {
    return Failure::kNone;
  }
  switch (*fault) {
    // Of the task: it works, and has looked at what it was asked for.
    case Fault::kRejected:
      return Failure::kNone;
    case Fault::kMisconfigured:
      return Failure::kLasting;
    case Fault::kThrottled:
      return Failure::kThrottled;
    default:
      return Failure::kUsual;
  }
}

// Whether it is neither a failure of the provider nor a sign that it works. A text that kills it,
// or that it cannot make, is no success: that would close a breaker that others' failures have
// opened. And what we end, or never begin, is nobody's failure.
bool says_nothing(Fault fault) {
  switch (fault) {
    case Fault::kBrokenByInput:
    case Fault::kUnsupportedInput:
    case Fault::kOutOfTime:
    case Fault::kNotCalled:
    case Fault::kCanceled:
      return true;
    default:
      return false;
  }
}

// Nobody is asked any more in this claim.
Decision stop(Trouble trouble) {
  const Verdict verdict = verdict_on(trouble);
  const NextStep step = verdict.kind == ClaimEnd::Kind::kFail    ? NextStep::kFail
                        : verdict.kind == ClaimEnd::Kind::kRetry ? NextStep::kRetryLater
                                                                 : NextStep::kGiveBack;
  return {.step = step, .failure = verdict.failure, .trouble = trouble};
}

Decision ask(NextStep step, milliseconds wait = milliseconds(0)) {
  return {.step = step,
          .failure = verdict_on(Trouble::kNobodyNow).failure,
          .wait = wait,
          .trouble = Trouble::kNobodyNow};
}

Decision elsewhere(bool another) {
  return another ? ask(NextStep::kNextProvider) : stop(Trouble::kNobodyNow);
}

// By one that has not taken the task, which uses up no attempt however often that is so. Whoever
// was called before, and failed, has used it up.
Decision untaken(const Standing& standing) {
  return standing.another || standing.called ? elsewhere(standing.another) : stop(standing.nobody);
}

}  // namespace

Decision after_fault(const ProviderFault& fault, const Standing& standing) {
  switch (fault.fault) {
    case Fault::kRejected:
      return stop(Trouble::kContentRefused);
    case Fault::kCanceled:
      return stop(Trouble::kStopping);
    case Fault::kOutOfTime:
      return stop(Trouble::kOutOfTime);
    case Fault::kUnsupportedInput:
      if (!standing.another && standing.nobody == Trouble::kNobodyCan) {
        return stop(fault.no_voice ? Trouble::kNobodyReads : Trouble::kNobodyCan);
      }
      // One that cannot says nothing of one that could have, had it worked just now.
      return untaken(standing);
    case Fault::kNotCalled:
      return untaken(standing);
    case Fault::kRetrySame:
    case Fault::kThrottled: {
      const milliseconds wait = std::max(wait_before_same(fault, standing), standing.closed);
      if (comes_again(fault, standing.tries) && standing.closed <= kWaitMax &&
          wait + standing.call_time < standing.time_left) {
        return ask(NextStep::kSameProvider, wait);
      }
      return fault.fault == Fault::kThrottled ? untaken(standing) : elsewhere(standing.another);
    }
    case Fault::kTryNext:
    case Fault::kMisconfigured:
    case Fault::kBrokenByInput:
    case Fault::kUnknownOutcome:
      break;
  }
  return elsewhere(standing.another);
}

bool comes_again(const ProviderFault& fault, int tries) {
  return is_brief(fault.fault) && tries < kTriesMax &&
         fault.retry_after.value_or(std::chrono::seconds(0)) <= kWaitMax;
}

Chain::Chain(std::vector<std::unique_ptr<AudioProvider>> providers, Accounts* accounts) {
  for (std::unique_ptr<AudioProvider>& provider : providers) {
    const Capabilities& able = provider->capabilities();
    auto account = accounts == nullptr || able.account.empty()
                       ? nullptr
                       : accounts->get(able.account, able.account_max_in_flight);
    links_.push_back(std::make_unique<Link>(std::move(provider), std::move(account)));
  }
}

bool Chain::serves(std::size_t position, const GenerationRequest& request) const {
  const Capabilities& able = links_[position]->provider.capabilities();
  if (!can_serve(able, request)) {
    return false;
  }
  const auto none_makes_it = [&](bool by_name) {
    return std::none_of(links_.begin(), links_.end(), [&](const auto& link) {
      const Capabilities& other = link->provider.capabilities();
      return (other.scenes || (by_name && other.cues)) && can_serve(other, request);
    });
  };
  // Prompts are read last: this is asked of every task, and often.
  if (able.scenes || none_makes_it(true) || !is_scene(request.prompt, request.voice)) {
    return true;
  }
  const bool by_name = is_scene_of_names(request.prompt, request.voice);
  return (by_name && able.cues) || none_makes_it(by_name);
}

std::optional<std::size_t> Chain::choose(const GenerationRequest& request,
                                         std::size_t from,
                                         TaskTime time) const {
  for (std::size_t i = from; i < links_.size(); ++i) {
    Link& link = *links_[i];
    if (serves(i, request) && link.provider.fits_in_turn(time) &&
        link.closed_to_calls().count() == 0) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> Chain::choose_in_line(const GenerationRequest& request,
                                                 std::size_t from,
                                                 TaskTime time,
                                                 const Others& others,
                                                 std::optional<std::size_t> stays) const {
  const auto first = choose(request, from, time);
  auto next = first;
  while (next && !at(*next).fits_in_turn(time, others(*next))) {
    next = choose(request, *next + 1, time);
  }
  const bool may_stay = stays && choose(request, *stays, time) == stays;
  return next ? next : may_stay ? stays : first;
}

std::optional<std::size_t> Chain::choose_beside(const GenerationRequest& request,
                                                std::size_t slow,
                                                TaskTime time) const {
  const Capabilities& raced = at(slow).capabilities();
  const auto may_race = [&](std::size_t position) {
    const Capabilities& able = at(position).capabilities();
    return able.tier == raced.tier && !(able.gives_tickets && raced.gives_tickets);
  };
  auto next = choose(request, slow + 1, time);
  while (next && !may_race(*next)) {
    next = choose(request, *next + 1, time);
  }
  return next;
}

std::optional<std::size_t> Chain::choose_free(const GenerationRequest& request,
                                              std::size_t from,
                                              TaskTime time) const {
  auto next = choose(request, from, time);
  while (next && at(*next).idle() == 0) {
    next = choose(request, *next + 1, time);
  }
  return next;
}

bool Chain::could_have(std::size_t position,
                       const GenerationRequest& request,
                       TaskTime time) const {
  return serves(position, request) && at(position).fits(time);
}

bool Chain::is_fallback(const GenerationRequest& request, std::size_t position) const {
  for (std::size_t i = 0; i < position; ++i) {
    if (serves(i, request)) {
      return true;
    }
  }
  return false;
}

Nobody Chain::nobody(const GenerationRequest& request,
                     TaskTime time,
                     std::span<const std::size_t> except,
                     std::span<const SaidLater> later) const {
  const auto now = Clock::now();
  std::optional<Clock::time_point> first_said;
  for (const SaidLater& one : later) {
    if (one.until) {
      first_said = std::min(first_said.value_or(*one.until), *one.until);
    }
  }
  const auto until_asked = [&](std::size_t position) {
    const auto said = std::find_if(later.begin(), later.end(), [position](const SaidLater& one) {
      return one.position == position;
    });
    const auto until = said == later.end() ? std::nullopt : said->until ? said->until : first_said;
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(until.value_or(now) - now));
  };
  Trouble trouble = Trouble::kNobodyCan;
  auto wait = milliseconds::max(), said = milliseconds::max();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = *links_[i];
    if (std::find(except.begin(), except.end(), i) != except.end() || !serves(i, request)) {
      continue;
    }
    const milliseconds asked_in = until_asked(i);
    if (link.provider.fits({.left = time.left - asked_in, .whole = time.whole})) {
      trouble = later.empty() && except.empty() ? Trouble::kLeftAlone : Trouble::kNotTaken;
      wait = std::min(wait, std::max(asked_in, link.closed_to_calls()));
      said = std::min(said, asked_in);
    } else if (trouble == Trouble::kNobodyCan) {
      trouble = Trouble::kOutOfTime;
    }
  }
  if (wait == milliseconds::max()) {
    return {.trouble = trouble};
  }
  return {.trouble = trouble, .wait = wait, .said = said};
}

std::size_t Chain::room() const {
  if (links_.empty()) {
    return std::numeric_limits<std::size_t>::max();  // That nobody can is said at once.
  }
  Slots counted;
  bool anybody = false;
  std::size_t slots = 0, free = 0, waiting = 0;
  // What those with a queue_wait cannot take in time, and who takes it.
  std::size_t overflow = 0, spare = 0;
  std::vector<const Capabilities*> trusted, impatient;
  for (const auto& link : links_) {
    const Capabilities& able = link->provider.capabilities();
    if (link->closed_to_calls().count() > 0 || is_covered(trusted, able)) {
      continue;
    }
    const std::size_t coming = link->coming->load();
    if (link->probes()) {
      free += coming > 0 ? 0 : 1;  // And whoever comes after it gets what it cannot take.
      continue;
    }
    const std::size_t idle = counted.idle_of(link->provider), kept = std::min(idle, coming);
    const std::size_t queue = link->provider.waiting() + coming - kept;
    slots += counted.all_of(link->provider);
    anybody = true;
    (is_covered(impatient, able) ? spare : free) += idle - kept;
    if (able.queue_wait.count() > 0) {
      overflow += queue;
      impatient.push_back(&able);
    } else {
      waiting += queue;
      trusted.push_back(&able);
    }
  }
  const std::size_t taken = std::min(spare, overflow);
  free += spare - taken;
  waiting += overflow - taken;
  // Of an account of which others have all places it has none, until somebody waits for one.
  const std::size_t reserve = anybody ? reserve_of(slots) : 0;
  return free + reserve - std::min(reserve, waiting);
}

std::size_t Chain::openings(std::size_t position) const {
  Link& link = *links_[position];
  if (link.closed_to_calls().count() > 0) {
    return 0;
  }
  const std::size_t coming = link.coming->load();
  const bool probes = link.probes();
  const Bulkhead& provider = link.provider;
  const Relief relief = relief_of(position);
  const std::size_t slots = provider.limit() + relief.slots;
  std::size_t own = coming > 0 ? 0 : 1;
  if (!probes) {
    own = openings_of(provider.idle(), slots, provider.waiting(), coming);
  }
  if (const Account* const account = provider.account(); account != nullptr) {
    // However many wait for its places elsewhere, who comes first there has his turn by his age.
    own = std::min(own, std::max<std::size_t>(openings(*account), is_lone(position) ? 1 : 0));
  }
  if (probes) {
    return own;
  }
  // Whoever else has a free slot has what waits there beyond those that may.
  const std::size_t waiting = provider.waiting() + coming - std::min(provider.idle(), coming);
  return own + relief.idle - std::min(relief.idle, waiting - std::min(waiting, reserve_of(slots)));
}

bool Chain::is_lone(std::size_t position) const {
  return links_[position]->coming->load() + links_[position]->provider.waiting() == 0;
}

template <class Relieves>
Positions Chain::relievers_that(std::size_t position, const Relieves& relieves) const {
  const Capabilities& able = at(position).capabilities();
  Positions out = 0;
  if (able.queue_wait.count() == 0) {
    return out;
  }
  for (std::size_t i = position + 1; i < links_.size(); ++i) {
    Link& other = *links_[i];
    if (relieves(other.provider.capabilities(), able) && other.closed_to_calls().count() == 0 &&
        !other.probes()) {
      out |= bit_of(i);
    }
  }
  return out;
}

Positions Chain::relievers(std::size_t position) const {
  return relievers_that(position, covers);
}

Chain::Relief Chain::relief_of(std::size_t position) const {
  Relief out;
  const auto relieves = [](const Capabilities& others, const Capabilities& able) {
    return covers(others, able) || covers(able, others);
  };
  const Positions relieve = relievers_that(position, relieves);
  if (relieve == 0) {
    return out;
  }
  Slots counted;  // Where they share an account.
  counted.idle_of(at(position));
  counted.all_of(at(position));
  for (std::size_t i = position + 1; i < links_.size(); ++i) {
    if ((relieve & bit_of(i)) != 0) {
      const Link& other = *links_[i];
      const std::size_t idle = counted.idle_of(other.provider);
      out.idle += idle - std::min(idle, other.coming->load());
      out.slots += counted.all_of(other.provider);
    }
  }
  return out;
}

std::size_t Chain::openings(const Account& account) const {
  std::size_t coming = 0, waiting = 0;
  for (const auto& link : links_) {
    if (link->provider.account() == &account) {
      coming += link->coming->load();
      waiting += link->provider.waiting();
    }
  }
  return openings_of(account.free(), account.places(), waiting, coming);
}

bool Chain::is_on_trial(std::size_t position) const {
  return links_[position]->closed_to_calls().count() == 0 && links_[position]->probes();
}

bool Openings::take(std::size_t position, std::size_t kept) {
  const auto of = [](auto& all, const auto& whose, const auto& open) -> Some& {
    const auto known = all.find(whose);
    return known == all.end() ? all.emplace(whose, Some{.open = open()}).first->second
                              : known->second;
  };
  Some& own = of(entries_, position, [&] { return chain_.openings(position); });
  if (own.open <= own.taken + kept) {
    return false;
  }
  const Bulkhead& provider = chain_.at(position);
  const Account* const account = provider.account();
  // What is passed on needs no place of it.
  if (account != nullptr && provider.capabilities().queue_wait.count() == 0) {
    Some& shared = of(accounts_, account, [&] { return chain_.openings(*account); });
    const bool is_first = own.taken == 0 && chain_.is_lone(position);
    if (!is_first && shared.open <= shared.taken) {
      return false;
    }
    ++shared.taken;
  }
  ++own.taken;
  return true;
}

std::shared_ptr<KeptSlot> Chain::keep_slot(std::size_t position) const {
  return std::make_shared<KeptSlot>(links_[position]->coming);
}

std::size_t Chain::capacity() const {
  return slots(&Slots::all_of);
}

std::size_t Chain::capacity_alone() const {
  return slots(&Slots::all_alone);
}

template <class Count>
std::size_t Chain::slots(Count count) const {
  Slots counted;
  std::size_t slots = 0;
  bool any_open = false;
  std::vector<const Capabilities*> before;
  for (const auto& link : links_) {
    any_open = any_open || link->closed_to_calls().count() == 0;
    const Capabilities& able = link->provider.capabilities();
    if (!is_covered(before, able)) {
      slots += (counted.*count)(link->provider);
      if (able.queue_wait.count() == 0) {
        before.push_back(&able);
      }
    }
  }
  return any_open ? slots : 0;
}

milliseconds Chain::needed_for(const GenerationRequest& request) const {
  milliseconds out{0};
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (serves(i, request)) {
      const milliseconds patience = at(i).capabilities().timeout;
      out = std::max(out,
                     at(i).needed().value_or(patience.count() > 0 ? std::min(patience, kNeededMax)
                                                                  : kNeededInTheHouse));
    }
  }
  return out;
}

milliseconds Chain::needed_most() const {
  milliseconds out{0};
  std::vector<const Capabilities*> before;
  for (const auto& link : links_) {
    const Capabilities& able = link->provider.capabilities();
    if (link->closed_to_calls().count() == 0 && !is_covered(before, able)) {
      out = std::max(out, link->provider.needed().value_or(milliseconds(0)));
      if (able.queue_wait.count() == 0) {
        before.push_back(&able);
      }
    }
  }
  return out;
}

RouteLine Chain::pace_of(std::size_t position,
                         std::size_t slots,
                         Positions have_lines,
                         double part) const {
  const Bulkhead& provider = at(position);
  const auto mean = provider.mean_time();
  if (!mean) {
    return {};
  }
  const auto in_seconds = [](milliseconds time) {
    return static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::seconds>(time).count());
  };
  constexpr double kIn = 1'000'000;  // Milliseconds: RouteLine::pace.
  constexpr double kMost = 1e9;
  Slots counted;
  const auto pace = [&](const Bulkhead& of, milliseconds takes) {
    const bool shares = of.account() != nullptr && of.account() == provider.account();
    return static_cast<double>(std::min(counted.all_of(of), slots)) * (shares ? part : 1) * kIn /
           static_cast<double>(std::max<std::int64_t>(takes.count(), 1));
  };
  double all = pace(provider, *mean);
  const Positions relieve = relievers(position) & ~have_lines;
  for (std::size_t i = position + 1; i < links_.size(); ++i) {
    if ((relieve & bit_of(i)) != 0) {
      all += pace(at(i), at(i).mean_time().value_or(*mean));
    }
  }
  return {.before = {},
          .pace = all > 0 ? static_cast<std::uint32_t>(std::clamp(std::round(all), 1.0, kMost)) : 0,
          .takes = std::max(in_seconds(*mean), 1U),
          .needs = in_seconds(provider.needed().value_or(milliseconds(0)))};
}

bool Chain::may_serve(std::size_t position, Route route) const {
  const auto& voices = at(position).capabilities().voices;
  return serves(position,
                example_of(route, voices.empty() ? std::string(kDefaultVoice) : voices.front()));
}

milliseconds Chain::longest_unresumed() const {
  milliseconds out{0};
  for (const auto& link : links_) {
    const Capabilities& able = link->provider.capabilities();
    const bool is_free = able.price && able.price->amount == Micros{0};
    if (!able.gives_tickets && !is_free) {
      out = std::max(out, able.timeout);
    }
  }
  return out;
}

bool Chain::sends_reference_bytes() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->provider.capabilities().reference_bytes;
  });
}

bool Chain::gives_tickets() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->provider.capabilities().gives_tickets;
  });
}

std::optional<std::size_t> Chain::find(const std::string& name) const {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->provider.name() == name) {
      return i;
    }
  }
  return std::nullopt;
}

bool Chain::admit(std::size_t position, TaskTime time) const {
  Link& link = *links_[position];
  if (!link.provider.fits(time)) {
    return false;
  }
  const MutexLock lock(link.mutex);
  return link.breaker.allow(Clock::now());
}

void Chain::resume(std::size_t position) const {
  Link& link = *links_[position];
  const MutexLock lock(link.mutex);
  link.breaker.resume();
}

void Chain::failed(std::size_t position, Fault fault, const Failing& of) const {
  if (fault == Fault::kThrottled && of.comes_again) {
    Link& link = *links_[position];
    const MutexLock lock(link.mutex);
    return link.breaker.said_later(Clock::now());
  }
  if (says_nothing(fault)) {
    return said_nothing(position);
  }
  answered(position);
  proved(position, fault, of);
}

Failing Chain::failing(std::uint64_t what, std::size_t position, Fault fault) const {
  Failing out{.what = what};
  if (says_nothing(fault) || failure_of(fault) != Breaker::Failure::kUsual) {
    return out;
  }
  std::vector<std::size_t> others;
  {
    const MutexLock lock(mutex_);
    bool known = false;
    for (const Failed& one : failed_) {
      if (one.what == what && one.fault == fault) {
        known = known || one.position == position;
        if (one.position != position) {
          others.push_back(one.position);
        }
      }
    }
    if (!known) {
      failed_.push_back({.what = what, .position = position, .fault = fault});
    }
    if (failed_.size() > kFailedMax) {
      failed_.pop_front();
    }
  }
  for (const std::size_t other : others) {
    Link& link = *links_[other];
    const MutexLock lock(link.mutex);
    link.breaker.take_back(what);
  }
  out.elsewhere = !others.empty();
  return out;
}

void Chain::said_nothing(std::size_t position) const {
  Link& link = *links_[position];
  const MutexLock lock(link.mutex);
  link.breaker.said_nothing(Clock::now());
}

void Chain::answered(std::size_t position) const {
  Link& link = *links_[position];
  const MutexLock lock(link.mutex);
  link.breaker.answered(Clock::now());
}

void Chain::proved(std::size_t position, std::optional<Fault> fault, const Failing& of) const {
  Link& link = *links_[position];
  if (fault && says_nothing(*fault)) {
    const MutexLock lock(link.mutex);
    link.breaker.proved_nothing(Clock::now());
    return;
  }
  Breaker::Failure failure = failure_of(fault);
  if (failure == Breaker::Failure::kUsual && (of.elsewhere || of.comes_again)) {
    failure = Breaker::Failure::kPassing;
  }
  const MutexLock lock(link.mutex);
  link.breaker.proved(failure, Clock::now(), of.what);
}

milliseconds Chain::closed_to_calls(std::size_t position) const {
  return links_[position]->closed_to_calls();
}

milliseconds Chain::Link::closed_to_calls() {
  const MutexLock lock(mutex);
  return std::chrono::ceil<milliseconds>(breaker.closed_to_calls(Clock::now()));
}

bool Chain::Link::probes() {
  const MutexLock lock(mutex);
  return breaker.state(Clock::now()) != Breaker::State::kClosed;
}

void Chain::set_overrides(std::span<const Override> overrides) const {
  for (const auto& link : links_) {
    const auto said = std::find_if(overrides.begin(), overrides.end(), [&](const Override& one) {
      return one.provider == link->provider.name();
    });
    const MutexLock lock(link->mutex);
    link->breaker.set_override(said == overrides.end() ? std::nullopt : std::optional(said->said));
  }
}

std::vector<ProviderStatus> Chain::status() const {
  std::vector<ProviderStatus> out;
  for (const auto& link : links_) {
    Breaker::State state{};
    std::optional<std::chrono::seconds> troubled;
    {
      const auto now = Clock::now();
      const MutexLock lock(link->mutex);
      state = link->breaker.state(now);
      if (const auto since = link->breaker.troubled_since()) {
        troubled = std::chrono::duration_cast<std::chrono::seconds>(now - *since);
      }
    }
    out.push_back({.name = link->provider.name(),
                   .state = state == Breaker::State::kClosed
                                ? "ready"
                                : std::string(breaker_state_name(state)),
                   .in_flight = link->provider.running(),
                   .waiting = link->provider.waiting(),
                   .limit = link->provider.limit(),
                   .waits_for_account = link->provider.waits_for_account(),
                   .troubled = troubled,
                   .calls = link->provider.calls()});
  }
  return out;
}

std::shared_ptr<const Chain> CurrentChain::get() const {
  const MutexLock lock(mutex_);
  return chain_;
}

void CurrentChain::obey(const std::vector<BreakerOrder>& orders, Breaker::Time now) {
  const MutexLock lock(mutex_);
  overrides_.clear();
  for (const BreakerOrder& order : orders) {
    overrides_.push_back(
        {.provider = order.provider, .said = {.open = order.open, .until = now + order.left}});
  }
  chain_->set_overrides(overrides_);
  for (const auto& chain : replaced_) {
    chain->set_overrides(overrides_);
  }
}

void CurrentChain::replace(std::shared_ptr<const Chain> chain) {
  const MutexLock lock(mutex_);
  chain->set_overrides(overrides_);
  replaced_.push_back(std::exchange(chain_, std::move(chain)));
}

void CurrentChain::collect() {
  std::vector<std::shared_ptr<const Chain>> unused;
  {
    const MutexLock lock(mutex_);
    const auto first = std::partition(replaced_.begin(), replaced_.end(), [](const auto& chain) {
      return chain.use_count() > 1;
    });
    std::move(first, replaced_.end(), std::back_inserter(unused));
    replaced_.erase(first, replaced_.end());
  }
}

}  // namespace audiogen::worker
