#!/usr/bin/env bash
# From a model and a cluster to a plan, and why it takes as long as it does.
source "$(dirname "$0")/session.sh"

say "Which models there are:"
run 'heddle models --json | grep \"name\"'

say "Cut a GPT with 24 blocks into stages for two fast and two slow devices. What is left open, here" \
  "the number of microbatches, is tuned."
run 'heddle plan --strategy 1f1b --model "gpt?layers=24" --cluster examples/clusters/mixed4.toml --batch 64 -o plan.json'

say "What each device does in one step, and what limits it:"
run 'heddle explain plan.json'

say "The step on a clock. A digit starts the forward (░) or backward (▓) of that microbatch."
run 'heddle simulate plan.json'
