// Ops and tensors of a graph as text, and their numbers by name.
//
//   TypeOf(graph, "fc.y")         ->  "f32[4,8]"
//   SignatureOf(graph, "attn")    ->  "bSCaD->bSaD,baS|bSSaD"
//   ShardingOf(graph, "conv")     ->  "b:shared c:summed H:whole W:whole o:shared …"
#pragma once

#include <cctype>
#include <string>

#include "model/graph.h"

namespace heddle {

inline std::string TypeOf(const Graph& graph, const std::string& tensor) {
  const Tensor& t = graph.tensor(graph.FindTensor(tensor).value());
  std::string text = std::string(NameOf(t.dtype)) + "[";
  for (size_t axis = 0; axis < t.shape.size(); ++axis) {
    text += (axis == 0 ? "" : ",") + std::to_string(t.shape[axis]);
  }
  return text + "]";
}

inline const Op& OpOf(const Graph& graph, const std::string& name) {
  return graph.op(graph.FindOp(name).value());
}

inline double FlopsOf(const Graph& graph, const std::string& name) {
  return FlopsOf(OpOf(graph, name), OpOf(graph, name).extents).value;
}

inline int64_t TrafficOf(const Graph& graph, const std::string& name) {
  return TrafficOf(graph, OpOf(graph, name), OpOf(graph, name).extents).value;
}

// The work only where it is not every letter once.
inline std::string SignatureOf(const Op& op) {
  std::string text;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    text += (i == 0 ? "" : ",") + op.inputs[i].letters;
  }
  text += "->";
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    text += (i == 0 ? "" : ",") + op.outputs[i].letters;
  }
  return op.work == op.letters ? text : text + "|" + op.work;
}

inline std::string SignatureOf(const Graph& graph, const std::string& name) {
  return SignatureOf(OpOf(graph, name));
}

// What becomes of the first output when an axis is divided among devices: each has a part of it
// (shared), each has a partial sum (summed), or it cannot be divided (whole).
inline std::string ShardingOf(const Graph& graph, const std::string& name) {
  const Op& op = OpOf(graph, name);
  std::string text;
  for (const char letter : op.letters) {
    const bool blocked = std::isupper(static_cast<unsigned char>(letter)) != 0;
    const bool kept = op.outputs[0].letters.find(letter) != std::string::npos;
    text += (text.empty() ? "" : " ") + std::string(1, letter) +
            (blocked ? ":whole"
             : kept  ? ":shared"
                     : ":summed");
  }
  return text;
}

// "conv.dw conv2d_weight boYX,bcHW->ocKL|boYXcKL\n" for every op of backward, in order.
inline std::string BackwardOf(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kBackwardInput && op.phase != Phase::kBackwardWeight) continue;
    text += op.name + " " + std::string(InfoOf(op.kind).name) + " " + SignatureOf(op) + "\n";
  }
  return text;
}

}  // namespace heddle
