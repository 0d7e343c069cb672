#!/usr/bin/env bash
# Jobs that take turns on the same devices: when it pays, when it does not, and a stream of jobs.
source "$(dirname "$0")/session.sh"

say "Both jobs wait for gradients longer than they compute: one can compute while the other sends."
run 'cat examples/09-share.toml'
run 'heddle share examples/09-share.toml --baselines'

say "Large batches, and gradients that go while backward goes on: there is little left to fill."
run 'heddle share examples/09-do-not-share.toml'

say "What a job tolerates is respected."
run 'sed -e "s|clusters/|examples/&|" -e "s/^steps = 1200/&\ntolerated_slowdown = 1.5/" examples/09-share.toml > mine.toml'
run 'heddle share mine.toml | tail -2'

say "A stream of jobs, without and with crossover; a bad line is named."
run 'heddle share --trace examples/09-trace.csv --devices 8'
run 'sed s/240/many/ examples/09-trace.csv > trace.csv; heddle share --trace trace.csv'
