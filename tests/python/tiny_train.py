"""A data-parallel script that knows nothing of shares: trains a little network and notes down a hash
of its parameters after every step.

    RANK=0 WORLD_SIZE=2 python3 tiny_train.py --store /tmp/store --out /tmp/hashes --steps 10
"""

import argparse
import hashlib
import os
import signal

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--bucket-views", action="store_true")
    parser.add_argument("--keep-gradients", action="store_true")
    parser.add_argument("--compress", action="store_true")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--fail-at", type=int, default=-1)
    parser.add_argument("--die-at", type=int, default=-1)
    return parser.parse_args()


def network(width):
    # Batch normalisation has buffers, which DDP sends round before every forward.
    return nn.Sequential(nn.Linear(20, width), nn.BatchNorm1d(width), nn.Tanh(),
                         nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, 5))


def hash_of(module):
    digest = hashlib.sha256()
    for value in module.state_dict().values():
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()[:16]


def train(rank, options):
    torch.manual_seed(options.seed)
    model = DDP(network(options.width), bucket_cap_mb=0.5,
                gradient_as_bucket_view=options.bucket_views)
    if options.compress:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        model.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(1000 * options.seed + rank)

    def loss_of_batch():
        x = torch.randn(16, 20, generator=data)
        y = torch.randint(0, 5, (16,), generator=data)
        return nn.functional.cross_entropy(model(x), y)

    with open(f"{options.out}.{rank}", "w", buffering=1) as out:
        for step in range(options.steps):
            optimizer.zero_grad(set_to_none=not options.keep_gradients)
            with model.no_sync():
                for _ in range(options.accumulate - 1):
                    loss_of_batch().backward()
            loss_of_batch().backward()
            optimizer.step()
            if options.evaluate:
                model.eval()
                with torch.no_grad():
                    loss = loss_of_batch()
                dist.all_reduce(loss)
                model.train()
            print(step, hash_of(model), file=out)
            if step == options.fail_at and rank == 1:
                raise ValueError("no more data")
            if step == options.die_at and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)


def run(rank, ranks, options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{options.store}", rank=rank,
                            world_size=ranks)
    train(rank, options)
    dist.destroy_process_group()


def main():
    options = arguments()
    if options.spawn:
        torch.multiprocessing.spawn(run, args=(options.spawn, options), nprocs=options.spawn)
    else:
        run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), options)


if __name__ == "__main__":
    main()
