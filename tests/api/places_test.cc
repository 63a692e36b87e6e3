// Places that are held for long: of a key, of a user, of all; and given back, whatever happens.
#include "api/server/places.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen::api {
namespace {

using Full = Places::Full;

store::KeyRecord key_of(UserId user) {
  return {.id = KeyId::make(), .user = user};
}

TEST(Places, AKeyAUserAndAllHaveTheirOwn) {
  Places places({.total = 7, .per_key = 2, .per_user = 3});
  const UserId ann = UserId::make(), bob = UserId::make();
  const auto hers = key_of(ann), other = key_of(ann), his = key_of(bob);
  std::vector<Places::Place> taken;
  const auto take = [&](const store::KeyRecord& key) -> std::optional<Full> {
    auto place = places.take(key);
    if (!place) {
      return place.error();
    }
    taken.push_back(*std::move(place));
    return std::nullopt;
  };
  EXPECT_EQ(take(hers), std::nullopt);
  EXPECT_EQ(take(hers), std::nullopt);
  EXPECT_EQ(take(hers), Full::kKey);
  EXPECT_EQ(take(other), std::nullopt);
  EXPECT_EQ(take(other), Full::kUser);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(take(his), std::nullopt);
    EXPECT_EQ(take(key_of(UserId::make())), std::nullopt);
  }
  EXPECT_EQ(take(key_of(UserId::make())), Full::kAll);
  taken.clear();
  EXPECT_EQ(take(hers), std::nullopt);
}

// Those of all of his sessions, that is.
TEST(Places, SessionsOfAUserAreOneKey) {
  Places places({.total = 9, .per_key = 1, .per_user = 9});
  auto session = key_of(UserId::make());
  session.session = SessionId::make();
  const auto place = places.take(session);
  ASSERT_TRUE(place);
  session.session = SessionId::make();
  const auto other = places.take(session);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error(), Full::kKey);
}

TEST(Places, OneThatMovesIsHeldOnceAndMayOutliveThem) {
  std::optional<Places> places(Places({.total = 1, .per_key = 1, .per_user = 1}));
  const auto key = key_of(UserId::make());
  std::optional<Places::Place> kept;
  {
    auto place = places->take(key);
    ASSERT_TRUE(place);
    kept.emplace(*std::move(place));
  }
  EXPECT_FALSE(places->take(key)) << "it was moved, not given back";
  kept.reset();
  auto place = places->take(key);
  ASSERT_TRUE(place);
  kept.emplace(*std::move(place));
  places.reset();
  kept.reset();
}

}  // namespace
}  // namespace audiogen::api
