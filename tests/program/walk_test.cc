#include "program/walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden_programs.h"

namespace heddle {
namespace {

TEST(LaneMeetingTest, TheFirstSendMeetsTheFirstReceive) {
  LaneMeeting<int> lane;
  EXPECT_EQ(lane.Post(true, 1), std::nullopt);
  EXPECT_EQ(lane.Post(true, 2), std::nullopt);
  EXPECT_TRUE(lane.sends());
  EXPECT_EQ(lane.Post(false, 10), 1);
  EXPECT_EQ(lane.Post(false, 20), 2);
  EXPECT_EQ(lane.Post(false, 30), std::nullopt) << "the other end may be ahead now";
  EXPECT_FALSE(lane.sends());
  EXPECT_EQ(lane.Post(true, 3), 30);
  EXPECT_TRUE(lane.waiting().empty());
}

TEST(GroupMeetingTest, TheFirstOfEachMemberMeet) {
  GroupMeeting<int> group(3);
  group.Post(0, 1);
  group.Post(0, 2);
  group.Post(2, 3);
  EXPECT_FALSE(group.complete());
  group.Post(1, 4);
  ASSERT_TRUE(group.complete());
  EXPECT_THAT(group.front(), testing::ElementsAre(1, 3, 4));
  group.Pop();
  EXPECT_FALSE(group.complete());
  EXPECT_THAT(group.front(), testing::ElementsAre(2));
  group.Post(1, 5);
  group.Post(2, 6);
  ASSERT_TRUE(group.complete());
  group.Pop();
  EXPECT_TRUE(group.empty());
}

// Of all instructions of the golden Programs: a compute uses its ports, others their operands; only
// what changes or ends a buffer needs it alone.
TEST(WalkTest, WhatInstructionsUse) {
  int seen = 0;
  for (const std::string& name : GoldenPrograms()) {
    const Program program = GoldenProgram(name);
    for (const DeviceProgram& device : program.devices) {
      for (const auto& list : device.sections) {
        for (const Instruction& in : list) {
          for (int32_t k = 0; k < UseCount(program, in); ++k) {
            const BufferUse use = UseOf(program, device, in, k);
            ++seen;
            switch (in.code) {
              case OpCode::kCompute: {
                const Port& port = program.segment(in.target).ports[static_cast<size_t>(k)];
                EXPECT_EQ(use.ref.tensor, port.tensor);
                EXPECT_EQ(use.alone, port.use != PortUse::kRead);
                break;
              }
              case OpCode::kSend:
                EXPECT_FALSE(use.alone);
                break;
              case OpCode::kCollective:
                EXPECT_EQ(use.alone, in.output_count == 0 || k >= in.operand_count);
                break;
              case OpCode::kRecv:
              case OpCode::kWait:
              case OpCode::kFree:
              case OpCode::kAlias:
                EXPECT_TRUE(use.alone);
                break;
            }
          }
          EXPECT_EQ(WaitsForBuffers(in.code), in.code != OpCode::kRecv);
        }
      }
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(WalkTest, LanesAndMembers) {
  Instruction send, recv;
  send.code = OpCode::kSend;
  send.target = 3;
  send.tag = 7;
  recv.code = OpCode::kRecv;
  recv.target = 1;
  recv.tag = 7;
  EXPECT_EQ(LaneOf(1, send), LaneOf(3, recv));
  const Group group{"g", {4, 2, 9}};
  EXPECT_EQ(MemberOf(group, 2), 1U);
  EXPECT_EQ(MemberOf(group, 3), 3U);
}

}  // namespace
}  // namespace heddle
