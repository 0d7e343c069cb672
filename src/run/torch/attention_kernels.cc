// Attention, some samples and heads at a time: the scores [samples, heads, queries, keys] are never
// whole, and backward computes them again from the saved logsumexp.
#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <limits>

#include "run/torch/kernel_call.h"

namespace heddle::kernels {
namespace {

// [b, s, …, heads, features] at one place of the third axis, as [b, heads, s, features].
at::Tensor Unpack(const at::Tensor& packed, int64_t which) {
  return packed.select(2, which).transpose(1, 2);
}

double ScaleOf(const at::Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

at::Tensor LaterPositions(int64_t positions, const at::Tensor& like) {
  return at::ones({positions, positions}, like.options().dtype(at::kBool)).triu(1);
}

// q k' / √d, without what comes later.
at::Tensor Scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& later) {
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2));
  scores.mul_(ScaleOf(q));
  if (later.defined()) scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  return scores;
}

// Some samples and heads: views of [b, heads, …] tensors.
struct Part {
  int64_t sample, samples, head, heads;
  at::Tensor operator()(const at::Tensor& t) const {
    return t.narrow(0, sample, samples).narrow(1, head, heads);
  }
};

void InParts(const at::Tensor& q, const at::Tensor& k,
             const std::function<void(const Part&)>& work) {
  const int64_t samples = q.size(0), heads = q.size(1);
  const int64_t at_once = RowsAtOnce(q.size(2) * k.size(2));  // of samples times heads
  const int64_t some_heads = std::min(at_once, heads);
  const int64_t some_samples = std::max<int64_t>(1, at_once / heads);
  for (int64_t sample = 0; sample < samples; sample += some_samples) {
    for (int64_t head = 0; head < heads; head += some_heads) {
      work({sample, std::min(some_samples, samples - sample), head,
            std::min(some_heads, heads - head)});
    }
  }
}

// q, k, v are [b, heads, s, features]; the results [b, s, heads, features] and [b, heads, s].
Tensors Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  const at::Tensor later = causal ? LaterPositions(q.size(2), q) : at::Tensor();
  at::Tensor out = at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options());
  at::Tensor lse = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
  InParts(q, k, [&](const Part& part) {
    at::Tensor p = Scores(part(q), part(k), later);
    const at::Tensor most = p.detach().amax({-1}, true);
    p = p.sub_(most).exp_();
    const at::Tensor sum = p.sum(-1, true);
    part(out.transpose(1, 2)).copy_(at::matmul(p, part(v)).div_(sum));
    part(lse).copy_((most + sum.log()).squeeze(-1));
  });
  return {out, lse};
}

// Views [b, heads, s, features] to write to; those not defined are not asked for.
struct AttentionGradients {
  at::Tensor q, k, v;
};

// With p = softmax(q k' / √d), o = p v:  dv = p' do,  dp = do v',  ds = p (dp - Σ do o) / √d,
// dq = ds k,  dk = ds' q.
void AttendBackward(const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse, bool causal,
                    const AttentionGradients& d) {
  const at::Tensor later = causal ? LaterPositions(q.size(2), q) : at::Tensor();
  InParts(q, k, [&](const Part& part) {
    at::Tensor p = Scores(part(q), part(k), later);
    p.sub_(part(lse).unsqueeze(-1)).exp_();
    if (d.v.defined()) part(d.v).copy_(at::matmul(p.transpose(-1, -2), part(d_out)));
    at::Tensor d_s = at::matmul(part(d_out), part(v).transpose(-1, -2));
    d_s.sub_((part(d_out) * part(out)).sum(-1, true)).mul_(p).mul_(ScaleOf(q));
    if (d.q.defined()) part(d.q).copy_(at::matmul(d_s, part(k)));
    if (d.k.defined()) part(d.k).copy_(at::matmul(d_s.transpose(-1, -2), part(q)));
  });
}

}  // namespace

Tensors Attention(const Call& c) {
  const at::Tensor& qkv = c.in[0];
  return Attend(Unpack(qkv, 0), Unpack(qkv, 1), Unpack(qkv, 2), c.op.attributes.causal);
}

Tensors AttentionInput(const Call& c) {
  const at::Tensor& qkv = c.in[1];
  at::Tensor d = at::empty_like(qkv);
  AttendBackward(c.in[0].transpose(1, 2), Unpack(qkv, 0), Unpack(qkv, 1), Unpack(qkv, 2),
                 c.in[2].transpose(1, 2), c.in[3], c.op.attributes.causal,
                 {Unpack(d, 0), Unpack(d, 1), Unpack(d, 2)});
  return {d};
}

Tensors CrossAttention(const Call& c) {
  return Attend(c.in[0].transpose(1, 2), Unpack(c.in[1], 0), Unpack(c.in[1], 1),
                /*causal=*/false);
}

Tensors CrossAttentionQuery(const Call& c) {
  at::Tensor d = at::empty_like(c.in[1]);
  AttendBackward(c.in[0].transpose(1, 2), c.in[1].transpose(1, 2), Unpack(c.in[2], 0),
                 Unpack(c.in[2], 1), c.in[3].transpose(1, 2), c.in[4], /*causal=*/false,
                 {d.transpose(1, 2), {}, {}});
  return {d};
}

Tensors CrossAttentionContext(const Call& c) {
  at::Tensor d = at::empty_like(c.in[2]);
  AttendBackward(c.in[0].transpose(1, 2), c.in[1].transpose(1, 2), Unpack(c.in[2], 0),
                 Unpack(c.in[2], 1), c.in[3].transpose(1, 2), c.in[4], /*causal=*/false,
                 {{}, Unpack(d, 0), Unpack(d, 1)});
  return {d};
}

}  // namespace heddle::kernels
