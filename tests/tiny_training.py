"""Runs of about a second on a small corpus, for tests."""

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from seq2seq.config.schema import TrainConfig, build_model, load_config
from seq2seq.data.config import FilesConfig
from seq2seq.inference.checkpoint import TrainingState
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.numerics import Numerics, choose_numerics
from seq2seq.training.preparation import prepare_data
from seq2seq.training.run import run_training
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer

ROOT = Path(__file__).parent.parent
NUM_TRAIN, NUM_VALID, NUM_TEST = 22, 5, 3
SMALL = (
    "tokenizer=characters",
    "tokenizer.protect=[]",
    "model.embedding_size=7",
    "model.encoder.hidden_size=5",
    "model.decoder.hidden_size=8",
    "attention.size=9",
    "training.batching.size=4",
    "training.batching.unit=sentences",
    "training.max_epochs=3",
    "training.schedule.warmup_updates=2",
    "training.validation.num_samples=0",
    "training.validation.every_updates=6",
    "training.precision=fp32",
    "training.device=cpu",
    "training.log_every=2",
    "decoding.max_length_ratio=1.0",
    "decoding.max_length_offset=2",
)
"""22 pairs in batches of 4 make 6 updates per epoch, and a validation at its end."""


def write_corpus(folder: Path, *, num_train: int = NUM_TRAIN) -> None:
    """Write a.{train,valid,test} and their reversals b.*, words of 2 to 5 letters."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    for name, size in (("train", num_train), ("valid", NUM_VALID), ("test", NUM_TEST)):
        words = ["".join(draw.choices("abcde", k=draw.randint(2, 5))) for _ in range(size)]
        (folder / f"a.{name}").write_text("".join(f"{word}\n" for word in words))
        (folder / f"b.{name}").write_text("".join(f"{word[::-1]}\n" for word in words))


def corpus_overrides(folder: Path) -> list[str]:
    """Return the overrides that make a run read the corpus of a folder."""
    parts = [f"data.{p}=['{folder}/a.{p}','{folder}/b.{p}']" for p in ("train", "valid", "test")]
    cache = f"data.cache_dir='{folder}/cache'"
    return ["data=files", *parts, cache, "data.source=a", "data.target=b"]


def tiny_config(folder: Path, *overrides: str) -> TrainConfig:
    """Configure a small run on the corpus of a folder, which is written if it does not exist."""
    if not (folder / "a.train").exists():
        write_corpus(folder)
    small = [each for each in SMALL if fits(each, overrides)]
    base = [*corpus_overrides(folder), *small, f"checkpoint_dir='{folder}/runs'"]
    # Hydra cannot replace a list by a dictionary of corpora.
    given = {override.partition("=")[0] for override in overrides}
    base = [each for each in base if each.partition("=")[0] not in given]
    return load_config(*base, "run_name=tiny", *overrides)


def two_corpora(folder: Path, **entries: dict[str, object]) -> FilesConfig:
    """Configure two training corpora, "large" and "small", with further keys of each."""
    data = tiny_config(folder).data
    assert isinstance(data, FilesConfig)
    files = {"large": data.train, "small": data.valid}
    train = {name: {"files": files[name], **entries.get(name, {})} for name in files}
    return replace(data, train=train)


def fits(override: str, others: Sequence[str]) -> bool:
    """Return whether an override goes with the others; only some attention types have a size."""
    if override.startswith("tokenizer="):
        return not any(other.startswith("tokenizer=") for other in others)
    return override != "attention.size=9" or not any(o.startswith("attention=") for o in others)


def tiny_run(folder: Path, *overrides: str) -> float:
    """Train into folder/runs/tiny."""
    return run_training(tiny_config(folder, *overrides), folder / "runs" / "tiny").bleu


def tiny_trainer(folder: Path, *overrides: str) -> Trainer:
    """Return the trainer that `run_training` would use, with an open run directory."""
    config = tiny_config(folder, *overrides)
    data = prepare_data(config)
    directory = RunDirectory(folder / "runs" / "tiny")
    directory.open(config)
    return Trainer(
        config,
        model=build_model(
            config,
            source_vocabulary_size=len(data.tokenizers.source),
            target_vocabulary_size=len(data.tokenizers.target),
        ),
        data=data,
        numerics=tiny_numerics(config),
        ranks=Ranks(0, 0, 1),
        directory=directory,
    )


def training_state(trainer: Trainer) -> TrainingState:
    """Return what last.pt would have besides the weights."""
    return {
        "fingerprint": trainer.data.fingerprint,
        "valid_fingerprint": trainer.data.valid_fingerprint,
        "progress": asdict(trainer.progress),
        "updater": trainer.updater.state(),
    }


def saved_weights(path: Path) -> dict[str, torch.Tensor]:
    """Return the weights in a checkpoint file."""
    weights: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["model"]
    return weights


def tiny_numerics(config: TrainConfig) -> Numerics:
    return choose_numerics(config.training.device, config.training.precision)


def read_scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Return the points of each curve as TensorBoard shows them, without replaced ones."""
    curves: dict[str, dict[int, float]] = {}
    for path in event_files(folder):
        for event in EventFileLoader(str(path)).Load():
            if event.HasField("session_log"):
                for points in curves.values():
                    for step in [step for step in points if step >= event.step]:
                        del points[step]
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = float(tensor_util.make_ndarray(value.tensor))
                    points = curves.setdefault(value.tag, {})
                    assert event.step not in points, f"{value.tag} is twice at {event.step}"
                    points[event.step] = number
    return curves


def read_tags(folder: Path) -> set[str]:
    """Return all tags of TensorBoard."""
    files = event_files(folder)
    events = (event for path in files for event in EventFileLoader(str(path)).Load())
    return {value.tag for event in events for value in event.summary.value}


def event_files(folder: Path) -> list[Path]:
    """Return the files in the order in which TensorBoard reads them."""
    return sorted(folder.rglob("events.out.*"), key=lambda path: path.name)
