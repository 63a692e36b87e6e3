// Every descriptor is closed once: not never, and not twice.
#include "common/base/unique_fd.h"

#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace audiogen {
namespace {

int opened() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

TEST(UniqueFdTest, ClosesWhatItOwns) {
  int fd = -1;
  {
    const UniqueFd owner(opened());
    fd = owner.get();
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
  EXPECT_FALSE(UniqueFd());
  EXPECT_FALSE(UniqueFd(-1));
}

TEST(UniqueFdTest, MovingGivesItAway) {
  UniqueFd one(opened());
  const int first = one.get();
  UniqueFd two(std::move(one));
  EXPECT_FALSE(one);  // It owns nothing now.
  EXPECT_EQ(two.get(), first);
  UniqueFd three(opened());
  const int second = three.get();
  three = std::move(two);
  EXPECT_FALSE(is_open(second)) << "what it had before is closed";
  EXPECT_TRUE(is_open(first));
  UniqueFd& same = three;
  three = std::move(same);
  EXPECT_TRUE(is_open(first)) << "to itself";
}

TEST(UniqueFdTest, ReleaseAndReset) {
  UniqueFd owner(opened());
  const int fd = owner.release();
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd)) << "now the caller's";
  owner = fd;
  owner.reset();
  EXPECT_FALSE(is_open(fd));
  owner.reset();
}

}  // namespace
}  // namespace audiogen
