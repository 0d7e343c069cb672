// Embeddings, class tokens and mixtures of experts.
#include <ATen/ATen.h>

#include "run/torch/kernel_call.h"

namespace heddle::kernels {
namespace {

// Tokens that found room with the experts that are here: their number among [samples * positions],
// and the row of the experts' input [samples * experts * capacity] that is theirs.
struct Places {
  at::Tensor tokens, rows;
};

Places PlacesOf(const Call& c, const at::Tensor& slot) {
  const at::Tensor slots = slot.contiguous();
  const int64_t* data = slots.data_ptr<int64_t>();
  const int64_t positions = slots.size(1);
  const int64_t first = c.Part('e').begin * c.op.attributes.capacity;
  const int64_t rows_here = c.Part('e').size() * c.op.attributes.capacity;
  std::vector<int64_t> tokens, rows;
  for (int64_t k = 0; k < slots.numel(); ++k) {
    const int64_t row = data[k] - first;
    if (data[k] < 0 || row < 0 || row >= rows_here) continue;
    tokens.push_back(k);
    rows.push_back(k / positions * rows_here + row);
  }
  return {at::tensor(tokens, at::kLong), at::tensor(rows, at::kLong)};
}

int64_t ExpertOf(int64_t slot, int64_t capacity) { return slot < 0 ? -1 - slot : slot / capacity; }

// The share of each sequence's tokens that prefer each expert, room or not: [b, experts].
at::Tensor Preferences(const at::Tensor& slot, int64_t experts, int64_t capacity,
                       const at::TensorOptions& options) {
  const at::Tensor slots = slot.contiguous();
  const int64_t positions = slots.size(1);
  at::Tensor counts = at::zeros({slots.size(0), experts}, options.dtype(at::kDouble));
  auto count = counts.accessor<double, 2>();
  const int64_t* data = slots.data_ptr<int64_t>();
  for (int64_t k = 0; k < slots.numel(); ++k) {
    count[k / positions][ExpertOf(data[k], capacity)] += 1;
  }
  return (counts / static_cast<double>(positions)).to(options);
}

}  // namespace

// With a part of the table: zeros for the tokens of the other parts.
Tensors Embedding(const Call& c) {
  if (!c.Cut('v')) return {at::embedding(c.in[1], c.in[0])};
  const Range part = c.Part('v');
  const at::Tensor row = c.in[0] - part.begin;
  const at::Tensor here = row.ge(0).logical_and_(row.lt(part.size()));
  return {at::embedding(c.in[1], row.clamp(0, part.size() - 1)).mul_(here.unsqueeze(-1))};
}

// With a part of the table: the tokens of the other parts go to a row more, which is left out.
Tensors EmbeddingWeight(const Call& c) {
  const Range part = c.Part('v');
  const int64_t rows = part.size();
  if (!c.Cut('v')) {
    return {at::embedding_dense_backward(c.in[0], c.in[1], rows, /*padding_idx=*/-1,
                                         /*scale_grad_by_freq=*/false)};
  }
  const at::Tensor row = c.in[1] - part.begin;
  const at::Tensor elsewhere = row.lt(0).logical_or_(row.ge(rows));
  const at::Tensor all = at::embedding_dense_backward(c.in[0], row.masked_fill(elsewhere, rows),
                                                      rows + 1, /*padding_idx=*/rows,
                                                      /*scale_grad_by_freq=*/false);
  return {all.narrow(0, 0, rows).contiguous()};
}

Tensors ClassToken(const Call& c) {
  const at::Tensor tokens = c.in[0].flatten(2).transpose(1, 2);
  const at::Tensor first = c.in[1].view({1, 1, -1}).expand({tokens.size(0), 1, tokens.size(2)});
  return {at::cat({first, tokens}, 1)};
}

Tensors ClassTokenInput(const Call& c) {
  const at::Tensor rest = c.in[0].narrow(1, 1, c.in[0].size(1) - 1);
  return {rest.transpose(1, 2).reshape(c.OutputShape(0)).contiguous()};
}

Tensors ClassTokenWeight(const Call& c) { return {c.in[0].select(1, 0).sum(0)}; }

Tensors SelectFirst(const Call& c) { return {c.in[0].select(1, 0).contiguous()}; }

Tensors SelectFirstInput(const Call& c) {
  at::Tensor dx = at::zeros(c.OutputShape(0), c.in[0].options());
  dx.select(1, 0).copy_(c.in[0]);
  return {dx};
}

Tensors Softmax(const Call& c) { return {at::softmax(c.in[0], -1)}; }

Tensors SoftmaxBackward(const Call& c) {
  return {at::_softmax_backward_data(c.in[0], c.in[1], -1, c.in[1].scalar_type())};
}

// Tokens take places in the order of their positions.
Tensors Route(const Call& c) {
  const int64_t capacity = c.op.attributes.capacity;
  auto [most, expert] = c.in[0].max(-1);
  const at::Tensor slot = expert.clone();
  int64_t* slots = slot.data_ptr<int64_t>();
  std::vector<double> room(static_cast<size_t>(slot.numel()), 1);
  std::vector<int64_t> taken(static_cast<size_t>(c.in[0].size(-1)));
  for (int64_t k = 0; k < slot.numel(); ++k) {
    if (k % slot.size(1) == 0) std::fill(taken.begin(), taken.end(), 0);  // the next sequence
    const int64_t chosen = slots[k];
    const int64_t place = taken[static_cast<size_t>(chosen)]++;
    const bool fits = place < capacity;
    slots[k] = fits ? chosen * capacity + place : -1 - chosen;
    if (!fits) room[static_cast<size_t>(k)] = 0;
  }
  return {most * at::tensor(room, c.in[0].options()).view(slot.sizes()), slot};
}

Tensors RouteInput(const Call& c) {
  const int64_t capacity = c.op.attributes.capacity;
  at::Tensor dp = at::zeros(c.OutputShape(0), c.in[0].options());
  const at::Tensor room = c.in[1].ge(0);
  const at::Tensor expert = at::div(c.in[1].clamp_min(0), capacity, "floor");
  return {dp.scatter_(-1, expert.unsqueeze(-1), (c.in[0] * room).unsqueeze(-1))};
}

Tensors Dispatch(const Call& c) {
  at::Tensor y = at::zeros(c.OutputShape(0), c.in[0].options());
  const Places places = PlacesOf(c, c.in[1]);
  const at::Tensor sent = c.in[0].flatten(0, 1).index_select(0, places.tokens);
  return {y.flatten(0, 2).index_copy_(0, places.rows, sent).view(y.sizes())};
}

Tensors DispatchInput(const Call& c) {
  const at::Tensor& dy = c.in[0];
  const Places places = PlacesOf(c, c.in[1]);
  at::Tensor dx = at::zeros(c.OutputShape(0), dy.options());
  dx.flatten(0, 1).index_copy_(0, places.tokens, dy.flatten(0, 2).index_select(0, places.rows));
  return {dx};
}

Tensors Combine(const Call& c) {
  const at::Tensor& y = c.in[0];
  const Places places = PlacesOf(c, c.in[1]);
  const at::Tensor chosen = c.in[2].flatten().index_select(0, places.tokens).unsqueeze(-1);
  const at::Tensor back = y.flatten(0, 2).index_select(0, places.rows) * chosen;
  const std::vector<int64_t> shape = c.OutputShape(0);
  at::Tensor out = at::zeros({shape[0] * shape[1], shape[2]}, y.options());
  return {out.index_copy_(0, places.tokens, back).view(shape)};
}

Tensors CombineInput(const Call& c) {
  at::Tensor dy = at::zeros(c.OutputShape(0), c.in[0].options());
  const Places places = PlacesOf(c, c.in[1]);
  const at::Tensor chosen = c.in[2].flatten().index_select(0, places.tokens).unsqueeze(-1);
  const at::Tensor part = c.in[0].flatten(0, 1).index_select(0, places.tokens).mul_(chosen);
  dy.flatten(0, 2).index_copy_(0, places.rows, part);
  return {dy};
}

Tensors CombineWeight(const Call& c) {
  const at::Tensor& y = c.in[1];
  const Places places = PlacesOf(c, c.in[2]);
  const at::Tensor d_out = c.in[0].flatten(0, 1).index_select(0, places.tokens);
  const at::Tensor expert = y.flatten(0, 2).index_select(0, places.rows);
  at::Tensor d = at::zeros({c.in[2].numel()}, y.options());
  d.index_copy_(0, places.tokens, (d_out * expert).sum(-1));
  return {d.view(c.in[2].sizes())};
}

// Σ over experts of (share of tokens) · (mean probability), times the number of experts: 1 when
// both are even. Per sequence, so that it is a sum over samples like every other loss.
Tensors BalanceLoss(const Call& c) {
  const at::Tensor& p = c.in[0];
  const at::Tensor shares = Preferences(c.in[1], p.size(-1), c.op.attributes.capacity, p.options());
  const double scale = c.op.attributes.weight * static_cast<double>(p.size(-1)) /
                       static_cast<double>(c.context.batch);
  return {(p.mean(1) * shares).sum() * scale};
}

Tensors BalanceLossInput(const Call& c) {
  const std::vector<int64_t> shape = c.OutputShape(0);
  const auto options = at::TensorOptions().dtype(c.context.dtype);
  const at::Tensor shares = Preferences(c.in[0], shape[2], c.op.attributes.capacity, options);
  const double scale = c.op.attributes.weight * static_cast<double>(shape[2]) /
                       static_cast<double>(shape[1] * c.context.batch);
  return {(shares * scale).unsqueeze(1).expand(shape).contiguous()};
}

}  // namespace heddle::kernels
