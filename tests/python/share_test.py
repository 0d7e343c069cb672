"""PyTorch scripts that share devices: the parameters are those of a run without the door, bit by bit,
after every step; turns alternate; the death of a job leaves the other running.

    share_test.py PATH/TO/libheddle_share.so
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "tests/python/tiny_train.py"
LIBRARY = SOURCE / "build/lib/libheddle_share.so"
LONG_REST = "3600"  # strictly in turns, however slow this machine is


class Job:
    """The processes of one script, one for each rank."""

    def __init__(self, folder, name, ranks, options, door=()):
        self.name, self.folder, self.ranks = name, folder, ranks
        self.processes = []
        environment = dict(os.environ, WORLD_SIZE=str(ranks), GLOO_SOCKET_IFNAME="lo",
                           PYTHONPATH=str(SOURCE / "python"), HEDDLE_SHARE_LIBRARY=str(LIBRARY),
                           PYTHONDONTWRITEBYTECODE="1")
        command = [sys.executable, *door, str(SCRIPT), "--store", f"{folder}/{name}.store",
                   "--out", f"{folder}/{name}", *options]
        starts = 1 if "--spawn" in options else ranks
        for rank in range(starts):
            with open(f"{folder}/{name}.err.{rank}", "wb") as errors:
                self.processes.append(subprocess.Popen(
                    command, env=dict(environment, RANK=str(rank)), stderr=errors))

    def lines(self, rank):
        path = pathlib.Path(f"{self.folder}/{self.name}.{rank}")
        return path.read_text().splitlines() if path.exists() else []

    def errors(self, rank=0):
        return pathlib.Path(f"{self.folder}/{self.name}.err.{rank}").read_text()

    def await_end(self):
        return [process.wait() for process in self.processes]

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()


class Gate:
    """A job of the test's own, which keeps device 0 until the others have come."""

    def __init__(self, share):
        self._door = ctypes.CDLL(str(LIBRARY))
        self._door.heddle_share_open.restype = ctypes.c_void_p
        self._seat = ctypes.c_void_p(self._door.heddle_share_open(share.encode()))
        patience = (ctypes.c_double * 4)(3600, 3600, 3600, 3600)
        assert self._door.heddle_share_join(self._seat, b"gate", 0, 1, 0, 0, patience) == 0
        assert self._door.heddle_share_begin_turn(self._seat) == 0

    def open_for(self, *jobs):
        while self._door.heddle_share_jobs(self._seat) < len(jobs) + 1:
            for job in jobs:
                assert all(process.poll() is None for process in job.processes), job.errors()
            time.sleep(0.02)
        self._door.heddle_share_close(self._seat)


class ShareTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.share = f"share-test-{os.getpid()}"

    def start(self, name, ranks, *options, door=()):
        job = Job(self.folder, name, ranks, options, door)
        self.addCleanup(job.kill)
        return job

    def start_shared(self, name, ranks, *options):
        door = ("-m", "heddle_share", "--share", self.share, "--job", name, "--rest", LONG_REST,
                "--lease", LONG_REST, "--log", f"{self.folder}/turns")
        return self.start(name, ranks, *options, door=door)

    def turns(self):
        """(number, job, rank) of every turn, in the order of their numbers."""
        lines = pathlib.Path(f"{self.folder}/turns").read_text().splitlines()
        rows = [line.split() for line in lines]
        return sorted((int(row[0]), row[1], int(row[2])) for row in rows)

    def end_well(self, job):
        codes = job.await_end()
        self.assertEqual(set(codes), {0}, job.errors())

    def assert_same_hashes(self, job, alone, steps):
        for rank in range(job.ranks):
            self.assertEqual(len(alone.lines(rank)), steps)
            self.assertEqual(job.lines(rank), alone.lines(rank))

    def test_two_jobs_alternate_and_have_the_bits_they_have_alone(self):
        options = {"a": ("--steps", "30", "--seed", "1"), "b": ("--steps", "40", "--seed", "2")}
        alone = {name: self.start("alone-" + name, 2, *options[name]) for name in options}
        for job in alone.values():
            self.end_well(job)
        gate = Gate(self.share)
        jobs = {name: self.start_shared(name, 2, *options[name]) for name in options}
        gate.open_for(*jobs.values())
        for name, job in jobs.items():
            self.end_well(job)
            self.assert_same_hashes(job, alone[name], int(options[name][1]))
        self.assertNotEqual(alone["a"].lines(0)[0], alone["b"].lines(0)[0])

        by_rank = {(name, rank): [turn for turn, job, r in self.turns() if (job, r) == (name, rank)]
                   for name in "ab" for rank in (0, 1)}
        for name in "ab":
            self.assertEqual(by_rank[name, 0], by_rank[name, 1], "one order on all devices")
        order = "".join(job for _, job, rank in self.turns() if rank == 0)
        both = order[:order.rindex("a") + 1]
        self.assertNotIn("aa", order)
        self.assertNotIn("bb", both)
        self.assertEqual(order.count("a"), 30)
        self.assertEqual(order.count("b"), 40)

    def test_a_killed_job_leaves_the_other_with_its_bits(self):
        steps = 60
        alone = self.start("alone", 2, "--steps", str(steps))
        self.end_well(alone)
        gate = Gate(self.share)
        other = self.start_shared("other", 2, "--steps", str(steps))
        killed = self.start_shared("killed", 2, "--steps", "100000", "--seed", "3", "--die-at", "10")
        gate.open_for(other, killed)
        self.assertEqual(killed.processes[1].wait(), -signal.SIGKILL, killed.errors(1))
        self.assertNotEqual(killed.processes[0].wait(), 0)
        died = f"job killed: was struck from the share: rank 1 (process {killed.processes[1].pid}) died"
        self.assertIn(died, killed.errors(0))
        self.end_well(other)
        self.assert_same_hashes(other, alone, steps)

    def test_ranks_of_a_script_that_fails_say_why(self):
        job = self.start_shared("job", 2, "--steps", "100000", "--fail-at", "3")
        self.assertNotIn(0, job.await_end())
        self.assertIn("ValueError: no more data", job.errors(1))
        self.assertIn("job job: was struck from the share: rank 1 failed: ValueError: no more data",
                      job.errors(0))

    # Three: multiplying by a third is not dividing by three.
    def test_bits_are_the_same_with_three_ranks_and_other_ways_to_use_ddp(self):
        ways = (("--accumulate", "2", "--evaluate"), ("--bucket-views", "--keep-gradients"),
                ("--bucket-views",), ("--compress",))
        for way in ways:
            with self.subTest(way=way):
                options = ("--steps", "5", "--width", "100") + way
                name = "-".join(way)
                alone = self.start("alone" + name, 3, *options)
                job = self.start_shared("job" + name, 3, *options)
                self.end_well(alone)
                self.end_well(job)
                self.assert_same_hashes(job, alone, 5)

    def test_scripts_that_spawn_their_ranks(self):
        options = ("--steps", "5", "--spawn", "2")
        alone = self.start("alone", 2, *options)
        job = self.start_shared("job", 2, *options)
        self.end_well(alone)
        self.end_well(job)
        self.assert_same_hashes(job, alone, 5)
        self.assertEqual(len(self.turns()), 10)

    def test_the_share_is_gone_with_its_last_job(self):
        self.end_well(self.start_shared("job", 1, "--steps", "2"))
        self.assertFalse(os.path.exists(f"/dev/shm/heddle-share-{self.share}"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        LIBRARY = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
