#!/usr/bin/env bash
# The same model under every strategy, on two clusters. Which one wins depends on the network.
source "$(dirname "$0")/session.sh"

say "Eight equal devices in one node, 20 GB/s between every two of them:"
run 'heddle compare --model "gpt?layers=24" --cluster examples/clusters/equal8.toml --batch 64'

say "Two racks of eight slower devices, 2.5 Gbit/s between the racks: whoever sums all gradients over" \
  "that link waits for it, a pipeline sends only activations."
run 'heddle compare --model "gpt?layers=24" --cluster examples/clusters/slow-rack.toml --batch 64'

say "The same as data: rows sorted by time, those that do not fit last."
run 'heddle compare --json --model "gpt?layers=24" --cluster examples/clusters/slow-rack.toml --batch 64 2> /dev/null \
  | grep -E "strategy|peak_bytes"'
