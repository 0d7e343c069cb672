#!/usr/bin/env python3
"""The races of Randomized PipeDream's authors by their own procedure, written apart from the lab.

The procedure is that of their published program (Ilin and Richtarik, arXiv 2606.03498): data, labels and
gradient noise come from numpy's generator, the noise from one with the seed of the data; PipeDream admits as
many microbatches as there are stages at once, then one for each that is done, and as many as end in time;
LocalSGD begins a round when the last has ended on the first stage. Step sizes are powers of two, the best at
the end. A step of a replica or of a block is one numpy operation for all step sizes at once.

  python3 bench/async/authors_race.py quadratic            # seconds; theirs to every digit
  python3 bench/async/authors_race.py logistic [--cases S=32,noise=0] [--seeds 10]

Needs numpy (python3-numpy).
"""

import argparse
import math
import sys

import numpy

DECAY = 1e-4
DIMENSION = 512
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# Name: stages, H, noise, rows.
CASES = {
    "S=2": (2, 5, 0.5, 50),
    "S=4": (4, 5, 0.5, 50),
    "S=8": (8, 5, 0.5, 50),
    "S=16": (16, 5, 0.5, 50),
    "S=32": (32, 5, 0.5, 50),
    "noise=0": (32, 5, 0, 50),
    "noise=0.05": (32, 5, 0.05, 50),
    "noise=0.1": (32, 5, 0.1, 50),
    "noise=0.2": (32, 5, 0.2, 50),
    "H=1": (32, 1, 0.5, 50),
    "H=2": (32, 2, 0.5, 50),
    "rows=200": (32, 5, 0.5, 200),
    "rows=5000": (32, 5, 0.5, 5000),
}


def schedule(stages, microbatches, ticks, replicas=0, every=0):
    """Yields, by tick, (stage, microbatch, forward?). Without replicas it is PipeDream."""
    forwards = [[-1] * microbatches for _ in range(stages)]
    backwards = [[-1] * microbatches for _ in range(stages)]
    next_forward, next_backward = [0] * stages, [0] * stages
    steady, backward_is_next = [False] * stages, [False] * stages
    of_round = replicas * every

    def may_go_forward(stage, now):
        m = next_forward[stage]
        if m == microbatches or (stage and not 0 <= forwards[stage - 1][m] < now):
            return False
        if not replicas:
            return stage > 0 or m - next_backward[0] < stages
        if m % of_round >= replicas and not 0 <= backwards[stage][m - replicas] < now:
            return False
        first = m // of_round * of_round
        return first == 0 or 0 <= backwards[0][first - 1] < now

    def may_go_backward(stage, now):
        m = next_backward[stage]
        if m == microbatches or not 0 <= forwards[stage][m] < now:
            return False
        return stage == stages - 1 or 0 <= backwards[stage + 1][m] < now

    for now in range(ticks):
        chosen = []
        for stage in range(stages):
            forward, backward = may_go_forward(stage, now), may_go_backward(stage, now)
            if backward and (not steady[stage] or backward_is_next[stage] or not forward):
                chosen.append((stage, next_backward[stage], False))
                steady[stage], backward_is_next[stage] = True, False
            elif forward:
                chosen.append((stage, next_forward[stage], True))
                backward_is_next[stage] = steady[stage]
        for stage, m, is_forward in chosen:
            (forwards if is_forward else backwards)[stage][m] = now
            (next_forward if is_forward else next_backward)[stage] += 1
        yield chosen


class Problem:
    def __init__(self, rows, labels, batch, decay, slope):
        self.rows, self.labels, self.batch, self.decay, self.slope = rows, labels, batch, decay, slope

    def train(self, steps, stages, ticks, replicas=0, every=0, sigma=0.0, noise=None):
        """The (average) weights at the end, a row for each step size."""
        steps = numpy.asarray(steps)[:, None]
        dimension = self.rows.shape[1]
        bounds = numpy.cumsum([0] + [len(part) for part in numpy.array_split(range(dimension), stages)])
        blocks = [slice(a, b) for a, b in zip(bounds, bounds[1:])]
        weights = numpy.zeros((max(replicas, 1), len(steps), dimension))
        # PipeDream drains; LocalSGD is cut.
        microbatches = (ticks + 1) // 2 - stages + 1 if not replicas else ticks
        scores, stashed, taken, done = {}, {}, 0, 0
        for events in schedule(stages, microbatches, ticks, replicas, every):
            for stage, m, is_forward in events:
                block = blocks[stage]
                model = weights[m % replicas if replicas else 0]
                first = m * self.batch % len(self.rows)
                rows = self.rows[first : first + self.batch, block]
                if is_forward:
                    stashed[stage, m] = model[:, block].copy()
                    scores[m] = scores.get(m, 0.0) + model[:, block] @ rows.T
                    if stage == stages - 1:
                        labels = self.labels[first : first + self.batch]
                        scores[m] = self.slope(scores[m], labels) / self.batch
                    continue
                gradient = scores[m] @ rows + self.decay * stashed.pop((stage, m))
                if sigma:
                    size = block.stop - block.start
                    gradient += sigma * noise[taken : taken + size]
                    taken += size
                model[:, block] -= steps * gradient
                if stage == 0:
                    del scores[m]
                    done += 1
            if replicas and done == replicas * every:
                weights[:] = weights.mean(axis=0)
                done = 0
        return weights.mean(axis=0)


def sigmoid(z):
    """Never 0: for a chance of 0 the generator would draw nothing, and all labels after be others."""
    small = numpy.exp(-abs(z))
    return numpy.where(z >= 0, 1, small) / (1 + small)


def chain(seed):
    """Least squares on 600 rows with the Hessian tridiagonal (2.01, -1)."""
    generator = numpy.random.default_rng(seed)
    hessian = numpy.diag(2.01 * numpy.ones(DIMENSION))
    hessian -= numpy.eye(DIMENSION, k=1) + numpy.eye(DIMENSION, k=-1)
    orthonormal, _ = numpy.linalg.qr(generator.normal(size=(600, DIMENSION)))
    rows = math.sqrt(600) * orthonormal @ numpy.linalg.cholesky(hessian).T
    labels = rows @ generator.normal(size=DIMENSION)
    return Problem(rows, labels, 5, 0, lambda scores, labels: scores - labels)


def quadratic():
    problem = chain(seed=0)
    exponents = range(-11, -2)
    print("least squares, 16 stages, 600 rows, 5 at a time, after 1229 of 1230 ticks")
    for name, replicas, every in (("PipeDream", 0, 0), ("LocalSGD, H = 2", 16, 2), ("LocalSGD, H = 5", 16, 5)):
        ends = problem.train([2.0**k for k in exponents], 16, 1229, replicas, every)
        losses = 0.5 * ((ends @ problem.rows.T - problem.labels) ** 2).mean(axis=1)
        best = numpy.nanargmin(losses)
        print(f"{name:<16} {losses[best]:.6f}   step size 2^{exponents[best]}")


def separable(rows, seed):
    generator = numpy.random.default_rng(seed)
    features = generator.normal(size=(rows, DIMENSION))
    truth = generator.normal(size=DIMENSION)
    labels = generator.binomial(1, sigmoid(features @ truth)).astype(float)
    return Problem(features, labels, 1, DECAY, lambda scores, labels: sigmoid(scores) - labels)


def loss(problem, w):
    z = problem.rows @ w
    each = numpy.maximum(z, 0) - z * problem.labels + numpy.log1p(numpy.exp(-abs(z)))
    return each.mean() + 0.5 * DECAY * w @ w


def lowest(problem):
    """Newton's method, halving."""
    w, rows = numpy.zeros(DIMENSION), problem.rows
    low = loss(problem, w)
    for _ in range(60):
        chance = sigmoid(rows @ w)
        slope = rows.T @ (chance - problem.labels) / len(rows) + DECAY * w
        hessian = (rows.T * (chance * (1 - chance) / len(rows))) @ rows + DECAY * numpy.eye(DIMENSION)
        step = numpy.linalg.solve(hessian, slope)
        while loss(problem, w - step) > low and abs(step).max() > 1e-12:
            step /= 2
        lower = loss(problem, w - step)
        if not lower < low:
            break
        w, low = w - step, lower
    return low


def left_above(case, method, seed, problem, floor):
    """What the method leaves above the lowest loss, by step size."""
    stages, every, sigma, _ = CASES[case]
    exponents = range(-11, -1) if method == "pd" else range(-8, 2)
    noise = numpy.random.default_rng(seed).normal(size=1600 * DIMENSION)
    replicas = stages if method == "local" else 0
    ends = problem.train([2.0**k for k in exponents], stages, 3179, replicas, every, sigma, noise)
    left = [loss(problem, w) - floor if numpy.isfinite(w).all() else math.inf for w in ends]
    best = int(numpy.argmin(left))
    if best in (0, len(left) - 1):
        sys.exit(f"{case}, {method}, seed {seed}: the best step size is at an edge")
    return left[best]


def logistic(cases, seeds):
    print(f"LocalSGD over PipeDream, {seeds} seeds, each with the best step size of its own")
    for case in cases:
        ratios = []
        for seed in range(seeds):
            problem = separable(CASES[case][3], seed)
            floor = lowest(problem)
            local, pd = (left_above(case, method, seed, problem, floor) for method in ("local", "pd"))
            ratios.append(math.log(local / pd))
        middle = numpy.mean(ratios)
        half = STUDENT[seeds - 1] * numpy.std(ratios, ddof=1) / math.sqrt(seeds)
        interval = ", ".join(f"{math.exp(middle + part):.3g}" for part in (-half, half))
        ends = " to ".join(f"{math.exp(ratio):.3g}" for ratio in (min(ratios), max(ratios)))
        print(f"{case:<11} {math.exp(middle):.3g} [{interval}], single seeds {ends}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("race", choices=("quadratic", "logistic"))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=10, choices=range(2, 11), metavar="2..10")
    arguments = parser.parse_args()
    cases = arguments.cases.split(",")
    for case in cases:
        if case not in CASES:
            parser.error(f"--cases: {case} is none of {', '.join(CASES)}")
    numpy.seterr(all="ignore")  # step sizes that diverge
    if arguments.race == "quadratic":
        quadratic()
    else:
        logistic(cases, arguments.seeds)


if __name__ == "__main__":
    main()
