#!/usr/bin/env bash
# One plan, three ways in which messages share the network; and a trace to zoom into.
source "$(dirname "$0")/session.sh"

run 'heddle plan --strategy interleaved --model "gpt?layers=24" --cluster examples/clusters/slow-rack.toml --batch 64 -o plan.json'

say "shared: messages on one wire share its bandwidth. exclusive: one after the other. channels: one" \
  "microbatch at a time between two stages, whatever wires they use, as many papers assume."
for links in shared exclusive channels; do
  run "heddle simulate plan.json --links $links | grep iteration"
done

say "Every event, for ui.perfetto.dev or chrome://tracing:"
run 'heddle simulate plan.json --rows 6 --trace trace.json'
