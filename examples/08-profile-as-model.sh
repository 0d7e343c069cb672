#!/usr/bin/env bash
# A model of which only measurements are known: a profile of its layers.
source "$(dirname "$0")/session.sh"

run 'cut -c1-100 examples/profiles/tiny.txt'

say "Times are for 32 samples on a V100; the P100s of this cluster take longer, by their flop/s."
run 'heddle plan --strategy 1f1b --model examples/profiles/tiny.txt --profile-batch 32 --cluster examples/clusters/mixed4.toml --batch 256 -o plan.json'
run 'heddle explain plan.json'

say "Had they been measured on a P100, the V100s would be faster than this:"
run 'heddle compare --model examples/profiles/tiny.txt --profile-batch 32 --profile-device p100 --cluster examples/clusters/mixed4.toml --batch 256'

say "As text for people, and back: the Program says what its times were measured with."
run 'heddle lower plan.json > program.heddle'
run "sed -n '1,7p' program.heddle"
run 'heddle check program.heddle --cluster examples/clusters/mixed4.toml'
