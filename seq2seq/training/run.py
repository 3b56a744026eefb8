"""A whole run: data, model, training, the test score and what the user can do next."""

import contextlib
import gc
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoint
from seq2seq.config.models import build_model, check_model
from seq2seq.config.schema import TrainConfig
from seq2seq.data import load_vectors
from seq2seq.evaluation.attention_statistics import mean_over_heads
from seq2seq.kernels.switch import use_kernels
from seq2seq.model.seq2seq import Seq2Seq, count_fixed_parameters, count_parameters
from seq2seq.runtime.distributed import (
    Ranks,
    barrier,
    join_processes,
    leave_processes,
    share_from_first,
)
from seq2seq.runtime.numerics import Numerics, Precision, choose_numerics
from seq2seq.runtime.seeding import derive_seed
from seq2seq.training.evaluator import Evaluation, Evaluator
from seq2seq.training.logger import RunLog, TensorBoard
from seq2seq.training.preparation import EvaluationSet, PreparedData, prepare_data
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer

logger = logging.getLogger(__name__)

NUM_SAMPLES = 3


def run_training(
    config: TrainConfig, path: Path, *, next_steps: Mapping[str, str] | None = None
) -> float:
    """Train, score the best checkpoint on the test set and write the results.

    Args:
        config: the whole configuration.
        path: the run directory.
        next_steps: Commands to log at the end, by purpose.

    Returns:
        BLEU on the test set.

    Raises:
        ValueError: configuration, data or run directory do not allow the run.
        Interrupted: a signal stopped it; it can be resumed.
        NonFiniteError: a gradient was no number.
    """
    ranks = join_processes()
    directory = RunDirectory(path)
    try:
        with RunLog(quiet=not ranks.is_first) as log:
            if ranks.is_first:
                directory.check(config)
            with _collecting_no_garbage():
                trainer = _prepare(config, directory, ranks)
            if ranks.is_first:
                directory.open(config)
                log.open(directory.log)
            _announce(trainer)
            trainer.train()
            bleu = _conclude(trainer, next_steps or {}) if ranks.is_first else 0.0
            return share_from_first(bleu, ranks)
    finally:
        leave_processes()


@contextlib.contextmanager
def _collecting_no_garbage() -> Iterator[None]:
    """Load and build what stays without searching it for garbage, which takes half a second."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _prepare(config: TrainConfig, directory: RunDirectory, ranks: Ranks) -> Trainer:
    """Build all that training needs; nothing is written to the run directory yet."""
    training = config.training
    use_kernels(training.kernels)
    numerics = choose_numerics(training.device, training.precision, local_rank=ranks.local_rank)
    if training.threads is not None:
        torch.set_num_threads(training.threads)
    check_model(config)
    checkpoint = _last_checkpoint(directory) if config.resume else None
    tokenizers = checkpoint.tokenizers if checkpoint else None
    if not ranks.is_first:
        barrier(ranks)  # the first process downloads the data and fills the cache
    data = prepare_data(config, tokenizers)
    if ranks.is_first:
        barrier(ranks)
    torch.manual_seed(derive_seed(config.seed, "parameters"))
    model = build_model(
        config,
        source_vocabulary_size=len(data.tokenizers.source),
        target_vocabulary_size=len(data.tokenizers.target),
    )
    if training.precision is Precision.auto:
        numerics = numerics.suited_to(count_fixed_parameters(model))
    if checkpoint is None:
        _load_vectors(config, model, data)
    else:
        model.load_state_dict(checkpoint.model_state)
    trainer = Trainer(
        replace(config, resume=False, overwrite=False),
        model=model.to(numerics.device),
        data=data,
        numerics=numerics,
        ranks=ranks,
        directory=directory,
    )
    if checkpoint is not None:
        assert checkpoint.training_state is not None, "last.pt always holds it"
        trainer.load_state(checkpoint.training_state)
    return trainer


def _last_checkpoint(directory: RunDirectory) -> Checkpoint | None:
    """Load what a run goes on from; one that ended before its first checkpoint starts anew."""
    if directory.last.exists():
        return load_checkpoint(directory.last)
    logger.info("resume=true: no checkpoint was written yet; the run starts anew")
    return None


def _load_vectors(config: TrainConfig, model: Seq2Seq, data: PreparedData) -> None:
    """Fill the embeddings from pretrained vectors where the configuration names some."""
    sides = (
        ("encoder", config.model.encoder, model.encoder.embedding, data.tokenizers.source),
        ("decoder", config.model.decoder, model.decoder.embedding, data.tokenizers.target),
    )
    for name, part, embedding, tokenizer in sides:
        if part.vectors is None:
            continue
        vectors = load_vectors(part.vectors, tokenizer, part.embedding_size)
        with torch.no_grad():
            found = vectors.matrix.any(dim=1)
            embedding.weight[found] = vectors.matrix[found]
        logger.info(
            "model.%s.vectors: %d of %d tokens found", name, vectors.num_found, len(tokenizer)
        )


def _announce(trainer: Trainer) -> None:
    """Say what is about to be trained, on what."""
    config, data, numerics = trainer.config, trainer.data, trainer.numerics
    logger.info(
        "%s: %d training pairs, %d + %d tokens, attention %s, %d parameters, %s, %s",
        trainer.directory.path,
        len(data.train),
        len(data.tokenizers.source),
        len(data.tokenizers.target),
        config.attention.name,
        count_parameters(trainer.model),
        numerics.device,
        numerics.precision.value,
    )
    if trainer.progress.update:
        logger.info("resumed after update %d", trainer.progress.update)


def _conclude(trainer: Trainer, next_steps: Mapping[str, str]) -> float:
    """Score the best checkpoint, write the results and say how to go on; return test BLEU."""
    directory = trainer.directory
    model = load_checkpoint(directory.best).build_model().to(trainer.numerics.device)
    valid = _evaluate(trainer, model, trainer.data.valid)
    test = _evaluate(trainer, model, trainer.data.test)
    directory.write("test.hyp", "".join(f"{line}\n" for line in test.translations))
    directory.write("test.ref", "".join(f"{line}\n" for line in trainer.data.test.references))
    results = _results(trainer, valid, test)
    directory.write("results.json", json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    with TensorBoard(directory.tensorboard, first_update=None) as board:
        scores = {"bleu": test.scores.bleu, "chrf": test.scores.chrf}
        board.results(trainer.config, scores, update=trainer.progress.best_update)
    _say_results(trainer, test, next_steps)
    return test.scores.bleu


def _evaluate(trainer: Trainer, model: Seq2Seq, data: EvaluationSet) -> Evaluation:
    return Evaluator(
        data=data,
        tokenizers=trainer.data.tokenizers,
        decoding=trainer.config.decoding,
        batch_size=trainer.config.training.validation.batch_size,
        numerics=trainer.numerics,
    ).evaluate(model, ter=True)


def _results(trainer: Trainer, valid: Evaluation, test: Evaluation) -> dict[str, object]:
    progress, numerics = trainer.progress, trainer.numerics
    return {
        "valid": _summary(valid),
        "test": _summary(test),
        "updates": progress.update,
        "epochs": round(progress.epoch + progress.epoch_share, 2),
        "seconds": round(progress.seconds, 1),
        "target_tokens": progress.target_tokens,
        "target_tokens_per_second": round(
            progress.target_tokens / max(progress.update_seconds, 1e-9), 1
        ),
        "parameters": count_parameters(trainer.model),
        "device": _device_name(numerics),
        "precision": numerics.precision.value,
        "attention": trainer.config.attention.name,
    }


def _summary(evaluation: Evaluation) -> dict[str, object]:
    summary: dict[str, object] = {
        **asdict(evaluation.scores),
        "loss": evaluation.loss,
        "perplexity": evaluation.perplexity,
    }
    means = mean_over_heads(evaluation.heads)
    summary |= {f"attention_{name}": mean for name, mean in means.items()}
    if evaluation.alignment is not None:
        summary["aer"] = evaluation.alignment.error_rate
        summary["aer_of_diagonal"] = evaluation.alignment.diagonal_error_rate
    return summary


def _device_name(numerics: Numerics) -> str:
    if numerics.device.type == "cuda":
        return torch.cuda.get_device_name(numerics.device)
    return f"cpu, {torch.get_num_threads()} threads"


def _say_results(trainer: Trainer, test: Evaluation, next_steps: Mapping[str, str]) -> None:
    """Log the score, some translations and the commands to type next."""
    config, data = trainer.config, trainer.data.test
    lines = [
        f"test BLEU {test.scores.bleu:.2f}, chrF {test.scores.chrf:.2f}, TER {test.scores.ter:.2f}"
    ]
    lines.append(f"  {test.scores.signature}")
    if test.alignment is not None:
        lines.append(
            f"alignment error rate {test.alignment.error_rate:.3f} "
            f"(the diagonal: {test.alignment.diagonal_error_rate:.3f})"
        )
    for index in range(min(NUM_SAMPLES, len(data.sources))):
        lines += [
            "",
            f"  {config.data.source}  {data.sources[index]}",
            f"  {config.data.target}  {test.translations[index]}",
        ]
    if next_steps:
        width = max(map(len, next_steps))
        lines += ["", "Next:"]
        lines += [f"  {purpose:<{width}}  {command}" for purpose, command in next_steps.items()]
    logger.info("%s", "\n".join(lines))
