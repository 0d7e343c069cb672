#!/usr/bin/env bash
# What a plan means for each device: its Program, as text. docs/program.md explains every line.
source "$(dirname "$0")/session.sh"

say "A small model on two devices, four microbatches, one forward and one backward in turn."
run 'heddle plan --strategy 1f1b --model tiny-mlp --cluster examples/clusters/laptop.toml --batch 8 --microbatches 4 --optimizer sgd -o plan.json'

say "Its Program: tensors, segments with what they read and write, then one list per device."
run 'heddle lower plan.json -o plan.heddle'
run 'cat plan.heddle'

say "The checker walks both lists and proves them well formed."
run 'heddle check plan.json'

say "The text alone is enough, with the cluster beside it."
run 'heddle check plan.heddle --cluster examples/clusters/laptop.toml'
