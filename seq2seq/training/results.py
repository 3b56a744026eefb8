"""Score a finished run, write its results and log them."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.checks import counted
from seq2seq.model.seq2seq import Seq2Seq, count_parameters
from seq2seq.runtime.numerics import Numerics
from seq2seq.training.monitoring.tensorboard import draw_results
from seq2seq.training.preparation import EvaluationSet
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import BestAverage, Trainer
from seq2seq.training.validation import DIAGONAL, Evaluation

logger = logging.getLogger(__name__)

NUM_SAMPLES = 3
_NUM_MAPS = 200
"""Sentences whose attention is kept, to compare that of several runs."""
_OF_RUN = ("parameters", "seconds", "target_tokens_per_second", "updates", "best_update")
"""Measures of a run that are not scores."""


class FinalScores(NamedTuple):
    """Evaluations of the best checkpoint."""

    valid: Evaluation
    test: Evaluation | None
    """None if the run has no test set."""
    other_valid: dict[str, Evaluation]
    """On the further validation sets, by name."""

    @property
    def bleu(self) -> float:
        """BLEU on the test set, or on the validation set if there is no test set."""
        return (self.test or self.valid).scores["bleu"]


def write_results(trainer: Trainer) -> FinalScores:
    """Score the best checkpoint and write the results into the run directory.

    Every process scores its share and returns the scores; the first one writes.
    """
    average = trainer.average_best()
    best = trainer.ranks.compute_in_first(lambda: load_checkpoint(trainer.directory.best))
    model = best.build_model().to(trainer.numerics.device)
    data = trainer.data
    valid = _evaluate(trainer, model, data.valid)
    test = None if data.test is None else _evaluate(trainer, model, data.test)
    others = {name: _evaluate(trainer, model, each) for name, each in data.other_valid.items()}
    found = FinalScores(valid, test, others)
    if trainer.ranks.is_first:
        _write(trainer, found, average)
    return found


def _write(trainer: Trainer, found: FinalScores, average: BestAverage | None) -> None:
    directory, data, test = trainer.directory, trainer.data, found.test
    _write_texts(directory, "valid", data.valid, found.valid)
    if data.test is not None and test is not None:
        _write_texts(directory, "test", data.test, test)
    for name, evaluation in found.other_valid.items():
        _write_texts(directory, f"valid.{name}", data.other_valid[name], evaluation)
    results = _results(trainer, found)
    if average is not None:
        results["average"] = {
            "updates": average.updates,
            "is_best": average.is_best,
            "valid": _summary(average.evaluation),
        }
    directory.write(
        directory.results.name, json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    )
    update = trainer.progress.best_update
    draw_results(directory.tensorboard, trainer.config, _measures(found, results), update=update)


def log_results(trainer: Trainer, found: FinalScores) -> None:
    """Log the test scores and some translations."""
    config, evaluation = trainer.config, found.test or found.valid
    data = trainer.data.test or trainer.data.valid
    lines = [
        f"{'test' if found.test else 'validation'} {evaluation}",
        f"  {evaluation.signature}",
    ]
    lines += [f"valid.{name} {each}" for name, each in found.other_valid.items()]
    if found.test is None:
        lines.append("no test score, because data.test=null")
    if DIAGONAL in evaluation.scores:
        lines.append(f"AER of the diagonal {evaluation.scores[DIAGONAL]:.3f}")
    for index in range(min(NUM_SAMPLES, len(data.sources))):
        lines += [
            "",
            f"  {config.data.source}  {data.sources[index]}",
            f"  {config.data.target}  {evaluation.translations[index]}",
        ]
    logger.info("%s", "\n".join(lines))


def _write_texts(
    directory: RunDirectory, name: str, data: EvaluationSet, evaluation: Evaluation
) -> None:
    """Write the statistics of each sentence, and the texts, one sentence on each line."""
    maps = {f"map_{row}": each.numpy() for row, each in enumerate(evaluation.maps)}
    directory.write_statistics(name, evaluation.statistics | maps)
    texts: dict[str, Iterable[str]] = {
        "src": data.sources,
        "hyp": evaluation.translations,
        "ref": data.references,
    }
    if data.gold is not None:
        texts["gold"] = map(str, data.gold)
    for suffix, lines in texts.items():
        directory.write(directory.text(name, suffix).name, "".join(f"{line}\n" for line in lines))


def _evaluate(trainer: Trainer, model: Seq2Seq, data: EvaluationSet) -> Evaluation:
    decoding = trainer.config.decoding
    scoring = replace(trainer.evaluator, data=data, decoding=decoding, num_samples=_NUM_MAPS)
    return scoring.evaluate(model, slow=True)


def _results(trainer: Trainer, found: FinalScores) -> dict[str, object]:
    progress, numerics = trainer.progress, trainer.numerics
    return {
        "valid": _summary(found.valid),
        "test": None if found.test is None else _summary(found.test),
        "other_valid": {name: _summary(each) for name, each in found.other_valid.items()},
        "validations": trainer.history.scores,
        "updates": progress.update,
        "skipped_updates": progress.skipped_updates,
        "best_update": progress.best_update,
        "epochs": round(progress.epoch + progress.epoch_share, 2),
        "seconds": round(progress.seconds, 1),
        "target_tokens": progress.target_tokens,
        "target_tokens_per_second": round(
            progress.target_tokens / max(progress.update_seconds, 1e-9), 1
        ),
        "parameters": count_parameters(trainer.model),
        "device": _device_name(numerics),
        "training_data": trainer.data.fingerprint,
        "precision": numerics.precision.value,
        "attention": trainer.config.attention.name,
    }


def _summary(evaluation: Evaluation) -> dict[str, object]:
    return {
        **evaluation.scores,
        "signature": evaluation.signature,
        "heads": evaluation.heads,
    }


def _measures(found: FinalScores, results: Mapping[str, object]) -> dict[str, float]:
    """Return the measures for the table of hyperparameters, by tag."""
    test = {} if found.test is None else _summary(found.test)
    named = {
        **{f"test/{name}": value for name, value in test.items()},
        **{f"results/valid_{name}": value for name, value in _summary(found.valid).items()},
        **{f"results/{name}": results[name] for name in _OF_RUN},
    }
    return {tag: float(value) for tag, value in named.items() if isinstance(value, int | float)}


def _device_name(numerics: Numerics) -> str:
    if numerics.device.type == "cuda":
        return torch.cuda.get_device_name(numerics.device)
    return f"cpu, {counted(torch.get_num_threads(), 'thread')}"
