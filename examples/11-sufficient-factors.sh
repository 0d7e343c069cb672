#!/usr/bin/env bash
# Sufficient factors: when it is cheaper to send what a weight's gradient is made of than the gradient.
source "$(dirname "$0")/session.sh"

plan() {  # plan BATCH FILE
  heddle plan --strategy spmd --model 'bridge?image=8&width=16&channels=4&layers=2' --batch "$1" --optimizer sgd \
    --cluster examples/clusters/thin-pair.toml -o "$2"
}

# The steps of the linear layer, of a plan with sufficient factors, rewritten: its gradient summed, its columns divided.
all_reduced() {
  sed -e '/"narrow.relu.y: R.S0 -> R.R ring",/d' -e '/"d.bridge.add.y: R.S0 -> R.R ring",/d' \
    -e 's/"bridge.add.dbias -.-",/"bridge.add.dbias -.b", "g.bridge.bias: R.P -> R.R ring",/' \
    -e 's/"bridge.db -.-",/"bridge.db -.b", "g.bridge.w: R.P -> R.R ring",/' "$1"
}
in_columns() {
  sed -e '/"narrow.relu.y: R.S0 -> R.R ring",/d' -e '/"d.bridge.add.y: R.S0 -> R.R ring",/d' \
    -e "s/\"storage\": {/\"storage\": { \"bridge.w\": \"R.S3'1\",/" \
    -e "s/\"bridge -.b\",/\"narrow.relu.y: R.S0 -> R.R ring\", \"bridge -.d'1\", \"bridge.y: R.S1'1 -> R.S0 ring\",/" \
    -e 's/"bridge.add.dbias -.-",/"bridge.add.dbias -.b", "g.bridge.bias: R.P -> R.R ring",/' \
    -e "s/\"bridge.da -.b\",/\"d.bridge.add.y: R.S0 -> R.S1'1 ring\", \"bridge.da -.d'1\", \"d.narrow.relu.y: R.P -> R.S0 ring\",/" \
    -e "s/\"bridge.db -.-\",/\"bridge.db -.d'1\",/" -e "s/\"bridge.w.update -.-\",/\"bridge.w.update -.n'1\",/" "$1"
}
milliseconds() { heddle simulate "$1" | sed -n 's/.*· iteration \([0-9.]* ms\) .*/\1/p'; }

# at_batch BATCH: the three forms of the plan for 32 samples with so many, and which one heddle chooses.
at_batch() {
  local hash form
  plan "$1" chosen.json > summary.txt
  hash=$(sed -n 's/.*"model_hash": "\(.*\)",/\1/p' chosen.json)
  for form in factors columns summed; do
    sed -e "s/\"model_hash\": \".*\"/\"model_hash\": \"$hash\"/" -e "s/\"batch\": 32/\"batch\": $1/" "$form.json" > "$form-$1.json"
  done
  printf '%7s  %14s  %10s  %10s  %10s  %s\n' "$1" "$(milliseconds "factors-$1.json")" "$(milliseconds "columns-$1.json")" \
    "$(milliseconds "summed-$1.json")" "$(milliseconds chosen.json)" \
    "$(grep -o -e '"bridge -[^"]*' -e '"bridge.db -[^"]*' chosen.json | tr -d '"' | paste -s -d, | sed 's/,/, /')"
}

say "One linear layer of 256 x 256 weights between convolutions, 32 samples a step, two processors behind 400 Mbit/s."
run 'cat examples/clusters/thin-pair.toml'
run 'plan 32 factors.json'

say "Its weight is whole on both. Each multiplies its own samples (b), forward (bridge) and backward (bridge.da); then both" \
  "gather all inputs and all output gradients, and each computes the whole gradient of the weight (bridge.db, undivided):"
run 'grep -e "\"bridge" -e bridge.add.y -e narrow.relu.y factors.json'
run 'heddle verify factors.json | head -n 2'

say "The same plan with the layer's gradient summed (256 x 256 numbers instead of 32 x 512), and with its columns divided:"
run 'all_reduced factors.json > summed.json; heddle verify summed.json | head -n 2; milliseconds summed.json'
run 'in_columns factors.json > columns.json; heddle verify columns.json | head -n 2; milliseconds columns.json'

say "Where it begins and ends. Few samples: nothing is divided, or the layer's rows are. Many: the gradient is less to send."
run 'echo "samples         factors     columns      summed      chosen  by heddle: forward, gradient of the weight"; for k in 8 16 32 64 96 128 256; do at_batch $k; done'
