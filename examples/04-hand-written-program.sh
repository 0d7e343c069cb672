#!/usr/bin/env bash
# A Program without a planner: check it, give it a clock, break it and see what the checker says.
source "$(dirname "$0")/session.sh"
cp examples/04-hand-written-program.heddle two-stages.heddle

say "Well formed, and how it runs: R, the forward that runs again, is drawn as a forward."
run 'heddle check two-stages.heddle --cluster examples/clusters/laptop.toml'
run 'heddle simulate two-stages.heddle --cluster examples/clusters/laptop.toml'

say "A receive is forgotten:"
run 'grep -v "recv dh#1" two-stages.heddle > broken.heddle'
run 'heddle check broken.heddle --cluster examples/clusters/laptop.toml'

say "The second microbatch is sent only after the first has come back, but the second stage wants it before:"
run 'sed "s/^  send h#1 to 1 tag 1$//; s/^  compute B0 #0$/&\n  send h#1 to 1 tag 1/" two-stages.heddle > late.heddle'
run 'heddle simulate late.heddle --cluster examples/clusters/laptop.toml'

say "A gradient that was sent is never freed: the next step finds it still there."
run 'grep -v "free dh" two-stages.heddle > leaking.heddle'
run 'heddle check leaking.heddle --cluster examples/clusters/laptop.toml'
