// Outputs nobody wants are removed by somebody who has nothing else to do.
#include "worker/job/removals.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/wait.h"

namespace audiogen::worker {
namespace {

// A store that does not answer until it is told to, or until nobody waits for it any more.
class SlowStore final : public BlobStore {
 public:
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override {
    return std::vector<PutResult>(blobs.size(), PutFault{"nothing is put here"});
  }
  PutShape put_shape() const override { return {}; }
  Result<Removal> remove(std::string_view key, const std::stop_token& stop) override {
    std::unique_lock lock(mutex_);
    asked_.emplace_back(key);
    if (!changed_.wait(lock, stop, [this] { return answers_; })) {
      return Error{"nobody waits"};
    }
    return Removal::kGone;
  }
  Result<Done> flush_removed(std::span<const std::string> /*keys*/) override { return Done{}; }

  void answer() {
    {
      const std::scoped_lock lock(mutex_);
      answers_ = true;
    }
    changed_.notify_all();
  }
  std::vector<std::string> asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::string> asked_;
  bool answers_ = false;
};

using Keys = std::vector<std::string>;

TEST(Removals, NobodyWaitsForThem) {
  SlowStore store;
  Removals removals(store);
  EXPECT_TRUE(removals.post("a"));
  EXPECT_TRUE(removals.post(""));
  EXPECT_TRUE(removals.post("b"));  // Here, while the first is under way or waits.
  EXPECT_TRUE(
      test::eventually(std::chrono::seconds(60), [&] { return store.asked() == Keys{"a"}; }));
  store.answer();
  EXPECT_TRUE(test::eventually(std::chrono::seconds(60), [&] {
    return store.asked() == Keys{"a", "b"};
  }));
}

TEST(Removals, TheEndWaitsForNone) {
  SlowStore store;
  Removals removals(store);
  EXPECT_TRUE(removals.post("a"));
  EXPECT_TRUE(removals.post("b"));
  EXPECT_TRUE(
      test::eventually(std::chrono::seconds(60), [&] { return store.asked() == Keys{"a"}; }));
  std::atomic<bool> ended{false};
  std::thread end([&] {
    removals.stop();
    ended = true;
  });
  EXPECT_TRUE(test::eventually(std::chrono::seconds(60), [&] { return !removals.post("c"); }));
  EXPECT_TRUE(test::eventually(std::chrono::seconds(60), [&] { return ended.load(); }))
      << "it waits for a store that does not answer";
  store.answer();
  end.join();
  EXPECT_EQ(store.asked(), Keys{"a"});
}

}  // namespace
}  // namespace audiogen::worker
