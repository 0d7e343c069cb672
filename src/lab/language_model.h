// LanguageModel: a small transformer that predicts the next character of a text, as an Objective.
//
//   HEDDLE_ASSIGN(const TextSource text, TextSource::Of(MadeText(200000), "made", 17));
//   const LanguageModel model(text, {.layers = 4, .hidden = 16, .context = 16, .samples = 4});
//   model.Blocks(8)[0]               the embedding and the first attention
//
// The weights lie in the order of the units (transformer_units.h): embedding, then attention and
// mlp in turn, then the head. Stages share the attentions and mlps evenly; the first has the
// embedding too, the last the head. A microbatch is `samples` windows of the training part, which
// seed and number of the microbatch decide. Loss is the mean over windows at equal distances in the
// training part, always the same; HeldOutLoss that of the held-out part. Both in nats per
// character.
//
// This is the objective where stashing is more than another point of reading: Reread gives a
// backward new weights to multiply by, while what the forward saved stays what old weights made.
#pragma once

#include "lab/objective.h"
#include "lab/text_source.h"
#include "lab/transformer_units.h"

namespace heddle {

class LanguageModel : public Objective {
 public:
  // The alphabet of `shape` is set to that of the text. REQUIRES: hidden a multiple of 8; windows
  // of context + 1 symbols fit into both parts of the text.
  LanguageModel(TextSource text, NetworkShape shape);

  int64_t dimension() const override { return dimension_; }
  double smoothness() const override;
  double lowest() const override { return 0; }
  bool has_constants() const override { return false; }
  double Loss(const double* x) const override;
  std::optional<double> HeldOutLoss(const double* x) const override;
  bool sampled() const override { return true; }
  int64_t most_stages() const override { return 2 * shape_.layers; }
  std::vector<Block> Blocks(int stages) const override;
  std::vector<double> Start(uint64_t seed) const override;

  Pass MakePass() const override;
  void Begin(Pass& pass) const override;
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass& pass) const override;
  void Backward(const Block& block, Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;

  const NetworkShape& shape() const { return shape_; }

  // Mean loss of the samples that pass.draw names; the pass is used up.
  double SampleLoss(const double* x, Pass& pass) const;

 private:
  struct PlacedUnit {
    NetworkUnit unit;
    Block weights;
    int64_t saved;  // where in Pass::signal
  };

  void Place(NetworkUnit unit);
  // Sample number `sample` of a pass: the window that begins at `begin`.
  void FillWindow(int64_t begin, int64_t sample, Pass& pass) const;
  double ForwardAll(const double* x, Pass& pass) const;
  // Of `count` windows at equal distances between begin and end.
  double MeanLoss(const double* x, int64_t begin, int64_t end, int64_t count) const;
  UnitCall CallOf(const PlacedUnit& unit, Pass& pass) const;

  TextSource text_;
  NetworkShape shape_;
  std::vector<PlacedUnit> units_;
  int64_t dimension_ = 0;
  int64_t saved_ = 0;
};

}  // namespace heddle
