// What travels between two meshes: everything that is lacking, once, from the nearest that has it.
#include "program/lower/boundary.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "program/lower/shard_table.h"

namespace heddle {
namespace {

BoundarySide SideOf(const std::vector<int64_t>& shape, const SpmdPlan& plan, const Layout& layout,
                    int32_t first, const std::string& node) {
  Tensor tensor;
  tensor.shape = shape;
  ShardTable shards(plan);
  BoundarySide side;
  for (size_t row = 0; row < plan.mesh.size(); ++row) {
    for (size_t column = 0; column < plan.mesh[row].size(); ++column) {
      side.devices.push_back(first++);
      side.nodes.push_back(node + std::to_string(row));
      side.parts.push_back(shards.PartOf(tensor, layout, {row, column}));
    }
  }
  return side;
}

SpmdPlan MeshOf(size_t rows, size_t columns, std::vector<double> along_rows,
                std::vector<double> along_columns) {
  SpmdPlan plan;
  plan.mesh.resize(rows, std::vector<std::string>(columns));
  plan.ratios = {{{std::move(along_rows)}, {std::move(along_columns)}}};
  return plan;
}

constexpr Layout kWhole{};
constexpr Layout kColumns{ShardState::Replicated(), ShardState::Sharded(1)};
constexpr Layout kSamples{ShardState::Sharded(0), ShardState::Replicated()};

TEST(BoundaryTest, UnequalParts) {
  const SpmdPlan two = MeshOf(1, 2, {1}, {0.5, 0.5}),
                 three = MeshOf(1, 3, {1}, {1. / 3, 1. / 3, 1. / 3});
  const std::vector<Parcel> parcels = ParcelsBetween(SideOf({1, 12}, two, kColumns, 0, "a"),
                                                     SideOf({1, 12}, three, kColumns, 2, "b"));
  const std::vector<Parcel> expected = {{0, 2, {{0, 1}, {0, 4}}},
                                        {0, 3, {{0, 1}, {4, 6}}},
                                        {1, 3, {{0, 1}, {6, 8}}},
                                        {1, 4, {{0, 1}, {8, 12}}}};
  EXPECT_EQ(parcels, expected);
}

// Copies give in turn; a copy on the taker's own node gives before others.
TEST(BoundaryTest, NearestCopies) {
  const SpmdPlan square = MeshOf(2, 2, {0.5, 0.5}, {0.5, 0.5});
  const BoundarySide giver = SideOf({4, 2}, square, kSamples, 0, "a");
  const std::vector<Parcel> apart = ParcelsBetween(giver, SideOf({4, 2}, square, kSamples, 4, "b"));
  const std::vector<Parcel> in_turn = {{0, 4, {{0, 2}, {0, 2}}},
                                       {1, 5, {{0, 2}, {0, 2}}},
                                       {2, 6, {{2, 4}, {0, 2}}},
                                       {3, 7, {{2, 4}, {0, 2}}}};
  EXPECT_EQ(apart, in_turn);
  const SpmdPlan alone = MeshOf(1, 1, {1}, {1});
  BoundarySide taker = SideOf({4, 2}, alone, kWhole, 4, "b");
  BoundarySide copies = SideOf({4, 2}, square, kWhole, 0, "a");
  copies.nodes = {"a", "a", "b0", "a"};
  const std::vector<Parcel> near = {{2, 4, {{0, 4}, {0, 2}}}};
  EXPECT_EQ(ParcelsBetween(copies, taker), near);
}

std::vector<double> Ratios(size_t places) {
  std::vector<double> ratios;
  double sum = 0;
  for (size_t k = 0; k < places; ++k) {
    ratios.push_back(k == 0 ? 1 : *rc::gen::inRange(0, 4));
    sum += ratios.back();
  }
  for (double& ratio : ratios) ratio /= sum;
  return ratios;
}

Layout AnyLayout() {
  Layout layout;
  for (ShardState& state : layout) {
    const int kind = *rc::gen::inRange(-1, 3);
    if (kind >= 0) state = ShardState::Sharded(kind);
  }
  return layout;
}

bool Has(const Slice& part, const std::vector<int64_t>& element) {
  for (size_t axis = 0; axis < part.size(); ++axis) {
    if (element[axis] < part[axis].begin || element[axis] >= part[axis].end) return false;
  }
  return true;
}

RC_GTEST_PROP(BoundaryPropertyTest, EveryElementTravelsOnce, ()) {
  const auto side = [&](const std::vector<int64_t>& shape, int32_t first, const char* node) {
    const auto rows = *rc::gen::inRange<size_t>(1, 4), columns = *rc::gen::inRange<size_t>(1, 4);
    const SpmdPlan plan = MeshOf(rows, columns, Ratios(rows), Ratios(columns));
    return SideOf(shape, plan, AnyLayout(), first, node);
  };
  const std::vector<int64_t> shape = {*rc::gen::inRange(1, 6), *rc::gen::inRange(1, 6),
                                      *rc::gen::inRange(1, 4)};
  const BoundarySide giver = side(shape, 0, "a"), taker = side(shape, 100, "b");
  const std::vector<Parcel> parcels = ParcelsBetween(giver, taker);
  for (const Parcel& parcel : parcels) {
    RC_ASSERT(ElementsOf(parcel.part) > 0);
    RC_ASSERT(Contains(giver.parts[static_cast<size_t>(parcel.from)], parcel.part));
    RC_ASSERT(Contains(taker.parts[static_cast<size_t>(parcel.to - 100)], parcel.part));
  }
  for (size_t t = 0; t < taker.devices.size(); ++t) {
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
      const std::vector<int64_t> element = {i / (shape[1] * shape[2]), i / shape[2] % shape[1],
                                            i % shape[2]};
      int64_t times = 0;
      for (const Parcel& parcel : parcels) {
        times += parcel.to == taker.devices[t] && Has(parcel.part, element);
      }
      RC_ASSERT(times == (Has(taker.parts[t], element) ? 1 : 0));
    }
  }
}

}  // namespace
}  // namespace heddle
