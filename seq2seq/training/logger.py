"""What a run tells: lines on the console and in train.log, curves and pictures in TensorBoard."""

import logging
import sys
from collections.abc import Mapping, Sequence
from logging.handlers import MemoryHandler
from pathlib import Path
from types import TracebackType

from torch.utils.tensorboard.writer import SummaryWriter
from tqdm import tqdm

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import flatten_config
from seq2seq.evaluation.attention_statistics import HeadStatistics, mean_over_heads
from seq2seq.special_tokens import EOS
from seq2seq.training.evaluator import Evaluation, Evaluator
from seq2seq.training.progress import Progress
from seq2seq.visualization.heads import head_figure
from seq2seq.visualization.plots import attention_figure

logger = logging.getLogger(__name__)


class RunLog:
    """Within this context the package's log lines reach stderr and, once opened, a file.

    Lines from before `open` are kept for the file.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._memory = MemoryHandler(capacity=100_000, flushLevel=logging.CRITICAL + 1)
        self._handlers: list[logging.Handler] = [self._memory]
        self._level = logging.NOTSET
        if not quiet:
            self._handlers.append(_ConsoleHandler())

    def __enter__(self) -> "RunLog":
        package = logging.getLogger("seq2seq")
        self._level = package.level
        package.setLevel(logging.INFO)
        for handler in self._handlers:
            package.addHandler(handler)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        package = logging.getLogger("seq2seq")
        package.setLevel(self._level)
        for handler in self._handlers:
            package.removeHandler(handler)
            handler.close()

    def open(self, path: Path) -> None:
        """Write to the file, and at once what was said so far."""
        file = logging.FileHandler(path, encoding="utf-8")
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._memory.setTarget(file)
        self._memory.flush()
        self._handlers = [file if each is self._memory else each for each in self._handlers]
        package = logging.getLogger("seq2seq")
        package.removeHandler(self._memory)
        self._memory.close()
        package.addHandler(file)


class _ConsoleHandler(logging.Handler):
    """Writes above a progress bar, not into it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.levelno >= logging.WARNING:
            text = f"{record.levelname.lower()}: {text}"
        tqdm.write(text, file=sys.stderr)


class TensorBoard:
    """Writes the curves, translations and attention maps of a run."""

    def __init__(self, path: Path | None, *, first_update: int | None) -> None:
        """Open the curves.

        Args:
            path: where; None, in processes that do not write, draws nothing.
            first_update: points from there on, of a run that got further than its last
                checkpoint, are drawn again, not twice; None keeps all.
        """
        self._writer = None if path is None else SummaryWriter(str(path), purge_step=first_update)

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def scalars(self, values: Mapping[str, float], *, update: int) -> None:
        """Add a point to each curve."""
        if self._writer is None:
            return
        for tag, value in values.items():
            self._writer.add_scalar(tag, value, update)

    def validation(self, evaluation: Evaluation, *, update: int) -> None:
        """Add the scores of a validation to the curves, and a picture that compares the heads."""
        values = {
            "valid/loss": evaluation.loss,
            "valid/perplexity": evaluation.perplexity,
            "valid/bleu": evaluation.scores.bleu,
            "valid/chrf": evaluation.scores.chrf,
        }
        if evaluation.alignment is not None:
            values["valid/alignment_error_rate"] = evaluation.alignment.error_rate
        for name, mean in mean_over_heads(evaluation.heads).items():
            values[f"valid/attention/{name}"] = mean
        if len(evaluation.heads) > 1:
            values |= _head_values(evaluation.heads)
            if self._writer is not None:
                figure = head_figure(evaluation.heads)
                self._writer.add_figure("valid/attention/heads", figure, update)
        self.scalars(values, update=update)

    def samples(
        self,
        evaluation: Evaluation,
        evaluator: Evaluator,
        *,
        num_samples: int,
        update: int,
    ) -> None:
        """Add the first translations, each with a map of its attention, one for each head."""
        if self._writer is None:
            return
        data, tokenizers = evaluator.data, evaluator.tokenizers
        for index in range(min(num_samples, len(data.sources))):
            translation = evaluation.translations[index]
            text = (
                f"**source** {data.sources[index]}  \n**translation** {translation}  \n"
                f"**reference** {data.references[index]}"
            )
            self._writer.add_text(f"text/valid_{index}", text, update)
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
                self._writer.add_figure(name, figure, update)

    def results(self, config: TrainConfig, scores: Mapping[str, float], *, update: int) -> None:
        """Add the run, with its scores after that update, to the table of hyperparameters."""
        if self._writer is None:
            return
        values = {
            key: value if isinstance(value, int | float | str) else str(value)
            for key, value in flatten_config(config).items()
        }
        metrics = {f"test/{name}": value for name, value in scores.items()}
        self._writer.add_hparams(values, metrics, run_name=".", global_step=update)


def _head_values(heads: Sequence[HeadStatistics]) -> dict[str, float]:
    """Return each head's statistics, as far as they are known, under their tags."""
    return {
        f"valid/attention/{name}/head_{number}": value
        for number, head in enumerate(heads, start=1)
        for name, value in head._asdict().items()
        if value is not None
    }


def describe_validation(progress: Progress, evaluation: Evaluation) -> str:
    """Say in one line how far the run is and how good the model."""
    parts = [
        f"update {progress.update}",
        f"epoch {progress.epoch + progress.epoch_share:.1f}",
        f"{progress.seconds / 60:.1f} min",
        f"valid perplexity {evaluation.perplexity:.2f}",
        f"BLEU {evaluation.scores.bleu:.1f}",
        f"chrF {evaluation.scores.chrf:.1f}",
    ]
    if evaluation.alignment is not None:
        parts.append(f"AER {evaluation.alignment.error_rate:.3f}")
    return ", ".join(parts)
