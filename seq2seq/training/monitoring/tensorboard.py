"""Write the curves, translations and attention maps of a run for TensorBoard."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard.summary import hparams, text

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import flatten_config
from seq2seq.evaluation.attention_statistics import HeadStatistics, mean_over_heads
from seq2seq.files.atomic import whole_file
from seq2seq.special_tokens import EOS
from seq2seq.training.evaluator import Evaluation, Evaluator
from seq2seq.training.loss import perplexity
from seq2seq.training.monitoring.event_file import (
    EventFile,
    event_file_name,
    image_summary,
    new_event_file,
)
from seq2seq.training.progress import Interval, Progress
from seq2seq.visualization.heads import head_figure
from seq2seq.visualization.plots import attention_figure

MINUTES, TARGET_TOKENS = "minutes", "target_tokens"
TRAIN_LOSS, VALID_LOSS, VALID_BLEU = "train/loss", "valid/loss", "valid/bleu"

_RESULTS = ".results"
"""End of the name of the file with the test scores."""


class TensorBoard:
    """A context that writes the curves, translations and attention maps of a run."""

    def __init__(self, path: Path | None, *, first_update: int) -> None:
        """Open the curves.

        Args:
            path: Directory of the curves; None writes nothing, in processes that write no files.
            first_update: First update of this process. Later points, of a run that was stopped
                after its last checkpoint, are replaced.
        """
        self._file = None if path is None else new_event_file(path)
        if self._file is not None:
            self._file.replace_from(first_update)

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def flush(self) -> None:
        """Write all points, before a checkpoint with which a resumed run would not draw them."""
        if self._file is not None:
            self._file.flush()

    def updates(
        self, interval: Interval, *, learning_rate: float, teacher_forcing_ratio: float, update: int
    ) -> None:
        """Add the means over an interval of updates to the curves of training."""
        values = {
            TRAIN_LOSS: interval.loss,
            "train/perplexity": perplexity(interval.loss),
            "train/learning_rate": learning_rate,
            "train/target_tokens_per_second": interval.target_tokens_per_second,
            "train/teacher_forcing_ratio": teacher_forcing_ratio,
        }
        if interval.updates > interval.overflows:
            finite = interval.updates - interval.overflows
            values["train/gradient_norm"] = interval.gradient_norm / finite
        if interval.num_guided:
            values["train/guided_attention_loss"] = interval.guided_loss / interval.num_guided
        if interval.coverage_loss:
            values["train/coverage_loss"] = interval.coverage_loss / interval.target_tokens
        if interval.divergence:
            values["train/r_drop_divergence"] = interval.divergence / interval.target_tokens
        self._scalars(values, update)

    def position(self, part: Literal["train", "valid"], progress: Progress) -> None:
        """Add the minutes and target tokens of a point of the other curves of a part."""
        values = {MINUTES: progress.seconds / 60, TARGET_TOKENS: float(progress.target_tokens)}
        self._scalars({f"{part}/{name}": value for name, value in values.items()}, progress.update)

    def validation(self, evaluation: Evaluation, *, update: int) -> None:
        """Add the scores of a validation to the curves, and a figure that compares the heads."""
        values = _scores("valid", evaluation)
        if evaluation.alignment is not None:
            values["valid/alignment_error_rate"] = evaluation.alignment.error_rate
        for name, mean in mean_over_heads(evaluation.heads).items():
            values[f"valid/attention/{name}"] = mean
        if len(evaluation.heads) > 1:
            values |= _head_values(evaluation.heads)
            if self._file is not None:
                figure = head_figure(evaluation.heads)
                self._file.add(image_summary("valid/attention/heads", figure), update)
        self._scalars(values, update)

    def other_validation(self, name: str, evaluation: Evaluation, *, update: int) -> None:
        """Add the scores of a validation set that chooses nothing to curves of its own."""
        self._scalars(_scores(f"valid.{name}", evaluation), update)

    def samples(
        self, evaluation: Evaluation, evaluator: Evaluator, *, num_samples: int, update: int
    ) -> None:
        """Add the first translations, each with one attention map per head."""
        if self._file is None:
            return
        data, tokenizers = evaluator.data, evaluator.tokenizers
        for index in range(min(num_samples, len(data.sources))):
            translation = evaluation.translations[index]
            shown = (
                f"**source** {data.sources[index]}  \n**translation** {translation}  \n"
                f"**reference** {data.references[index]}"
            )
            summary = text(f"text/valid_{index}", shown)  # type: ignore[no-untyped-call]
            self._file.add(summary, update)
            hypothesis = evaluation.hypotheses[index]
            source_tokens = tokenizers.source.tokens([*data.encoded.source(index).tolist(), EOS])
            target_tokens = tokenizers.target.tokens(hypothesis.ids + [EOS] * hypothesis.finished)
            tag = f"attention/valid_{index}"
            num_heads, num_rows, _ = hypothesis.attention_weights.shape
            for head in range(num_heads if num_rows else 0):
                figure = attention_figure(
                    hypothesis.attention_weights[head : head + 1], source_tokens, target_tokens
                )
                name = tag if num_heads == 1 else f"{tag}/head_{head + 1}"
                self._file.add(image_summary(name, figure), update)

    def _scalars(self, values: Mapping[str, float], update: int) -> None:
        if self._file is not None:
            for summary in _points(values):
                self._file.add(summary, update)


def draw_results(
    path: Path, config: TrainConfig, measures: Mapping[str, float], *, update: int
) -> None:
    """Write the configuration and the measures of a run for the table of hyperparameters.

    They have a file of their own, which replaces that of an earlier end of the run.

    Args:
        path: Directory of the curves.
        config: The configuration of the run.
        measures: Measures of the finished run by tag, such as `test/bleu`.
        update: The update whose weights were scored.
    """
    values = {
        key: value if isinstance(value, int | float | str) else str(value)
        for key, value in flatten_config(config).items()
    }
    for earlier in path.glob(f"*{_RESULTS}*"):  # also a hidden one, of a killed process
        earlier.unlink()
    with whole_file(path / event_file_name(_RESULTS)) as content:
        file = EventFile(content)
        # Without a description of the experiment, which is of this run alone, TensorBoard collects
        # the keys and measures of all runs, and knows which keys differ.
        _, start, end = hparams(values, dict(measures))  # type: ignore[no-untyped-call]
        for summary in (start, end, *_points(measures)):
            file.add(summary, update)


def _scores(part: str, evaluation: Evaluation) -> dict[str, float]:
    """Return the scores of a validation set under their tags."""
    return {
        f"{part}/loss": evaluation.loss,
        f"{part}/perplexity": evaluation.perplexity,
        f"{part}/bleu": evaluation.scores.bleu,
        f"{part}/chrf": evaluation.scores.chrf,
    }


def _points(values: Mapping[str, float]) -> Iterator[Summary]:
    return (Summary(value=[Summary.Value(tag=tag, simple_value=values[tag])]) for tag in values)


def _head_values(heads: Sequence[HeadStatistics]) -> dict[str, float]:
    """Return the known statistics of each head under their tags."""
    return {
        f"valid/attention/{name}/head_{number}": value
        for number, head in enumerate(heads, start=1)
        for name, value in head._asdict().items()
        if value is not None
    }
