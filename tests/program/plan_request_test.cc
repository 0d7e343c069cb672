// Every field of a request can be asked for, is written down, and comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json_field.h"
#include "program/plan/request_fields.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// As typed after the option; none is what a new request has.
const std::map<std::string_view, std::string> kTyped = {{"strategy", "spmd"},
                                                        {"model", "tiny-gpt?layers=3"},
                                                        {"profile_batch", "32"},
                                                        {"profile_device", "p100"},
                                                        {"batch", "48"},
                                                        {"microbatches", "6"},
                                                        {"micro_batch_size", "12"},
                                                        {"dtype", "bf16"},
                                                        {"optimizer", "momentum"},
                                                        {"clip", "0.5"},
                                                        {"versions", "2bw"},
                                                        {"sync", "ps"},
                                                        {"compress", "fp16"},
                                                        {"every", "3"},
                                                        {"replicas", "pipelined"},
                                                        {"search", "astar"},
                                                        {"links", "channels"},
                                                        {"goal", "time-to-loss"},
                                                        {"evidence", "bound"},
                                                        {"noise", "0.75"},
                                                        {"noise_ratio", "2.5"},
                                                        {"rows_per_parameter", "4"}};

PlanRequest Typed(std::string_view but = "") {
  PlanRequest request;
  for (const RequestField& field : RequestFields()) {
    if (field.key == but) continue;
    const Status status = SetFromText(field, kTyped.at(field.key), request);
    EXPECT_TRUE(status.ok()) << field.key << ": " << status.error().ToString();
  }
  return request;
}

TEST(PlanRequestTest, EveryFieldIsSetByItsOption) {
  const PlanRequest fresh;
  for (const RequestField& field : RequestFields()) {
    ASSERT_TRUE(kTyped.contains(field.key)) << field.key << " has no row above";
    PlanRequest request;
    ASSERT_TRUE(SetFromText(field, kTyped.at(field.key), request).ok()) << field.key;
    EXPECT_NE(request, fresh) << field.key;
    EXPECT_NE(field.get(request), field.get(fresh)) << field.key;
  }
  EXPECT_EQ(kTyped.size(), RequestFields().size());
}

TEST(PlanRequestTest, NothingIsLostOnTheWayThroughAFile) {
  PlanRequest request = Typed("micro_batch_size");
  const Json json = RequestToJson(request);
  EXPECT_EQ(RequestFromJson(JsonField(json, "plan.json")).value(), request);
  for (const RequestField& field : RequestFields()) {
    EXPECT_EQ(json.contains(field.key), field.key != "micro_batch_size") << field.key;
  }
}

TEST(PlanRequestTest, WhatIsAsAlwaysIsNotWritten) {
  PlanRequest request;
  request.model = "tiny-mlp";
  EXPECT_EQ(RequestToJson(request).dump(),
            R"({"strategy":"auto","model":"tiny-mlp","batch":256,"dtype":"f32",)"
            R"("optimizer":"adam"})");
}

TEST(PlanRequestTest, SamplesOfAMicrobatchBecomeTheirNumber) {
  PlanRequest request = Typed("microbatches");
  const auto place = [](std::string_view key) { return "file: " + std::string(key); };
  ASSERT_TRUE(CheckRequest(request, place).ok());
  EXPECT_EQ(request.microbatches, 4);
  EXPECT_EQ(request.micro_batch_size, std::nullopt);
  request = Typed();
  EXPECT_THAT(CheckRequest(request, place).error().ToString(),
              HasSubstr("file: micro_batch_size: stands beside"));
  request = Typed("microbatches");
  request.batch = 13;
  EXPECT_THAT(CheckRequest(request, place).error().ToString(),
              HasSubstr("12 does not divide the batch of 13"));
  request = Typed("micro_batch_size");
  request.batch = 5;
  EXPECT_THAT(CheckRequest(request, place).error().ToString(),
              HasSubstr("file: microbatches: 6 is out of range"));
}

TEST(PlanRequestTest, ErrorsNameTheOptionAndTheChoices) {
  PlanRequest request;
  const auto said = [&](std::string_view key, const char* text) {
    return SetFromText(RequestFieldOf(key), text, request).error().ToString();
  };
  EXPECT_EQ(said("links", "shard"),
            "--links: \"shard\" is unknown\n  hint: did you mean \"shared\"? shared, exclusive or "
            "channels");
  EXPECT_THAT(said("dtype", "i64"), HasSubstr("\"i64\" is unknown\n  hint: "));
  EXPECT_THAT(said("batch", "0"), HasSubstr("--batch: 0 is out of range"));
  EXPECT_THAT(said("compress", "int8"), HasSubstr("\"int8\" is unknown\n  hint: fp16"));
  EXPECT_THAT(said("clip", "-1"), HasSubstr("--clip: -1 is out of range"));
}

TEST(PlanRequestTest, AFileStatesWhatMattersMost) {
  for (const char* key : {"strategy", "model", "batch", "dtype", "optimizer"}) {
    Json json = RequestToJson(Typed("micro_batch_size"));
    json.erase(key);
    const auto request = RequestFromJson(JsonField(json, "plan.json", "request"));
    EXPECT_THAT(request.error().ToString(), HasSubstr(std::string(key) + ": missing"));
  }
  Json json = RequestToJson(Typed("micro_batch_size"));
  json["bacth"] = 3;
  EXPECT_THAT(RequestFromJson(JsonField(json, "plan.json", "request")).error().ToString(),
              HasSubstr("request: unknown field \"bacth\"\n  hint: did you mean \"batch\"?"));
}

}  // namespace
}  // namespace heddle
