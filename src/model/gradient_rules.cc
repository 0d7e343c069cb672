#include "model/gradient_rules.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace heddle {
namespace {

// y = einsum(a, b): da = einsum(dy, b), db = einsum(a, dy), the letters exchanged.
void Einsum(GradientWriter& w, const Op& op, TensorId dy) {
  const std::string& a = op.inputs[0].letters;
  const std::string& b = op.inputs[1].letters;
  const std::string& y = op.outputs[0].letters;
  w.Contribute(op, OpKind::kEinsum, ".da", y + "," + b + "->" + a, {dy, op.inputs[1].tensor},
               op.inputs[0].tensor);
  w.Contribute(op, OpKind::kEinsum, ".db", a + "," + y + "->" + b, {op.inputs[0].tensor, dy},
               op.inputs[1].tensor);
}

void BiasAdd(GradientWriter& w, const Op& op, TensorId dy) {
  w.PassThrough(op, ".dx", op.inputs[0].tensor, dy);
  w.Contribute(op, OpKind::kReduceSum, ".dbias",
               op.outputs[0].letters + "->" + op.inputs[1].letters, {dy}, op.inputs[1].tensor);
}

void Add(GradientWriter& w, const Op& op, TensorId dy) {
  w.PassThrough(op, ".da", op.inputs[0].tensor, dy);
  w.PassThrough(op, ".db", op.inputs[1].tensor, dy);
}

// dx is computed from dy and x, element by element.
template <OpKind kBackward>
void FromInput(GradientWriter& w, const Op& op, TensorId dy) {
  const std::string& y = op.outputs[0].letters;
  w.Contribute(op, kBackward, ".dx", y + "," + y + "->" + y, {dy, op.inputs[0].tensor},
               op.inputs[0].tensor, op.attributes);
}

// dx is computed from dy and y, element by element.
template <OpKind kBackward>
void FromOutput(GradientWriter& w, const Op& op, TensorId dy) {
  const std::string& y = op.outputs[0].letters;
  w.Contribute(op, kBackward, ".dx", y + "," + y + "->" + y, {dy, op.outputs[0].tensor},
               op.inputs[0].tensor, op.attributes);
}

// dx is computed from dy alone, by the transposed map.
template <OpKind kBackward>
void Transposed(GradientWriter& w, const Op& op, TensorId dy) {
  w.Contribute(op, kBackward, ".dx",
               op.outputs[0].letters + "->" + op.inputs[0].letters + "|" + op.work, {dy},
               op.inputs[0].tensor, op.attributes);
}

void LayerNorm(GradientWriter& w, const Op& op, TensorId dy) {
  const TensorId x = op.inputs[0].tensor;
  const TensorId scale = op.inputs[1].tensor;
  const TensorId mean = op.outputs[1].tensor;
  const TensorId rstd = op.outputs[2].tensor;
  const std::string lead = op.outputs[1].letters;
  const std::string stats = "," + lead + "," + lead;
  w.Contribute(op, OpKind::kLayerNormInput, ".dx",
               lead + "H," + lead + "H,H" + stats + "->" + lead + "H", {dy, x, scale, mean, rstd},
               x);
  w.Contribute(op, OpKind::kLayerNormScale, ".dscale", lead + "h," + lead + "h" + stats + "->h",
               {dy, x, mean, rstd}, scale);
  w.Contribute(op, OpKind::kReduceSum, ".dshift", lead + "h->h", {dy}, op.inputs[2].tensor);
}

void Attention(GradientWriter& w, const Op& op, TensorId dy) {
  w.Contribute(op, OpKind::kAttentionInput, ".dqkv", "bSaD,bSCaD,bSaD,baS->bSCaD|bSSaD",
               {dy, op.inputs[0].tensor, op.outputs[0].tensor, op.outputs[1].tensor},
               op.inputs[0].tensor, op.attributes);
}

void CrossAttention(GradientWriter& w, const Op& op, TensorId dy) {
  const TensorId q = op.inputs[0].tensor;
  const TensorId kv = op.inputs[1].tensor;
  const std::vector<TensorId> inputs = {dy, q, kv, op.outputs[0].tensor, op.outputs[1].tensor};
  const std::string letters = "bTaD,bTaD,bSCaD,bTaD,baT->";
  w.Contribute(op, OpKind::kCrossAttentionQuery, ".dq", letters + "bTaD|bTSaD", inputs, q);
  w.Contribute(op, OpKind::kCrossAttentionContext, ".dkv", letters + "bSCaD|bTSaD", inputs, kv);
}

void Embedding(GradientWriter& w, const Op& op, TensorId dy) {
  const std::string& y = op.outputs[0].letters;
  const std::string& tokens = op.inputs[0].letters;
  w.Contribute(op, OpKind::kEmbeddingWeight, ".dtable", y + "," + tokens + "->vh|" + y,
               {dy, op.inputs[0].tensor}, op.inputs[1].tensor);
}

void CrossEntropy(GradientWriter& w, const Op& op, TensorId) {
  const std::string& logits = op.inputs[0].letters;
  const std::string& targets = op.inputs[1].letters;
  w.Contribute(
      op, OpKind::kCrossEntropyInput, ".dx", logits + "," + targets + "," + targets + "->" + logits,
      {op.inputs[0].tensor, op.inputs[1].tensor, op.outputs[1].tensor}, op.inputs[0].tensor);
}

// The same elements become zero: linear, and its own transpose.
void Dropout(GradientWriter& w, const Op& op, TensorId dy) {
  const std::string& y = op.outputs[0].letters;
  w.Contribute(op, OpKind::kDropout, ".dx", y + "->" + y, {dy}, op.inputs[0].tensor, op.attributes);
}

void Conv2d(GradientWriter& w, const Op& op, TensorId dy) {
  const TensorId x = op.inputs[0].tensor;
  const TensorId weight = op.inputs[1].tensor;
  w.Contribute(op, OpKind::kConv2dInput, ".dx", "boYX,ocKL->bcHW|boYXcKL", {dy, weight}, x,
               op.attributes);
  w.Contribute(op, OpKind::kConv2dWeight, ".dw", "boYX,bcHW->ocKL|boYXcKL", {dy, x}, weight,
               op.attributes);
}

void MaxPool(GradientWriter& w, const Op& op, TensorId dy) {
  w.Contribute(op, OpKind::kMaxPoolInput, ".dx", "bcYX,bcYX->bcHW|bcHW", {dy, op.outputs[1].tensor},
               op.inputs[0].tensor, op.attributes);
}

void Concat(GradientWriter& w, const Op& op, TensorId dy) {
  OpAttributes attributes;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const TensorId part = op.inputs[i].tensor;
    w.Contribute(op, OpKind::kSlice, ".d" + std::to_string(i), "bOyx->bCyx|bCyx", {dy}, part,
                 attributes);
    attributes.offset += w.tensor(part).shape[1];
  }
}

// With n the normalised x:  dx = scale / σ · (dy − mean(dy) − n · mean(dy · n)), where the means
// are over the samples that were normalised together; dscale and dshift are those sums.
void BatchNorm(GradientWriter& w, const Op& op, TensorId dy) {
  const TensorId x = op.inputs[0].tensor;
  const TensorId mean = op.inputs[1].tensor;
  const TensorId variance = op.inputs[2].tensor;
  const TensorId scale = op.inputs[3].tensor;
  const std::vector<TensorId> sums =
      w.AddIntermediate(op, OpKind::kBatchNormSums, ".sums", "bchw,bchw,c,c->c,c",
                        {dy, x, mean, variance}, {"sum", "product"}, op.attributes);
  w.Contribute(op, OpKind::kBatchNormInput, ".dx", "bchw,bchw,c,c,c,c,c->bchw",
               {dy, x, mean, variance, scale, sums[0], sums[1]}, x, op.attributes);
  w.Contribute(op, OpKind::kReduceSum, ".dscale", "c->c", {sums[1]}, scale);
  w.Contribute(op, OpKind::kReduceSum, ".dshift", "c->c", {sums[0]}, op.inputs[4].tensor);
}

void ClassToken(GradientWriter& w, const Op& op, TensorId dy) {
  Transposed<OpKind::kClassTokenInput>(w, op, dy);
  w.Contribute(op, OpKind::kClassTokenWeight, ".dtoken", "bSh->h|bh", {dy}, op.inputs[1].tensor);
}

// Every position is written, all but the first with zeros.
void SelectFirst(GradientWriter& w, const Op& op, TensorId dy) {
  w.Contribute(op, OpKind::kSelectFirstInput, ".dx", "bh->bSh", {dy}, op.inputs[0].tensor);
}

void Route(GradientWriter& w, const Op& op, TensorId dy) {
  w.Contribute(op, OpKind::kRouteInput, ".dx", "bS,bS->bSE|bSE", {dy, op.outputs[1].tensor},
               op.inputs[0].tensor, op.attributes);
}

void Dispatch(GradientWriter& w, const Op& op, TensorId dy) {
  w.Contribute(op, OpKind::kDispatchInput, ".dx", "beCh,bS->bSh|bSh", {dy, op.inputs[1].tensor},
               op.inputs[0].tensor, op.attributes);
}

void Combine(GradientWriter& w, const Op& op, TensorId dy) {
  const TensorId y = op.inputs[0].tensor;
  const TensorId slot = op.inputs[1].tensor;
  const TensorId chosen = op.inputs[2].tensor;
  w.Contribute(op, OpKind::kCombineInput, ".dy", "bSh,bS,bS->beCh|beCh", {dy, slot, chosen}, y,
               op.attributes);
  w.Contribute(op, OpKind::kCombineWeight, ".dchosen", "bSh,beCh,bS->bS|bSh", {dy, y, slot}, chosen,
               op.attributes);
}

void BalanceLoss(GradientWriter& w, const Op& op, TensorId) {
  w.Contribute(op, OpKind::kBalanceLossInput, ".dx", "bS->bSE|bSE", {op.inputs[1].tensor},
               op.inputs[0].tensor, op.attributes);
}

// A profile states one backward time. A layer without weights spends it on its inputs; one with
// weights half and half, as a matrix product would (both parts are products of the same size).
void Opaque(GradientWriter& w, const Op& op, TensorId dy) {
  const bool has_weight = w.IsParameter(op.inputs.back().tensor);
  const size_t activations = op.inputs.size() - (has_weight ? 1 : 0);
  size_t targets = 0;
  for (size_t i = 0; i < activations; ++i) targets += w.NeedsGradient(op.inputs[i].tensor) ? 1 : 0;
  OpAttributes attributes;
  attributes.profiled_rows = op.attributes.profiled_rows;
  attributes.profiled_rate = op.attributes.profiled_rate;
  std::vector<TensorId> inputs;
  std::string letters;
  if (dy.valid()) {
    inputs.push_back(dy);
    letters = "bY";
  }
  for (const Operand& input : op.inputs) {
    inputs.push_back(input.tensor);
    letters += (letters.empty() ? "" : ",") + input.letters;
  }
  const Seconds backward = op.attributes.profiled_backward;
  const Seconds for_inputs = has_weight && targets > 0 ? backward / 2 : backward;
  // Deliver to the inputs from the last to the first; the time is divided evenly among them.
  for (size_t i = activations; i-- > 0;) {
    attributes.profiled_seconds = for_inputs / static_cast<double>(std::max<size_t>(1, targets));
    w.Contribute(op, OpKind::kOpaque, ".dx" + std::to_string(i),
                 letters + "->" + op.inputs[i].letters, inputs, op.inputs[i].tensor, attributes);
  }
  if (has_weight) {
    attributes.profiled_seconds = targets > 0 ? backward / 2 : backward;
    w.Contribute(op, OpKind::kOpaque, ".dw", letters + "->Z", inputs, op.inputs.back().tensor,
                 attributes);
  } else if (targets == 0 && backward.value > 0) {  // time that nobody waits for is still spent
    attributes.profiled_seconds = backward;
    w.AddIntermediate(op, OpKind::kOpaque, ".dx", letters + "->b", inputs, {"done"}, attributes);
  }
}

using Rule = void (*)(GradientWriter&, const Op&, TensorId dy);

struct KindRule {
  OpKind kind;
  Rule rule;
  bool starts = false;  // gradients start here
};

// Kinds without a rule are no forward ops, or have no gradient of their own: BatchNorm's rule
// accounts for its statistics.
constexpr KindRule kRules[] = {
    {OpKind::kEinsum, Einsum},
    {OpKind::kBiasAdd, BiasAdd},
    {OpKind::kAdd, Add},
    {OpKind::kGelu, FromInput<OpKind::kGeluBackward>},
    {OpKind::kRelu, FromOutput<OpKind::kReluBackward>},
    {OpKind::kTanh, FromOutput<OpKind::kTanhBackward>},
    {OpKind::kDropout, Dropout},
    {OpKind::kLayerNorm, LayerNorm},
    {OpKind::kAttention, Attention},
    {OpKind::kCrossAttention, CrossAttention},
    {OpKind::kEmbedding, Embedding},
    {OpKind::kCrossEntropy, CrossEntropy, true},
    {OpKind::kConv2d, Conv2d},
    {OpKind::kMaxPool, MaxPool},
    {OpKind::kAveragePool, Transposed<OpKind::kAveragePoolInput>},
    {OpKind::kMean, Transposed<OpKind::kMeanInput>},
    {OpKind::kConcat, Concat},
    {OpKind::kBatchNorm, BatchNorm},
    {OpKind::kClassToken, ClassToken},
    {OpKind::kSelectFirst, SelectFirst},
    {OpKind::kSoftmax, FromOutput<OpKind::kSoftmaxBackward>},
    {OpKind::kRoute, Route},
    {OpKind::kDispatch, Dispatch},
    {OpKind::kCombine, Combine},
    {OpKind::kBalanceLoss, BalanceLoss, true},
    {OpKind::kOpaque, Opaque, true},
};

}  // namespace

void WriteGradients(GradientWriter& writer, const Op& op) {
  const auto found = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const KindRule& rule) { return rule.kind == op.kind; });
  const bool statistic = op.kind == OpKind::kBatchMean || op.kind == OpKind::kBatchVariance;
  if (statistic) return;
  HEDDLE_CHECK(found != std::end(kRules));
  const TensorId dy = writer.GradientOf(op.outputs[0].tensor);
  if (dy.valid() || found->starts) found->rule(writer, op, dy);
}

}  // namespace heddle
