#!/usr/bin/env python3
"""Real training beside the lab's races: a small tiny-gpt with Adam and warm-up, on one text.

A flush (zb-h1), asynchronous pipelines with stashed weights and with two versions (2bw), and LocalSGD
train for the same simulated time on equal devices. Losses are real, times simulated. Seeds are shared: start and order of samples are the same for all kinds.

Rates are powers of two times 0.001, 0.002 to 0.008 and further out while the best is at an edge, chosen on
two seeds that are not judged, for the whole time: after 75 steps of one seed 0.016 looked best for the
flush, and after 500 0.004 is.

Every run is a line of JSON as soon as it is done; with --keep FILE these are appended there, and what
the file has is not run again. The table comes at the end.

  ./dev bench async --text book.txt [--devices 2,4,8] [--seeds 5] [--budget FLUSHES] [--keep FILE]
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

MODEL = "tiny-gpt?layers=6&hidden=32&heads=2&seq=32&tied=0"
BATCH = 8
EVERY = 5
FIRST_RATES = range(1, 4)  # exponents: rate = 0.001 * 2^exponent
TUNE_SEEDS = (100, 101)
DIVERGED = 5  # exit code of a run whose loss is not finite
KINDS = {
    "flush": ["--strategy", "zb-h1"],
    "stash": ["--strategy", "async", "--versions", "stash"],
    "2bw": ["--strategy", "async", "--versions", "2bw"],
    "local": ["--strategy", "local", "--every", str(EVERY)],
}
# Of Student's t, 95%, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}

# Devices so slow that arithmetic decides, not what it costs to launch it.
CLUSTER = """schema = "heddle.cluster/1"
[device_type.even]
flops = "20 GFLOP/s"
memory = "8 GiB"
memory_bandwidth = "20 GB/s"
[[node]]
name = "a"
devices = [{{ type = "even", count = {count} }}]
link = {{ bandwidth = "1 GB/s", latency = "5 us" }}
"""


def rate_of(exponent):
    return 0.001 * 2.0**exponent


def heddle(binary, *words):
    """What it prints; None if training diverged."""
    done = subprocess.run([binary, *words], capture_output=True, text=True, check=False)
    if done.returncode == DIVERGED:
        return None
    if done.returncode != 0:
        raise SystemExit(f"heddle {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def shape_of(made):
    """How a plan cuts model and batch, in a few words."""
    pipelines = made.get("pipelines") or []
    if made["strategy"] == "spmd" or not pipelines:
        return made["strategy"]
    stages = "+".join(str(len(stage["devices"])) for stage in pipelines[0]["stages"])
    if len(set(stages.split("+"))) == 1:
        replicas = stages.split("+")[0]
        stages = f"{stages.count('+') + 1} stages" + (f" of {replicas}" if replicas != "1" else "")
    if stages == "1 stages":
        stages = "whole models"
    return (f"{len(pipelines)} x " if len(pipelines) > 1 else "") + stages


class Plan:
    """A kind's plan on so many devices: its file, and simulated seconds for each optimizer step."""

    def __init__(self, binary, folder, kind, devices):
        cluster = os.path.join(folder, f"even{devices}.toml")
        with open(cluster, "w", encoding="utf-8") as file:
            file.write(CLUSTER.format(count=devices))
        self.path = os.path.join(folder, f"{kind}{devices}.json")
        heddle(binary, "plan", "--model", MODEL, "--batch", str(BATCH), "--cluster", cluster, *KINDS[kind],
               "-o", self.path)
        with open(self.path, encoding="utf-8") as file:
            made = json.load(file)
        # A body of LocalSGD is a round of EVERY steps, in each of which every replica sees a batch.
        self.multiple = EVERY if kind == "local" else 1
        self.step_seconds = made["iteration_seconds"] / self.multiple
        self.shape = shape_of(made)

    def steps_in(self, seconds):
        return max(self.multiple, int(seconds / self.step_seconds) // self.multiple * self.multiple)


def interval(values):
    mean = sum(values) / len(values)
    if len(values) < 2 or not math.isfinite(mean):
        return mean, mean, mean
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    reach = STUDENT.get(len(values) - 1, 1.96) * error
    return mean, mean - reach, mean + reach


class Runs:
    """Every run's held-out loss, and where they are kept."""

    def __init__(self, options, folder):
        self.options, self.folder, self.known = options, folder, {}
        if options.keep and os.path.exists(options.keep):
            with open(options.keep, encoding="utf-8") as file:
                for line in file:
                    row = json.loads(line)
                    self.known[self.key(row)] = math.inf if row["held_out"] is None else row["held_out"]

    @staticmethod
    def key(row):
        return (row["kind"], row["devices"], row["steps"], row["exponent"], row["seed"])

    def loss(self, kind, devices, plan, steps, exponent, seed):
        row = {"kind": kind, "devices": devices, "steps": steps, "exponent": exponent, "seed": seed}
        if self.key(row) not in self.known:
            loss = self.train(plan, steps, rate_of(exponent), seed)
            self.known[self.key(row)] = loss
            line = json.dumps(row | {"held_out": loss if math.isfinite(loss) else None})
            print(line, flush=True)
            if self.options.keep:
                with open(self.options.keep, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
        return self.known[self.key(row)]

    def train(self, plan, steps, rate, seed):
        directory = tempfile.mkdtemp(dir=self.folder)
        out = heddle(self.options.heddle, "run", plan.path, "--json", "--threads", "--data",
                     f"text:{self.options.text}", "--validation", "0.01", "--steps", str(steps), "--rate",
                     str(rate), "--seed", str(seed), "--dir", os.path.join(directory, "run"), "--schedule",
                     f"cosine:warmup={max(1, steps // 10)},floor=0.1")
        shutil.rmtree(directory)
        return json.loads(out)["held_out"][-1]["loss"] if out is not None else math.inf


def best_of(exponents, score):
    """The lowest, further out while it is at an edge."""
    scores = {exponent: score(exponent) for exponent in exponents}
    while True:
        best = min(scores, key=scores.get)
        if min(scores) < best < max(scores) or not math.isfinite(scores[best]):
            return best
        beyond = best - 1 if best == min(scores) else best + 1
        scores[beyond] = score(beyond)


class Study:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.runs = Runs(options, folder)
        self.rows = []  # of the table

    def kind(self, kind, devices, seconds):
        plan = Plan(self.options.heddle, self.folder, kind, devices)
        steps = plan.steps_in(seconds)

        def loss(exponent, seed):
            return self.runs.loss(kind, devices, plan, steps, exponent, seed)

        best = best_of(FIRST_RATES, lambda exponent: sum(loss(exponent, seed) for seed in TUNE_SEEDS))
        losses = [loss(best, 1 + k) for k in range(self.options.seeds)]
        self.rows.append((devices, kind, plan, steps, best, losses))

    def run(self):
        for devices in self.options.devices:
            seconds = Plan(self.options.heddle, self.folder, "flush", devices).step_seconds
            for kind in KINDS:
                self.kind(kind, devices, self.options.budget * seconds)
        self.print_table()

    def print_table(self):
        print("\n| devices | kind | plan | steps | a step (simulated) | rate | held-out loss (real) | less flush's |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- |")
        flush = {row[0]: row[5] for row in self.rows if row[1] == "flush"}
        for devices, kind, plan, steps, best, losses in self.rows:
            mean, low, high = interval(losses)
            apart, least, most = interval([a - b for a, b in zip(losses, flush[devices])])
            beside = "" if kind == "flush" else f"{apart:+.3f} [{least:+.3f}, {most:+.3f}]"
            print(f"| {devices} | {kind} | {plan.shape} | {steps} | {1e3 * plan.step_seconds:.3g} ms | "
                  f"{rate_of(best):g} | {mean:.3f} [{low:.3f}, {high:.3f}] | {beside} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--text", required=True)
    parser.add_argument("--devices", type=lambda text: [int(s) for s in text.split(",")], default=[2, 4, 8])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=500, help="steps of the flush whose time all have")
    parser.add_argument("--keep", help="runs that are done, to be gone on with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Study(options, folder).run()


if __name__ == "__main__":
    main()
