#!/usr/bin/env bash
# What heddle says when a model does not fit, and what helps.
source "$(dirname "$0")/session.sh"

say "A GPT with 1.6 billion parameters, one copy on every device: exit code 3, no plan."
run 'heddle plan --strategy dp --model "gpt?layers=48&hidden=1600&heads=25" --cluster examples/clusters/mixed4.toml --batch 64'

say "Cut into stages it fits, once activations are computed again instead of kept:"
run 'heddle plan --strategy 1f1b --model "gpt?layers=48&hidden=1600&heads=25" --cluster examples/clusters/mixed4.toml --batch 64 -o plan.json'

say "Which device is how full:"
run 'heddle explain plan.json'

say "A plan that is edited until it no longer fits is refused as well: here, without recomputation."
run 'grep -v "\"recompute\": true" plan.json > edited.json'
run 'heddle check edited.json'
