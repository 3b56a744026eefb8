"""Compare the sum of gradients with DistributedDataParallel, in milliseconds per update.

    torchrun --nproc-per-node=2 benchmarks/ddp_speed.py data.root=DIR

The ways run in turn, on the same batches: `sum_gradients` after the backward pass, as training
does; DistributedDataParallel, which sends gradients during the backward pass; the same with
gradients rounded to fp16 (torch allows its bf16 hook on GPUs only); and without any sum. Times are
medians of the first process. Models have the sizes of train_speed.py. Arguments are overrides of
train.py.
"""

import statistics
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.process_speed import divided_batches
from benchmarks.train_speed import FORMS, SIZES, build
from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data.batching import Batch
from seq2seq.runtime.distributed import process_group, sum_gradients
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.training import updates
from seq2seq.training.losses import TrainingLoss, training_loss
from seq2seq.training.preparation import prepare_data

WAYS = ("sum_gradients", "DDP fp32", "DDP fp16 hook", "none")
WARMUP, UPDATES = 3, 11


class LossModule(nn.Module):
    """The loss as the forward pass of a module, which DistributedDataParallel needs."""

    def __init__(self, model: nn.Module, config: TrainConfig, numerics: Numerics) -> None:
        super().__init__()
        self.model, self.config, self.numerics = model, config.training, numerics

    def forward(self, batch: Batch) -> TrainingLoss:
        with self.numerics.autocast():
            return training_loss(self.model, batch, self.config, forced_mask=None)


class DDPUpdater(updates.Updater):
    """An updater whose backward pass sums the gradients."""

    parallel: DistributedDataParallel

    def add_gradients(self, batch: Batch, *, update: int, num_tokens: int) -> TrainingLoss:
        loss: TrainingLoss = self.parallel(batch)
        # DistributedDataParallel divides the sum by the number of processes.
        share: Tensor = loss.objective / num_tokens * self._ranks.world_size
        with self._numerics.float32_products():
            share.backward()  # type: ignore[no-untyped-call]
        return loss


def main() -> None:
    config = load_config(*SIZES, *FORMS["luong"], *sys.argv[1:])
    numerics = choose_numerics(config.training.device, config.training.precision, local_rank=0)
    keep_freed_memory()
    with process_group(on_gpus=False) as ranks:
        torch.set_num_threads(config.training.threads or 1)
        data = prepare_data(config)
        updaters = {}
        for way in WAYS:
            model = build(config, data)
            updater = DDPUpdater if way.startswith("DDP") else updates.Updater
            updaters[way] = updater(config, model=model, numerics=numerics, ranks=ranks)
            if isinstance(updaters[way], DDPUpdater):
                parallel = DistributedDataParallel(LossModule(model, config, numerics))
                if way == "DDP fp16 hook":
                    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
                updaters[way].parallel = parallel
        batches = divided_batches(config, data, ranks, numerics)
        milliseconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for update in range(1, WARMUP + UPDATES + 1):
            batch, num_tokens = next(batches)
            for way in WAYS:
                updates.sum_gradients = sum_gradients if way == "sum_gradients" else no_sum
                ranks.barrier()
                started = time.perf_counter()
                updaters[way].update_weights(
                    [batch], update=update, learning_rate=1e-4, num_tokens=num_tokens
                )
                if update > WARMUP:
                    milliseconds[way].append(1000 * (time.perf_counter() - started))
        if ranks.is_first:
            print("| | ms per update |\n|---|--:|")
            for way in WAYS:
                print(f"| {way} | {statistics.median(milliseconds[way]):.0f} |")


def no_sum(model: nn.Module) -> None:
    """Leave the gradients as they are."""


if __name__ == "__main__":
    main()
