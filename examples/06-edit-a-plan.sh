#!/usr/bin/env bash
# A plan is a small file. Change a decision by hand, and see what it costs.
source "$(dirname "$0")/session.sh"

say "The decisions of a plan are which layers are where, and in which order each stage works:"
run 'heddle plan --strategy 1f1b --model "gpt?layers=24" --cluster examples/clusters/mixed4.toml --batch 64 --microbatches 8 -o plan.json'
run 'grep \"order\" plan.json'

say "The first stage runs all forwards before all backwards:"
run 'sed "s/F\*4 (B F)\*4 B\*4/F*8 B*8/" plan.json > eager.json'
run 'heddle check eager.json'

say "That needs more memory than the device has. One forward less in flight needs less, and waits more:"
run 'sed "s/F\*4 (B F)\*4 B\*4/F*3 (B F)*5 B*3/" plan.json > careful.json'
run 'heddle explain careful.json'

say "What makes no sense is refused, with the place:"
run 'sed "s/F\*4 (B F)\*4 B\*4/F*4 (B F)*4 B*3/" plan.json > forgotten.json'
run 'heddle check forgotten.json'

say "So is a plan whose cluster was changed: its decisions were made for another one."
run 'sed "s/\"16 GiB\"/\"32 GiB\"/" plan.json > upgraded.json'
run 'heddle check upgraded.json'
