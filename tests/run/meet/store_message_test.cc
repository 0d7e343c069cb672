#include "run/meet/store_message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace heddle {
namespace {

StoreRequest SomeRequest() {
  StoreRequest request;
  request.op = static_cast<StoreOp>(*rc::gen::inRange(0, kStoreOps));
  const bool many = request.op == StoreOp::kCheck || request.op == StoreOp::kWait;
  const size_t keys = request.op == StoreOp::kCount ? 0 : many ? *rc::gen::inRange(1, 5) : 1;
  for (size_t k = 0; k < keys; ++k) request.keys.push_back(*rc::gen::arbitrary<std::string>());
  request.value = *rc::gen::arbitrary<std::string>();
  request.expected = *rc::gen::arbitrary<std::string>();
  request.number = *rc::gen::arbitrary<int64_t>();
  return request;
}

RC_GTEST_PROP(StoreMessageTest, WhatIsPrintedIsRead, ()) {
  const StoreRequest request = SomeRequest();
  RC_ASSERT(ParseRequest(PrintRequest(request)).value() == request);
  const StoreReply reply{static_cast<StoreAnswer>(*rc::gen::inRange(0, kStoreAnswers)),
                         request.value, request.number};
  RC_ASSERT(ParseReply(PrintReply(reply)).value() == reply);
}

// No part of a message is a message, and nothing goes on after its end.
RC_GTEST_PROP(StoreMessageTest, APartIsRefused, ()) {
  const std::string bytes = PrintRequest(SomeRequest());
  const auto cut = *rc::gen::inRange<size_t>(0, bytes.size());
  RC_ASSERT(!ParseRequest(bytes.substr(0, cut)).ok());
  RC_ASSERT(!ParseRequest(bytes + "x").ok());
}

RC_GTEST_PROP(StoreMessageTest, AnyBytesAreReadOrRefused, (const std::string& bytes)) {
  (void)ParseRequest(bytes).ok();
  (void)ParseReply(bytes).ok();
}

TEST(StoreMessageTest, SizesAreBounded) {
  const auto refused = [](const StoreRequest& request) {
    const auto parsed = ParseRequest(PrintRequest(request));
    return parsed.ok() ? "" : parsed.error().what;
  };
  const std::string long_key(StoreLimits::kKeyBytes + 1, 'k');
  const std::string large(StoreLimits::kValueBytes + 1, 'v');
  EXPECT_EQ(refused({.op = StoreOp::kSet, .keys = {long_key}}),
            "a text of 513 bytes, of 512 at most");
  EXPECT_NE(refused({.op = StoreOp::kSet, .keys = {"k"}, .value = large}), "");
  EXPECT_EQ(refused({.op = StoreOp::kSet, .keys = {"a", "b"}}), "names 2 keys");
  EXPECT_EQ(refused({.op = StoreOp::kGet}), "names 0 keys");
  // A length that is not there costs no memory.
  std::string lies = PrintRequest({.op = StoreOp::kSet, .keys = {"k"}, .value = "v"});
  lies[lies.size() - 7] = '\x3f';
  EXPECT_FALSE(ParseRequest(lies).ok());
}

}  // namespace
}  // namespace heddle
