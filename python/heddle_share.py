"""PyTorch scripts that take turns on the same devices: one computes while another communicates.

    torchrun --nproc_per_node 2 -m heddle_share --share lab --job a train.py …
    torchrun --nproc_per_node 2 -m heddle_share --share lab --job b other.py …

The scripts stay as they are. Wherever they make a DistributedDataParallel, it takes the device for
optimizer step, forward and backward, gives it back when the last gradients of a step are posted, and
sums them when the network is free. The sums have the bits that they have without this module. See
docs/share.md. In one's own script:

    device = heddle_share.SharedDevice(heddle_share.Place("lab", "a"), rank, world_size)
    device.attach(ddp)
    …
    device.close()

It needs libheddle_share.so: in build/lib of the source tree, in lib where heddle is installed, or
where HEDDLE_SHARE_LIBRARY says.
"""

import argparse
import atexit
import ctypes
import dataclasses
import functools
import os
import queue
import runpy
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class ShareError(RuntimeError):
    """The share refuses, or has struck this job; the text says why."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a job takes part, and with how much patience (seconds)."""

    share: str
    job: str
    device: int = 0  # of local rank 0; rank k has the k-th after it
    node: int = 0  # devices of one node queue for one network
    lease: float = 60  # of a turn, and of its messages
    rest: float = 1  # without work or messages, after which others go first
    start: float = 300  # until all ranks are there
    log: str = ""  # a file to which every turn is appended


# --- The library -----------------------------------------------------------------------------------


class _Patience(ctypes.Structure):
    _fields_ = [
        ("lease", ctypes.c_double),
        ("rest_after", ctypes.c_double),
        ("start", ctypes.c_double),
    ]


def _library_paths():
    named = os.environ.get("HEDDLE_SHARE_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    folders = ["../build/lib", "../../../lib"]
    paths = [os.path.join(here, folder, "libheddle_share.so") for folder in folders]
    return [path for path in paths if os.path.exists(path)] + ["libheddle_share.so"]


@functools.lru_cache(maxsize=None)
def _library():
    path = _library_paths()[0]
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ShareError(
            f"{path}: {error} (build it: ./dev build; or say where it is: HEDDLE_SHARE_LIBRARY)"
        ) from error
    seat, text, i32, i64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64
    patience = ctypes.POINTER(_Patience)
    signatures = {
        "open": (seat, [text]),
        "join": (i32, [seat, text, i32, i32, i32, i32, patience]),
        "begin_turn": (i32, [seat]),
        "pause": (i32, [seat]),
        "turn": (i64, [seat]),
        "post": (i64, [seat]),
        "end_turn": (i32, [seat]),
        "await_network": (i32, [seat, i64]),
        "leave_network": (i32, [seat, i64]),
        "check": (i32, [seat]),
        "fail": (i32, [seat, text]),
        "leave": (i32, [seat]),
        "close": (None, [seat]),
        "clock": (i64, []),
        "error": (text, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, "heddle_share_" + name)
        function.restype, function.argtypes = result, arguments
    return library


class _Seat:
    """One rank's seat in the share: the functions of src/door/share_door.h."""

    def __init__(self, place, rank, ranks, device):
        self._library = _library()
        self._seat = self._library.heddle_share_open(place.share.encode())
        if not self._seat:
            raise ShareError(self._error())
        patience = _Patience(place.lease, place.rest, place.start)
        try:
            self.call("join", place.job.encode(), rank, ranks, device, place.node, patience)
        except ShareError:
            self.close()
            raise

    def _error(self):
        return self._library.heddle_share_error().decode(errors="replace")

    def call(self, name, *arguments):
        result = getattr(self._library, "heddle_share_" + name)(self._seat, *arguments)
        if result == -1 and name != "turn":
            raise ShareError(self._error())
        return result

    def clock(self):
        return self._library.heddle_share_clock()

    def close(self):
        self._library.heddle_share_close(self._seat)
        self._seat = None


# --- A device in turns -----------------------------------------------------------------------------


def _value_or_error(future):
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class _ViewWatch:
    """Which gradients lay in their bucket already, before they were added to.

    Without a hook DDP divides those by the number of ranks, and multiplies the others by its inverse
    while it copies them. That is the same, unless the number is no power of two.
    """

    def __init__(self, ddp):
        self._storage = {}
        for parameter in ddp.parameters():
            if parameter.requires_grad:
                parameter.register_hook(functools.partial(self._note, parameter))

    def _note(self, parameter, _):
        gradient = parameter.grad
        self._storage[parameter] = None if gradient is None else gradient.storage().data_ptr()

    def scale(self, bucket, ranks):
        storage = bucket.buffer().storage().data_ptr()
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            if self._storage.get(parameter) == storage:
                gradient.div_(ranks)
            else:
                gradient.mul_(1.0 / ranks)


class _Network(threading.Thread):
    """Sums gradients when this job is first in line, turn by turn."""

    def __init__(self, seat):
        super().__init__(name="heddle_share network", daemon=True)
        self._seat = seat
        self._items = queue.SimpleQueue()
        self.start()

    def add(self, place, work):
        """Returns the future of what `work` returns, which runs once that place is first in line."""
        future = torch.futures.Future()
        self._items.put((place, work, future))
        return future.then(_value_or_error)

    def leave(self, place):
        self._items.put((place, None, None))

    def end(self):
        self._items.put(None)
        self.join(timeout=5)
        return not self.is_alive()

    def run(self):
        while True:
            item = self._items.get()
            if item is None:
                return
            place, work, future = item
            if work is None:
                self._seat.call("leave_network", place)
                continue
            try:
                self._seat.call("await_network", place)
                result = work()
            except Exception as error:  # goes to whoever waits for the sum
                result = error
            future.set_result(result)


class SharedDevice:
    """A rank's device, shared with other jobs. All modules of the process use the same one."""

    def __init__(self, place, rank, ranks):
        local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
        if local_ranks != ranks:
            raise ShareError(f"job {place.job}: {local_ranks} of its {ranks} ranks are on this host "
                             "(a share is one host's)")
        self._place = place
        self._rank = rank
        self._device = place.device + int(os.environ.get("LOCAL_RANK", rank))
        self._seat = _Seat(place, rank, ranks, self._device)
        self._network = _Network(self._seat)
        self._updates_next = False  # gradients were posted, the optimizer has not run since
        self._held_since = None
        self._log = None
        if place.log:
            self._log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def attach(self, ddp):
        """Lets the module's steps take turns. All ranks must do so, and in the same order."""
        if any(parameter.device.type != "cpu" for parameter in ddp.parameters()):
            raise ShareError("heddle_share: only modules on CPUs can share, for now")
        if dist.get_world_size(ddp.process_group) != dist.get_world_size():
            raise ShareError("heddle_share: a module over a part of the ranks cannot share")
        hook = _GradientHook(self, ddp)
        DistributedDataParallel.register_comm_hook(ddp, None, hook.on_bucket)
        ddp.register_forward_pre_hook(self._before_forward)
        return hook

    def begin_turn(self):
        self._updates_next = False
        self._seat.call("begin_turn")
        if self._held_since is None:
            self._held_since = self._seat.clock()

    def begin_update(self):
        """Before an optimizer's step. True if that begins a turn: pause() comes after it."""
        if not self._updates_next:
            return False
        self.begin_turn()
        return True

    def pause(self):
        self._seat.call("pause")

    def end_turn(self):
        turn = self._seat.call("turn")
        self._seat.call("end_turn")
        self._updates_next = True
        if turn >= 0 and self._log is not None:
            times = f"{self._held_since} {self._seat.clock()}"
            line = f"{turn} {self._place.job} {self._rank} {self._device} {times}\n"
            os.write(self._log, line.encode())
        self._held_since = None

    def post(self, work, last):
        """Queues for the network while the device is held; the last of a step gives it back."""
        place = self._seat.call("post")
        future = self._network.add(place, work)
        if last:
            self._network.leave(place)
            self.end_turn()
        return future

    def explain(self, error):
        """The share's own words, if the job was struck. Otherwise the job fails with this error."""
        for _ in range(10):  # the connections of a process end a little before it does
            try:
                self._seat.call("check")
            except ShareError as struck:
                return struck
            time.sleep(0.05)
        self._seat.call("fail", f"{type(error).__name__}: {error}".encode())
        return error

    def close(self):
        """The rank is done. If messages are still under way, only the seat is given back."""
        if self._network.end():
            self._seat.close()
        else:
            self._seat.call("leave")

    def _before_forward(self, module, _):
        if module.training and torch.is_grad_enabled():
            self.begin_turn()


class _GradientHook:
    """What DDP calls for each bucket of gradients."""

    def __init__(self, device, ddp):
        self._device = device
        self._ranks = dist.get_world_size(ddp.process_group)
        # Its own group: sums are posted by another thread than the script's own messages are.
        self._group = dist.new_group()
        self._inner = None
        exact = self._ranks & (self._ranks - 1) == 0
        self._views = _ViewWatch(ddp) if ddp.gradient_as_bucket_view and not exact else None

    def set_inner(self, state, hook):
        """A hook of the script's own, to be run when the network is free."""
        self._inner = (state, hook)

    def on_bucket(self, _, bucket):
        work = self._sum(bucket) if self._inner is None else self._call_inner(bucket)
        return self._device.post(work, bucket.is_last())

    def _sum(self, bucket):
        buffer = bucket.buffer()
        if self._views is None:
            buffer.mul_(1.0 / self._ranks)
        else:
            self._views.scale(bucket, self._ranks)

        def work():
            dist.all_reduce(buffer, group=self._group)
            return buffer

        return work

    def _call_inner(self, bucket):
        state, hook = self._inner
        return lambda: hook(state, bucket).wait()


# --- Scripts as they are ---------------------------------------------------------------------------

_place = None  # where the scripts of this process take part
_shared = None  # the device, once a module has been made


def _shared_device(ddp):
    global _shared
    if _shared is None:
        group = ddp.process_group
        _shared = SharedDevice(_place, dist.get_rank(group), dist.get_world_size(group))
    return _shared


def _patch_modules():
    make = DistributedDataParallel.__init__
    register = DistributedDataParallel.register_comm_hook

    @functools.wraps(make)
    def make_shared(self, *arguments, **options):
        make(self, *arguments, **options)
        hook = _shared_device(self).attach(self)
        object.__setattr__(self, "_heddle_share_hook", hook)

    @functools.wraps(register)
    def register_inner(self, state, hook):
        shared = self.__dict__.get("_heddle_share_hook")
        if shared is None:
            register(self, state, hook)
        else:
            shared.set_inner(state, hook)

    DistributedDataParallel.__init__ = make_shared
    DistributedDataParallel.register_comm_hook = register_inner


def _step_in_turn(step):
    @functools.wraps(step)
    def in_turn(self, *arguments, **options):
        if _shared is None or not _shared.begin_update():
            return step(self, *arguments, **options)
        try:
            return step(self, *arguments, **options)
        finally:
            _shared.pause()

    in_turn.heddle_share = True
    return in_turn


def _patch_optimizers():
    make = torch.optim.Optimizer.__init__

    @functools.wraps(make)
    def make_shared(self, *arguments, **options):
        make(self, *arguments, **options)
        kind = type(self)
        if not getattr(kind.step, "heddle_share", False):
            kind.step = _step_in_turn(kind.step)

    torch.optim.Optimizer.__init__ = make_shared


class _Spawned:
    """What torch.multiprocessing starts, in a process that does not know the share yet."""

    def __init__(self, place, function):
        self._place, self._function = place, function

    def __call__(self, *arguments):
        install(self._place)
        _run(lambda: self._function(*arguments))


def _patch_spawn():
    spawn = sys.modules["torch.multiprocessing.spawn"]
    start = spawn.start_processes

    @functools.wraps(start)
    def start_shared(fn, *arguments, **options):
        return start(_Spawned(_place, fn), *arguments, **options)

    spawn.start_processes = torch.multiprocessing.start_processes = start_shared


def install(place):
    """From now on every DistributedDataParallel of this process takes turns at that place."""
    global _place
    installed, _place = _place is not None, place
    if installed:
        return
    _patch_modules()
    _patch_optimizers()
    _patch_spawn()
    atexit.register(_close)


def _close():
    global _shared
    device, _shared = _shared, None
    if device is not None:
        device.close()


def _run(script):
    """Runs it to its end; if it fails, the other ranks are told."""
    try:
        script()
    except Exception as error:
        why = error if _shared is None or isinstance(error, ShareError) else _shared.explain(error)
        if why is error:
            raise
        raise why from error
    finally:
        _close()


def _arguments():
    parser = argparse.ArgumentParser(
        prog="python3 -m heddle_share",
        description="Runs a data-parallel PyTorch script that takes turns on its devices with others.")
    parser.add_argument("--share", required=True, metavar="NAME",
                        help="jobs of the same name, host and user share")
    parser.add_argument("--job", required=True, metavar="NAME", help="the same for all its ranks")
    parser.add_argument("--device", type=int, default=0, metavar="D",
                        help="of local rank 0; rank k has D + k (0)")
    parser.add_argument("--node", type=int, default=0, metavar="N",
                        help="devices of one node queue for one network (0)")
    parser.add_argument("--lease", type=float, default=60, metavar="SECONDS",
                        help="a turn, or its messages, that last longer are taken for hung (60)")
    parser.add_argument("--rest", type=float, default=1, metavar="SECONDS",
                        help="a job that neither works nor communicates for so long is passed over (1)")
    parser.add_argument("--log", default="", metavar="FILE",
                        help="append each turn: number, job, rank, device, begin, end (ns)")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    options = _arguments()
    install(Place(share=options.share, job=options.job, device=options.device, node=options.node,
                  lease=options.lease, rest=options.rest, log=options.log))
    sys.argv = [options.script] + options.arguments
    # As if python3 had been given the script; this module stays within reach of spawned processes.
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    _run(lambda: runpy.run_path(options.script, run_name="__main__"))


if __name__ == "__main__":
    # Imported by its name, so that spawned processes find its classes.
    import heddle_share

    heddle_share.main()
