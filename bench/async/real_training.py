#!/usr/bin/env python3
"""Real training beside the lab's races: tiny-gpt with Adam and warm-up, on one text.

Synchronous, asynchronous with stashed weights, 2BW and LocalSGD train for the same simulated time on
equal devices, each at the rate that left the lowest held-out loss on a seed of its own, and are then
compared on others. Losses are real, times simulated. Every run is a line of JSON as soon as it is
done; the table comes at the end, of what there is.

  ./dev bench async --text book.txt [--stages 2,4,8] [--seeds 5] [--budget SYNCHRONOUS_STEPS]
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

MODEL = "tiny-gpt?layers=6&tied=0"
BATCH = 16
EVERY = 5
RATES = [0.0003, 0.001, 0.003, 0.01]
KINDS = {
    "synchronous": ["--strategy", "zb-h1"],
    "stash": ["--strategy", "async", "--versions", "stash"],
    "2bw": ["--strategy", "async", "--versions", "2bw"],
    "local": ["--strategy", "local", "--every", str(EVERY)],
}
# Of Student's t, 95%, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}

CLUSTER = """schema = "heddle.cluster/1"
[device_type.even]
flops = "1 TFLOP/s"
memory = "8 GiB"
memory_bandwidth = "100 GB/s"
[[node]]
name = "a"
devices = [{{ type = "even", count = {count} }}]
link = {{ bandwidth = "20 GB/s", latency = "2 us" }}
"""


def heddle(binary, *words):
    done = subprocess.run([binary, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"heddle {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def plan(binary, folder, kind, stages):
    """The plan's file, simulated seconds for each optimizer step, and what steps come in."""
    cluster = os.path.join(folder, f"even{stages}.toml")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(CLUSTER.format(count=stages))
    path = os.path.join(folder, f"{kind}{stages}.json")
    heddle(binary, "plan", "--model", MODEL, "--batch", str(BATCH), "--cluster", cluster, *KINDS[kind],
           "-o", path)
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    # A body of LocalSGD is a round of EVERY steps, in each of which every replica sees a batch.
    steps = EVERY if kind == "local" else 1
    return path, made["iteration_seconds"] / steps, steps


def train(binary, folder, path, steps, rate, seed, text):
    directory = tempfile.mkdtemp(dir=folder)
    out = heddle(binary, "run", path, "--json", "--threads", "--data", f"text:{text}", "--validation", "0.02",
                 "--steps", str(steps), "--rate", str(rate), "--seed", str(seed), "--dir",
                 os.path.join(directory, "run"), "--schedule",
                 f"cosine:warmup={max(1, steps // 10)},floor=0.1")
    held_out = json.loads(out)["held_out"]
    return held_out[-1]["loss"] if held_out else math.inf


def interval(values):
    mean = sum(values) / len(values)
    if len(values) < 2 or not math.isfinite(mean):
        return mean, mean, mean
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    reach = STUDENT.get(len(values) - 1, 1.96) * error
    return mean, mean - reach, mean + reach


class Study:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.rows = []

    def one(self, kind, stages, path, steps, rate, seed):
        try:
            loss = train(self.options.heddle, self.folder, path, steps, rate, seed, self.options.text)
        except RuntimeError as error:  # a rate that is too large ends a run
            print(str(error)[:200], file=sys.stderr)
            loss = math.inf
        told = loss if math.isfinite(loss) else None
        print(json.dumps({"kind": kind, "stages": stages, "steps": steps, "rate": rate, "seed": seed,
                          "held_out": told}), flush=True)
        return loss

    def kind(self, kind, stages, seconds):
        path, step_seconds, multiple = plan(self.options.heddle, self.folder, kind, stages)
        steps = max(multiple, int(seconds / step_seconds) // multiple * multiple)
        tuned = {rate: self.one(kind, stages, path, steps, rate, 100) for rate in RATES}
        best = min(tuned, key=tuned.get)
        losses = [self.one(kind, stages, path, steps, best, 1 + k) for k in range(self.options.seeds)]
        edge = best in (RATES[0], RATES[-1])
        self.rows.append((stages, kind, steps, step_seconds, best, edge, interval(losses)))

    def run(self):
        for stages in self.options.stages:
            _, seconds, _ = plan(self.options.heddle, self.folder, "synchronous", stages)
            for kind in KINDS:
                self.kind(kind, stages, self.options.budget * seconds)
                self.print_table()

    def print_table(self):
        print("\n| stages | kind | steps | a step (simulated) | rate | held-out loss (real) |\n"
              "| --- | --- | --- | --- | --- | --- |", file=sys.stderr)
        for stages, kind, steps, seconds, rate, edge, (mean, low, high) in self.rows:
            note = " (edge of the rates)" if edge else ""
            print(f"| {stages} | {kind} | {steps} | {1e3 * seconds:.3g} ms | {rate}{note} | "
                  f"{mean:.3f} [{low:.3f}, {high:.3f}] |", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--text", required=True)
    parser.add_argument("--stages", type=lambda text: [int(s) for s in text.split(",")], default=[2, 4, 8])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=200, help="synchronous steps whose time all have")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Study(options, folder).run()


if __name__ == "__main__":
    main()
