// GraphBuilder: writes a forward pass op by op; autodiff (autodiff.h) adds the rest.
//
//   GraphBuilder g(batch, DType::kF32);
//   g.BeginLayer("fc");
//   TensorId w = g.Parameter("fc.w", {64, 10});
//   TensorId y = g.Einsum("fc", "bk,kn->bn", x, w);
//
// The signature "bk,kn->bn" is the op's only declaration (op_kind.h). A shape that does not match
// it is a programmer error.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph.h"

namespace heddle {

class GraphBuilder {
 public:
  GraphBuilder(int64_t batch, DType dtype) : batch_(batch), dtype_(dtype) {}

  void BeginLayer(std::string name) { layers_.push_back(std::move(name)); }

  // `shape` without the sample axis for inputs; whole for parameters.
  TensorId Input(std::string name, DType dtype, std::vector<int64_t> shape);
  TensorId Parameter(std::string name, std::vector<int64_t> shape, double initial_mean = 0,
                     double initial_deviation = 0.02);

  TensorId Einsum(const std::string& name, std::string_view signature, TensorId a, TensorId b);
  TensorId BiasAdd(const std::string& name, std::string_view signature, TensorId x, TensorId bias);
  TensorId Add(const std::string& name, TensorId a, TensorId b);
  TensorId Gelu(const std::string& name, TensorId x);
  TensorId Relu(const std::string& name, TensorId x);
  TensorId Tanh(const std::string& name, TensorId x);
  // x itself when the rate is 0.
  TensorId Dropout(const std::string& name, TensorId x, double rate);
  TensorId LayerNorm(const std::string& name, TensorId x, TensorId scale, TensorId shift,
                     double epsilon = 1e-5);
  // qkv is [b, s, 3, heads, features]; the result [b, s, heads, features].
  TensorId Attention(const std::string& name, TensorId qkv, bool causal);
  // q is [b, t, heads, features], kv [b, s, 2, heads, features]; the result like q.
  TensorId CrossAttention(const std::string& name, TensorId q, TensorId kv);
  TensorId Embedding(const std::string& name, TensorId tokens, TensorId table);

  // Images [b, channels, height, width]. A convolution's weight is [out, in, height, width].
  TensorId Conv2d(const std::string& name, TensorId x, TensorId weight, Window window);
  TensorId MaxPool(const std::string& name, TensorId x, Window window);
  TensorId AveragePool(const std::string& name, TensorId x, Window window);
  TensorId Mean(const std::string& name, TensorId x);
  TensorId Concat(const std::string& name, const std::vector<TensorId>& parts);
  TensorId BatchNorm(const std::string& name, TensorId x, TensorId scale, TensorId shift,
                     double epsilon = 1e-5);

  // Image features [b, h, y, x] as tokens [b, 1 + y x, h], the class token first.
  TensorId ClassToken(const std::string& name, TensorId features, TensorId token);
  TensorId SelectFirst(const std::string& name, TensorId x);  // [b, s, h] -> [b, h]

  // Mixture of experts: probabilities [b, s, experts] choose a slot for every token.
  TensorId Softmax(const std::string& name, TensorId x);
  struct Routing {
    TensorId chosen;  // [b, s]: the chosen expert's probability
    TensorId slot;    // [b, s]
    int64_t capacity = 0;
  };
  Routing Route(const std::string& name, TensorId probabilities, int64_t capacity);
  // [b, s, h] -> [b, experts, capacity, h], and back.
  TensorId Dispatch(const std::string& name, TensorId x, const Routing& routing, int64_t experts);
  TensorId Combine(const std::string& name, TensorId y, const Routing& routing);
  void BalanceLoss(const std::string& name, TensorId probabilities, const Routing& routing,
                   double weight);

  // Ends the forward pass. logits [b, …, v], targets [b, …].
  TensorId CrossEntropy(const std::string& name, TensorId logits, TensorId targets);
  // A profiled layer. Elements of output per sample; its parameters as one flat tensor (0: none).
  struct Times {
    Seconds forward;
    Seconds backward;
    int64_t rows = 1;    // samples that took so long together
    FlopRate rate = {};  // of the device they hold for; 0: they hold on every device
  };
  static constexpr size_t kMostOpaqueInputs = 46;  // letters that are left for them
  TensorId Opaque(const std::string& name, const std::vector<TensorId>& inputs,
                  int64_t output_elements, int64_t parameter_elements, const Times& times);

  struct NewTensor {
    std::string name;
    DType dtype;
    Role role;
    std::vector<int64_t> shape = {};  // where letters are new
  };
  // The general form: shapes of the outputs follow from the signature, unless given. Autodiff uses
  // it too.
  std::vector<TensorId> AddOp(OpKind kind, const std::string& name, std::string_view signature,
                              const std::vector<TensorId>& inputs,
                              const std::vector<NewTensor>& outputs, Phase phase, LayerId layer,
                              OpAttributes attributes = {});
  // An op whose outputs exist already (gradient sums, updates).
  OpId AddOpInto(OpKind kind, const std::string& name, std::string_view signature,
                 const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs,
                 Phase phase, LayerId layer, OpAttributes attributes = {});
  TensorId AddTensor(Tensor tensor);

  const Tensor& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id.value)]; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Op>& ops() const { return ops_; }
  std::vector<heddle::Parameter>& parameters() { return parameters_; }
  DType dtype() const { return dtype_; }

  // Letters of a tensor's axes when the op does not care: b first if it is per sample.
  std::string LettersOf(TensorId id) const;

  Result<Graph> Finish();

 private:
  LayerId CurrentLayer() const { return LayerId{static_cast<int32_t>(layers_.size()) - 1}; }
  TensorId Unary(OpKind kind, const std::string& name, TensorId x, OpAttributes attributes = {});
  TensorId Activation(OpKind kind, const std::string& name, std::string_view signature,
                      const std::vector<TensorId>& inputs, std::vector<int64_t> shape = {},
                      OpAttributes attributes = {});

  int64_t batch_;
  DType dtype_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<heddle::Parameter> parameters_;
  std::vector<std::string> layers_;
};

}  // namespace heddle
