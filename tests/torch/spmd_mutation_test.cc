// A program with an exchange less, or another one, is noticed: by the checker, or because it no
// longer computes what one device would. Every exchange of plans that have all kinds of them.

#include <gtest/gtest.h>

#include <set>

#include "torch/spmd_fixture.h"

namespace heddle {
namespace {

constexpr char kMlp[] = "tiny-mlp?layers=2&dropout=20";
constexpr char kMoe[] = "tiny-moe?layers=2&hidden=4&heads=2&seq=4&vocab=12&experts=3";

const std::vector<std::vector<std::string>> kTwoByTwo = {{"a:0", "a:1"}, {"b:0", "b:1"}};

bool Noticed(const Program& program, const Graph& graph) {
  if (!CheckProgram(program, {&graph, {}}).ok()) return true;
  const Result<Verification> verification = VerifyProgram(program, graph, {});
  return !verification.ok() || !verification.value().ok;
}

std::vector<Instruction>& BodyOf(DeviceProgram& device) {
  return device.sections[static_cast<size_t>(Section::kBody)];
}

// A program to be altered, one exchange after the other: instruction k of every device.
class Mutations {
 public:
  Mutations(const SpmdPlan& plan, const Graph& graph)
      : graph_(graph), program_(Lowered(plan, graph, "mutant")) {}

  std::vector<size_t> Exchanges() const {
    std::vector<size_t> places;
    const auto& body = program_.devices[0].list(Section::kBody);
    for (size_t k = 0; k < body.size(); ++k) {
      if (body[k].code == OpCode::kCollective) places.push_back(k);
    }
    return places;
  }
  const Instruction& At(size_t k) const { return program_.devices[0].list(Section::kBody)[k]; }

  void Without(size_t k) const {
    Program mutant = program_;
    for (DeviceProgram& device : mutant.devices) Erase(device, k);
    EXPECT_TRUE(Noticed(mutant, graph_)) << "without " << Name(k);
    Program absent = program_;
    Erase(absent.devices.back(), k);
    EXPECT_TRUE(Noticed(absent, graph_)) << "one device without " << Name(k);
  }

  // A bucket that lacks its first sum.
  void WithoutFirstBuffer(size_t k) const {
    if (At(k).operand_count < 2) return;
    Program mutant = program_;
    for (DeviceProgram& device : mutant.devices) {
      Instruction& bucket = BodyOf(device)[k];
      ++bucket.first_operand;
      --bucket.operand_count;
    }
    EXPECT_TRUE(Noticed(mutant, graph_)) << Name(k) << " without its first buffer";
  }

  // Shares exchanged between the first two members, and another dimension.
  void OtherDivision(size_t k) {
    if (At(k).shape < 0) return;
    const CollectiveShape& shape = program_.shapes[static_cast<size_t>(At(k).shape)];
    for (const auto division : {&CollectiveShape::from, &CollectiveShape::to}) {
      const std::vector<int64_t>& sizes = (shape.*division).sizes;
      if (sizes.size() < 2) continue;
      if (sizes[0] != sizes[1]) {
        CollectiveShape swapped = shape;
        std::swap((swapped.*division).sizes[0], (swapped.*division).sizes[1]);
        WithShape(k, swapped, "with shares exchanged");
      }
      CollectiveShape turned = shape;
      (turned.*division).dim = (shape.*division).dim == 0 ? 1 : 0;
      WithShape(k, turned, "along another dimension");
    }
  }

  // Along the other axis of the mesh.
  void OtherGroup(size_t k) const {
    for (size_t g = 0; g < program_.groups.size(); ++g) {
      const bool row = program_.groups[g].devices == std::vector<int32_t>{0, 1};
      const bool column = program_.groups[g].devices == std::vector<int32_t>{0, 2};
      if ((!row && !column) || At(k).target == static_cast<int32_t>(g)) continue;
      if (program_.group(At(k).target).devices.size() != 2) continue;
      Program mutant = program_;
      for (size_t d = 0; d < mutant.devices.size(); ++d) {
        BodyOf(mutant.devices[d])[k].target = GroupOf(mutant, static_cast<int32_t>(d), row);
      }
      EXPECT_TRUE(Noticed(mutant, graph_)) << Name(k) << " among others";
    }
  }

 private:
  static void Erase(DeviceProgram& device, size_t k) {
    BodyOf(device).erase(BodyOf(device).begin() + static_cast<std::ptrdiff_t>(k));
  }

  std::string Name(size_t k) const {
    return PrintInstruction(program_, program_.devices[0], At(k));
  }

  void WithShape(size_t k, const CollectiveShape& shape, const char* what) const {
    Program mutant = program_;
    mutant.shapes.push_back(shape);
    for (DeviceProgram& device : mutant.devices) {
      BodyOf(device)[k].shape = static_cast<int32_t>(mutant.shapes.size()) - 1;
    }
    EXPECT_TRUE(Noticed(mutant, graph_)) << Name(k) << " " << what;
  }

  // The group of two in the device's row, or column, of a mesh of two by two.
  static int32_t GroupOf(const Program& program, int32_t device, bool row) {
    for (size_t g = 0; g < program.groups.size(); ++g) {
      const std::vector<int32_t>& members = program.groups[g].devices;
      const bool mine = members.size() == 2 && (members[0] == device || members[1] == device);
      if (mine && (members[1] - members[0] == 1) == row) return static_cast<int32_t>(g);
    }
    return 0;
  }

  const Graph& graph_;
  Program program_;
};

std::set<CollectiveKind> ExpectAllNoticed(const SpmdPlan& plan, const Graph& graph) {
  Mutations mutations(plan, graph);
  std::set<CollectiveKind> kinds;
  for (const size_t k : mutations.Exchanges()) {
    kinds.insert(mutations.At(k).kind);
    mutations.Without(k);
    mutations.WithoutFirstBuffer(k);
    mutations.OtherDivision(k);
    mutations.OtherGroup(k);
  }
  return kinds;
}

TEST(SpmdMutationTest, SumsOfGradients) {
  const Graph graph = Tiny(kMlp, 5);
  const auto kinds = ExpectAllNoticed(DataParallel(graph, FlatMesh(2), {0.6, 0.4}), graph);
  EXPECT_EQ(kinds, std::set{CollectiveKind::kAllReduce});
}

TEST(SpmdMutationTest, ShardsGatheredAndScattered) {
  const Graph graph = Tiny(kMlp, 5);
  const auto kinds = ExpectAllNoticed(ZeroSharded(graph, FlatMesh(2), {0.7, 0.3}), graph);
  EXPECT_TRUE(kinds.contains(CollectiveKind::kAllGather));
  EXPECT_TRUE(kinds.contains(CollectiveKind::kReduceScatter));
}

TEST(SpmdMutationTest, ExpertsAndOtherRatios) {
  const Graph moe = Tiny(kMoe, 4);
  const auto experts = [](const Tensor& tensor) {
    const bool expert = tensor.shape.size() >= 2 && tensor.shape[0] == 3;
    return expert && tensor.name.find(".fc") != std::string::npos ? Inner(0) : kEverywhere;
  };
  const SpmdPlan plan = FollowStorage(moe, FlatMesh(2), {{{{1.0}}, {{0.7, 0.3}}}}, experts);
  EXPECT_TRUE(ExpectAllNoticed(plan, moe).contains(CollectiveKind::kAllToAll));
  const Graph mlp = Tiny(kMlp, 7);
  EXPECT_TRUE(ExpectAllNoticed(ChangingRatios(mlp), mlp).contains(CollectiveKind::kAllToAll));
}

TEST(SpmdMutationTest, TwoAxes) {
  const Graph graph = Tiny(kMlp, 5);
  std::set<CollectiveKind> kinds;
  for (unsigned seed = 0; seed < 3; ++seed) {
    SpmdPlan plan = RandomSpmdPlan(graph, kTwoByTwo, seed);
    plan.ratios.fill({{0.6, 0.4}, {0.3, 0.7}});  // all have something, or nobody would miss it
    kinds.merge(ExpectAllNoticed(plan, graph));
  }
  EXPECT_EQ(kinds.size(), 4U);
}

}  // namespace
}  // namespace heddle
