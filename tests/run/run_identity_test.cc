#include "run/run_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <future>
#include <thread>

#include "base/json_field.h"
#include "run/departure.h"
#include "run/meet/store_server.h"

namespace heddle {
namespace {

using testing::HasSubstr;

RunIdentity Identity(const RunConfig& config) {
  return IdentityOf(config, "plan1", config.dtype.value_or(DType::kF32)).value();
}

std::string DifferenceTo(const std::function<void(RunConfig&)>& change) {
  RunConfig one, other;
  change(other);
  return Difference(Identity(one), Identity(other), "device 0").value_or("");
}

TEST(RunIdentityTest, OptionsThatChangeTheResultAreNamed) {
  EXPECT_EQ(DifferenceTo([](RunConfig&) {}), "");
  EXPECT_EQ(DifferenceTo([](RunConfig& c) { c.learning_rate = 0.5; }),
            "--rate is 0.5, but 0.001 at device 0");
  EXPECT_EQ(DifferenceTo([](RunConfig& c) { c.seed = 2; }), "--seed is 2, but 1 at device 0");
  EXPECT_EQ(DifferenceTo([](RunConfig& c) { c.seed = 1; }), "");  // as without it
  EXPECT_THAT(DifferenceTo([](RunConfig& c) { c.dtype = DType::kF64; }), HasSubstr("--dtype is"));
  EXPECT_THAT(DifferenceTo([](RunConfig& c) { c.schedule = "cosine"; }), HasSubstr("--schedule"));
  EXPECT_THAT(DifferenceTo([](RunConfig& c) { c.steps = 7; }), HasSubstr("--steps"));
  EXPECT_EQ(DifferenceTo([](RunConfig& c) { c.data_hash = "ab"; }),
            "the data is ab, but none at device 0");
  EXPECT_THAT(DifferenceTo([](RunConfig& c) { c.data = "text:x"; }), HasSubstr("--data is text"));
  // Where a file lies, and how long somebody waits, is his own business.
  EXPECT_EQ(DifferenceTo([](RunConfig& c) {
              c.plan = "x";
              c.directory = "y";
              c.port = 7;
              c.silent_after = 9;
              c.secret_file = "z";
            }),
            "");
}

// Every option is compared or left out on purpose: a new one is noticed here.
TEST(RunIdentityTest, NoOptionIsForgotten) {
  const Json options = RunConfigToJson({});
  EXPECT_EQ(Identity({}).parts.size(), 4 + options.size() - 14 + 2);  // seed and dtype are set
}

TEST(RunIdentityTest, AnotherPlanOrVersion) {
  const RunIdentity one = Identity({});
  RunIdentity other = one;
  other.parts[1].second = "plan2";
  EXPECT_EQ(*Difference(one, other, "device 0"), "the plan is plan2, but plan1 at device 0");
  other = one;
  other.parts[0].second = "9";
  EXPECT_THAT(*Difference(one, other, "device 0"), HasSubstr("heddle is 9"));
  other = one;
  other.parts.pop_back();
  EXPECT_THAT(*Difference(one, other, "device 0"), HasSubstr("is unknown, but"));
  EXPECT_THAT(*Difference(other, one, "device 0"), HasSubstr("knows other options"));
}

RC_GTEST_PROP(RunIdentityTest, AnyTextIsReadOrNot, (const std::string& text)) {
  (void)ParseIdentity(text);
}

TEST(RunIdentityTest, WhatIsPrintedIsRead) {
  EXPECT_EQ(ParseIdentity(PrintIdentity(Identity({}))), Identity({}));
  for (const char* text : {"", "{}", "[1]", "[[1,2]]", "[[\"a\"]]"}) {
    EXPECT_FALSE(ParseIdentity(text)) << text;
  }
}

// What each of some ranks, with their identities, is told.
std::vector<std::string> Agree(const std::vector<RunIdentity>& identities, int32_t ranks) {
  const Seats seats = Seats::Make(ranks).value();
  const auto server = StoreServer::Start(seats).value();
  std::vector<std::string> told(identities.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < identities.size(); ++k) {
    threads.emplace_back([&, k] {
      const auto rank = static_cast<int32_t>(k);
      const auto store = seats.Take(rank, std::chrono::hours(1)).value();
      const bool all = static_cast<int32_t>(identities.size()) == ranks;
      const Status agreed = AgreeOnIdentity(
          *store, rank, ranks, identities[k],
          [](int32_t r) { return "device " + std::to_string(r); },
          all ? std::chrono::milliseconds(std::chrono::hours(1)) : std::chrono::milliseconds(50));
      told[k] = agreed.ok() ? "agreed" : agreed.error().ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

TEST(RunIdentityTest, AllAgreeOrAllKnowWhoDiffers) {
  RunConfig other;
  other.learning_rate = 0.5;
  EXPECT_THAT(Agree({Identity({}), Identity({}), Identity({})}, 3), testing::Each("agreed"));
  EXPECT_THAT(Agree({Identity({}), Identity({}), Identity(other)}, 3),
              testing::Each(HasSubstr("device 2: --rate is 0.5, but 0.001 at device 0")));
}

TEST(RunIdentityTest, WhoDoesNotComeIsNamed) {
  EXPECT_THAT(Agree({Identity({}), Identity({})}, 3),
              testing::Each(HasSubstr("device 2: did not come within 0.05 s")));
}

// Who has left will not come: the others need not wait for it.
TEST(RunIdentityTest, WhoHasLeftIsNamedAtOnce) {
  struct {
    std::optional<Error> why;
    std::string said;
  } const kCases[] = {
      {BadInput("plan.json", "is missing"), "device 2: left before the meeting: plan.json: is "},
      {std::nullopt, "device 2: is gone: it ended or was killed before the meeting"},
  };
  for (const auto& one : kCases) {
    const Seats seats = Seats::Make(3).value();
    const auto server = StoreServer::Start(seats).value();
    {
      const auto leaves = seats.Take(2, std::chrono::hours(1)).value();
      ASSERT_TRUE(leaves->SetWill(kLeft, PrintDeparture({2})).ok());
      if (one.why) {
        ASSERT_TRUE(leaves->CompareSet(kLeft, "", PrintDeparture({2, one.why})).ok());
      }
    }
    const auto agree = [&](int32_t rank) {
      const auto store = seats.Take(rank, std::chrono::hours(1)).value();
      return AgreeOnIdentity(
                 *store, rank, 3, Identity({}),
                 [](int32_t r) { return "device " + std::to_string(r); }, std::chrono::hours(1))
          .error()
          .ToString();
    };
    auto other = std::async(std::launch::async, [&] { return agree(1); });
    EXPECT_THAT(agree(0), HasSubstr(one.said));
    EXPECT_THAT(other.get(), HasSubstr(one.said));
  }
}

}  // namespace
}  // namespace heddle
