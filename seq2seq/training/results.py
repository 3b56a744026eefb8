"""Score a finished run, write its results and log them."""

import json
import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from seq2seq.checks import counted
from seq2seq.config.schema import ScheduleName
from seq2seq.data.tokenizers.ruled import symbol_ids
from seq2seq.evaluation.confidence import Confidence, choose_confidence
from seq2seq.evaluation.measures import outcomes, total_scores
from seq2seq.files.atomic import write_text
from seq2seq.inference.checkpoint import load_checkpoint, save_checkpoint
from seq2seq.model.seq2seq import count_parameters
from seq2seq.runtime.numerics import Numerics, processor_name
from seq2seq.search.config import DEFAULT_SEARCH, DecodingConfig
from seq2seq.training.preparation import EvaluationSet
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import DIAGONAL, Evaluation

logger = logging.getLogger(__name__)

NUM_SAMPLES = 3
_NUM_MAPS = 200
"""Number of sentences whose attention is kept for comparing several runs."""


class FinalScores(NamedTuple):
    """Evaluations of the best checkpoint."""

    sets: dict[str, Evaluation]
    """Scores by the name of the set; see `PreparedData`."""
    confidence: Confidence | None
    """How good translations are likely to be; None if their log-probability tells too little."""
    about_confidence: str
    """How much it tells, or why there is none."""

    @property
    def valid(self) -> Evaluation:
        """The evaluation on the validation set that chooses the best checkpoint."""
        return self.sets["valid"]

    @property
    def bleu(self) -> float:
        """BLEU on the test set, or on the validation set if there is no test set."""
        return self.sets.get("test", self.valid).scores["bleu"]


def write_results(trainer: Trainer, command: str = "") -> FinalScores:
    """Score the best checkpoint and write the results into the run directory.

    Every process scores its share and returns the scores; rank 0 writes them.

    Args:
        trainer: The trainer, at the end of its training.
        command: The command that started the run, for its readers; "" if there was none.

    Raises:
        Interrupted: A signal asked to stop; a resumed run scores the checkpoint again.
    """
    decoding = trainer.config.decoding
    with trainer.signals:
        best = trainer.ranks.compute_in_first(lambda: load_checkpoint(trainer.directory.best))
        model = best.build_model().to(trainer.numerics.device)

        def evaluate(name: str, decoding: DecodingConfig, num_samples: int = 0) -> Evaluation:
            data = trainer.data.sets[name]
            evaluator = replace(trainer.evaluator, data=data, decoding=decoding)
            return replace(evaluator, num_samples=num_samples).evaluate(model, slow=True)

        sets = {name: evaluate(name, decoding, _NUM_MAPS) for name in trainer.data.sets}
        judged = {name: sets[name] for name in ("valid", "test") if name in sets}
        if decoding != DEFAULT_SEARCH:  # with which translate.py and exported models translate
            judged = {name: evaluate(name, DEFAULT_SEARCH) for name in judged}
    of_sets = {name: outcomes(each.statistics) for name, each in judged.items()}
    found = FinalScores(sets, *choose_confidence(of_sets["valid"], of_sets.get("test")))
    if trainer.ranks.is_first:
        _write(trainer, found, command)
        save_checkpoint(trainer.directory.best, replace(best, confidence=found.confidence))
    return found


def _write(trainer: Trainer, found: FinalScores, command: str) -> None:
    """Write the texts of each set, and results.json."""
    directory, progress, numerics = trainer.directory, trainer.progress, trainer.numerics
    for name, evaluation in found.sets.items():
        _write_texts(directory, name, trainer.data.sets[name], evaluation)
    summaries = {name: each.summary() for name, each in found.sets.items()}
    results = {
        "valid": summaries.pop("valid"),
        "test": summaries.pop("test", None),
        "other_valid": {name.removeprefix("valid."): each for name, each in summaries.items()},
        "validations": directory.read_validations(),
        "updates": progress.update,
        "best_update": progress.best_updates[0],
        "epochs": round(progress.epochs, 2),
        "seconds": round(progress.seconds, 1),
        "target_tokens": progress.target_tokens,
        "target_tokens_per_second": round(
            progress.target_tokens / max(progress.update_seconds, 1e-9), 1
        ),
        "parameters": count_parameters(trainer.model),
        "device": _device_name(numerics),
        "processor": processor_name(),
        "date": time.strftime("%Y-%m-%d"),
        "command": command,
        "confidence": found.confidence and found.confidence._asdict(),
        "training_data": trainer.data.fingerprint,
        "precision": numerics.precision.value,
        "attention": trainer.config.attention.name,
    }
    write_text(directory.results, json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def log_results(trainer: Trainer, found: FinalScores) -> None:
    """Log the test scores and some translations."""
    config = trainer.config.data
    shown = "test" if "test" in found.sets else "valid"
    data, evaluation = trainer.data.sets[shown], found.sets[shown]
    lines = [f"{shown} {evaluation}", f"  {evaluation.signature}"]
    lines += [f"{name} {each}" for name, each in found.sets.items() if name.startswith("valid.")]
    if shown == "valid":
        lines.append("no test score, because data.test=null")
    if DIAGONAL in evaluation.scores:
        lines.append(f"AER of the diagonal {evaluation.scores[DIAGONAL]:.3f}")
    lines.append(found.about_confidence)
    for index in range(min(NUM_SAMPLES, len(data.sources))):
        lines += [
            "",
            f"  {config.source}  {data.sources[index]}",
            f"  {config.target}  {evaluation.translations[index]}",
        ]
    bleu = bleu_of_words(data, evaluation, symbol_ids(trainer.data.tokenizers.target))
    logger.info("%s", "\n".join([*lines, "", describe_outcome(trainer, bleu)]))


_RISE = 0.5
"""Minimum gain of BLEU in the last third of a training for BLEU to count as still rising."""
_HALF = 0.5
_LEARNED = 95.0
"""BLEU from which a larger budget is not worth advising."""
_LEAST_EPOCHS = 2
"""Number of times that a text must be read before its curve says whether BLEU still rises."""
_MEANINGS = {
    10: "almost useless",
    20: "hard to understand",
    30: "the gist is clear, with many errors",
    40: "understandable to good",
    50: "good",
}
"""Meaning of a BLEU below each number; see the glossary."""


def bleu_of_words(data: EvaluationSet, evaluation: Evaluation, symbols: Sequence[int]) -> float:
    """Return BLEU without the sentences of which at least half is symbols that the model copies.

    Codes and addresses say nothing about the words of other sentences.

    Args:
        data: The scored set.
        evaluation: Its evaluation.
        symbols: Target ids of these symbols.
    """
    rows = data.encoded.target_rows
    shares = np.array([np.isin(rows[row], symbols).mean() for row in range(len(rows))])
    statistics = {"bleu": evaluation.statistics["bleu"][shares < _HALF]}
    return total_scores(statistics)["bleu"]


def describe_outcome(trainer: Trainer, bleu: float) -> str:
    """Describe whether more training would help, and what a BLEU means to a reader.

    Args:
        trainer: The trainer, after the training.
        bleu: BLEU of the test set, or of the validation set if there is no test set.
    """
    training, done = trainer.config.training, trainer.progress.epochs
    planned = training.max_epochs
    epochs = f"{done:.1f} epochs" if planned is None else f"{done:.1f} of {planned} epochs"
    history = trainer.directory.read_validations()
    verdict = _judge_training(
        [each["bleu"] for each in history],
        [each["loss"] for each in history],
        epochs=done,
        falls=training.schedule.name is ScheduleName.cosine,
        guessing=math.log(len(trainer.data.tokenizers.target)),
    )
    meaning = next((text for most, text in _MEANINGS.items() if bleu < most), "very good")
    return f"{epochs}; {verdict}\nBLEU {bleu:.0f}: {meaning}, on text like this"


def _judge_training(
    scores: list[float], losses: list[float], *, epochs: float, falls: bool, guessing: float
) -> str:
    """Return whether more training would help.

    Args:
        scores: Validation BLEU of each validation.
        losses: Validation loss of each validation.
        epochs: Number of times that the text was read.
        falls: Whether the learning rate has fallen to the end of the budget.
        guessing: Loss of a model that finds all tokens equally probable.
    """
    earlier, latest = scores[: len(scores) * 2 // 3], scores[len(scores) * 2 // 3 :]
    gain = max(latest, default=0.0) - max(earlier, default=0.0)
    has_improved = losses.index(min(losses)) >= len(earlier)
    if not losses[-1] < guessing:  # so NaN counts as diverged
        return (
            f"the training diverged: the valid loss is {losses[-1]:.3g}, and guessing gives "
            f"{guessing:.3g}; lower training.optimizer.learning_rate, and train a new run"
        )
    if earlier and max(latest) < max(earlier) / 2 and max(earlier) >= 1 and not has_improved:
        return (
            f"the training became unstable: valid BLEU fell from {max(earlier):.1f} to "
            f"{max(latest):.1f}; lower training.optimizer.learning_rate, and train a new run"
        )
    if max(scores) >= _LEARNED:
        return (
            f"valid BLEU is {max(scores):.1f}, so hardly anything is left to learn from this text"
        )
    if epochs < _LEAST_EPOCHS:
        return (
            f"the text was read {epochs:.1f} times, which is too little to judge: train for "
            "several epochs"
        )
    if not earlier:
        return "too few validations to tell whether BLEU still rises"
    if max(scores) < 1 and has_improved:
        return "valid BLEU is near 0, so train for more updates or with more text"
    if max(scores) < 1:
        return (
            "valid BLEU is near 0, and the valid loss does not fall: lower "
            "training.optimizer.learning_rate, or compare both sides of the training text"
        )
    if gain < _RISE and falls and has_improved:
        return (
            f"valid BLEU rose by {max(gain, 0.0):.1f} in the last third, as the learning rate fell"
            ", but the valid loss still fell too: a new run with twice the budget shows whether "
            "more time helps"
        )
    if gain < _RISE:
        return (
            f"valid BLEU rose by {max(gain, 0.0):.1f} in the last third, so more text or a larger "
            "model will help more than more time"
        )
    if falls:
        return (
            f"valid BLEU still rose by {gain:.1f} in the last third: train a new run with a larger "
            "budget; resuming gains little, because the learning rate has already fallen"
        )
    return (
        f"valid BLEU still rose by {gain:.1f} in the last third: raise the budget and give "
        "resume=true"
    )


def _write_texts(
    directory: RunDirectory, name: str, data: EvaluationSet, evaluation: Evaluation
) -> None:
    """Write the statistics of each sentence, and the texts, one sentence per line."""
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
        write_text(directory.text(name, suffix), "".join(f"{line}\n" for line in lines))


def _device_name(numerics: Numerics) -> str:
    if numerics.device.type == "cuda":
        return torch.cuda.get_device_name(numerics.device)
    return f"cpu, {counted(torch.get_num_threads(), 'thread')}"
