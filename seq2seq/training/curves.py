"""Write the curves, translations and attention maps of a run, for TensorBoard or a service."""

import html
import importlib.util
import io
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.summary import text

from seq2seq.config.schema import Monitor, TrainConfig
from seq2seq.config.serialization import flatten_config
from seq2seq.files.atomic import create_file, write_text
from seq2seq.files.paths import reading
from seq2seq.training.losses import perplexity
from seq2seq.training.progress import Progress
from seq2seq.training.validation import Evaluation
from seq2seq.visualization.plots import attention_figure, head_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

MINUTES, TARGET_TOKENS = "minutes", "target_tokens"
TRAIN_LOSS = "train/loss"

# TensorBoard shows groups of charts in the order of their names: main, train, valid ...
MAIN = "main"
_MAIN_SCORES = ("bleu", "loss")


class TensorBoard:
    """A context that writes the curves, translations and attention maps of a run.

    Unlike SummaryWriter it has no thread: a disk error is raised where it occurs, without an extra
    traceback from a thread.
    """

    def __init__(
        self, path: Path | None, *, first_update: int, tracker: "Tracker | None" = None
    ) -> None:
        """Open the curves.

        Args:
            path: Directory of the curves; None writes nothing, in processes that write no files.
            first_update: First update of this process. Points from this update on are replaced; a
                run that was stopped after its last checkpoint has such points.
            tracker: Also gets the points.
        """
        self.tracker = tracker or Tracker(Service())
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
        self._file = create_file(Path(os.devnull) if path is None else new_event_file(path))
        self._records = RecordWriter(self._file)
        self._write(Event(file_version="brain.Event:2"))
        # TensorBoard drops all points of earlier files from this update on.
        restart = SessionLog(status=SessionLog.START)
        self._write(Event(session_log=restart, step=first_update))

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self.tracker.close()

    def flush(self) -> None:
        """Pass all points to the operating system before a checkpoint is saved.

        A killed process then loses only later points, and a resumed run repeats none.
        """
        self._file.flush()

    def updates(
        self, progress: Progress, *, learning_rate: float, teacher_forcing_ratio: float
    ) -> None:
        """Add the means since the last point to the training curves."""
        interval = progress.interval
        means = interval.means()
        values = {
            **{f"train/{name}": mean for name, mean in means.items()},
            "train/perplexity": perplexity(means["loss"]),
            "train/learning_rate": learning_rate,
            "train/target_tokens_per_second": interval.target_tokens_per_second,
            "train/teacher_forcing_ratio": teacher_forcing_ratio,
        }
        if interval.updates > interval.overflows:
            finite = interval.updates - interval.overflows
            values["train/gradient_norm"] = interval.gradient_norm / finite
        self._scalars(values, progress.update)
        self._draw({f"{MAIN}/train_loss": means["loss"]}, progress.update)
        self.position("train", progress)

    def position(self, part: Literal["train", "valid"], progress: Progress) -> None:
        """Add the minutes and target tokens so far, for the curves of training or validation."""
        values = {MINUTES: progress.seconds / 60, TARGET_TOKENS: float(progress.target_tokens)}
        self._scalars({f"{part}/{name}": value for name, value in values.items()}, progress.update)

    def validation(self, evaluation: Evaluation, *, update: int) -> None:
        """Add the scores of a validation to the curves, and a figure that compares the heads."""
        self.other_validation("valid", evaluation, update=update)
        if len(evaluation.heads) > 1:
            for number, head in enumerate(evaluation.heads, start=1):
                values = {f"valid/{name}/head_{number}": value for name, value in head.items()}
                self._scalars(values, update)
            self._add_image("valid/heads", head_figure(evaluation.heads), update)

    def other_validation(self, part: str, evaluation: Evaluation, *, update: int) -> None:
        """Add the scores on a validation set to its curves."""
        scores = evaluation.scores
        self._scalars({f"{part}/{name}": value for name, value in scores.items()}, update)
        self._draw({f"{MAIN}/{part}_{name}": scores[name] for name in _MAIN_SCORES}, update)

    def samples(self, evaluation: Evaluation, *, update: int) -> None:
        """Add the kept translations, each with an attention map for each head."""
        for index, (translation, reference) in enumerate(evaluation.samples):
            best = translation.best
            texts = {
                "source": translation.source,
                "translation": best.text,
                "reference": reference.text,
            }
            shown = "  \n".join(f"**{name}** {_literal(each)}" for name, each in texts.items())
            summary = text(f"valid_text/{index}", shown)  # type: ignore[no-untyped-call]
            self._write(Event(summary=summary, step=update))
            tag = f"valid_attention/{index}"
            num_heads, num_rows, _ = best.attention_weights.shape
            for head in range(num_heads if num_rows else 0):
                weights = best.attention_weights[head : head + 1]
                figure = attention_figure(
                    weights,
                    translation.source_tokens,
                    best.tokens,
                    title=f"{translation.source}\n{best.text}",
                )
                name = tag if num_heads == 1 else f"{tag}/head_{head + 1}"
                self._add_image(name, figure, update)

    def _scalars(self, values: Mapping[str, float], update: int) -> None:
        self._draw(values, update)
        self.tracker.add(values, update)

    def _draw(self, values: Mapping[str, float], update: int) -> None:
        """Add points that a tracking service does not get."""
        for tag, value in values.items():
            self._add(Summary.Value(tag=tag, simple_value=value), update)

    def _add_image(self, tag: str, figure: "Figure", update: int) -> None:
        png = io.BytesIO()
        figure.dpi *= 2  # TensorBoard enlarges the images
        figure.savefig(png, format="png")
        width, height = figure.canvas.get_width_height()
        image = Summary.Image(
            width=width, height=height, colorspace=4, encoded_image_string=png.getvalue()
        )
        self._add(Summary.Value(tag=tag, image=image), update)

    def _add(self, value: Summary.Value, update: int) -> None:
        self._write(Event(summary=Summary(value=[value]), step=update))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())


def _literal(shown: str) -> str:
    """Escape what would be Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]()#+.!-])", r"\\\1", html.escape(shown, quote=False))


def new_event_file(folder: Path) -> Path:
    """Return a path after all others, because TensorBoard reads files in the order of their names.

    The number in a name is the time in nanoseconds, unless the clock was set back.
    """
    numbers = (path.name.split(".")[3] for path in folder.glob("events.out.tfevents.*"))
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return folder / f"events.out.tfevents.{max(time.time_ns(), last + 1)}"


class Service(NamedTuple):
    """A run at a tracking service; without arguments, nothing is sent."""

    id: str = ""
    """Identifier of the run at the service."""
    send: Callable[[Mapping[str, float], int], object] = lambda values, update: None
    """Function that adds the points of an update, by tag."""
    close: Callable[[], object] = lambda: None


def _wandb(config: TrainConfig, name: str, known_id: str | None) -> Service:
    run = importlib.import_module("wandb").init(
        id=known_id, resume="allow", name=name, config=flatten_config(config)
    )
    return Service(run.id, lambda values, update: run.log(values, step=update), run.finish)


def _mlflow(config: TrainConfig, name: str, known_id: str | None) -> Service:
    mlflow = importlib.import_module("mlflow")
    run = mlflow.start_run(run_id=known_id, run_name=name)
    if known_id is None:
        mlflow.log_params(flatten_config(config))
    return Service(
        run.info.run_id,
        lambda values, update: mlflow.log_metrics(values, step=update),
        mlflow.end_run,
    )


SERVICES: dict[Monitor, Callable[[TrainConfig, str, str | None], Service]] = {
    Monitor.tensorboard: lambda config, name, known_id: Service(),
    Monitor.wandb: _wandb,
    Monitor.mlflow: _mlflow,
}
"""For each service, the function that begins a run, or continues a run with a known id. A service
has the name of its package."""


_ERRORS = (Exception, SystemExit)
"""Everything that the code of a service may raise; Ctrl-C still ends the training."""


class Tracker:
    """Keeps points until a checkpoint is written, so that a resumed run repeats none of them.

    After an error of the service, no more points are sent, but the training continues.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._points: list[tuple[Mapping[str, float], int]] = []

    def add(self, values: Mapping[str, float], update: int) -> None:
        """Keep the points of an update."""
        if self._service.id:
            self._points.append((values, update))

    def send(self) -> None:
        """Send the points that were added."""
        for point in self._points:
            self._attempt(self._service.send, *point)
        self._points.clear()

    def close(self) -> None:
        """End the run of the service."""
        self._attempt(self._service.close)

    def _attempt(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except _ERRORS as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            logger.warning("training.monitor: no more points are sent: %s", reason)
            self._service = Service()


def check_monitor(monitor: Monitor) -> None:
    """Raise ValueError if the package of a service is missing."""
    spec = importlib.util.find_spec(monitor.name)
    if spec is None or spec.origin is None:  # a folder such as wandb's has no origin
        raise ValueError(
            f"training.monitor={monitor.name} needs the package {monitor.name}; pip install "
            f"{monitor.name}"
        )


def open_tracker(config: TrainConfig, directory: Path) -> Tracker:
    """Begin a run of the service, or continue the run whose id is known.

    Args:
        config: The configuration of the run.
        directory: Directory of the curves, in the run directory; it keeps the id.

    Raises:
        ValueError: The service refuses the run.
    """
    monitor = config.training.monitor
    path = directory / f"{monitor.name}.id"
    with reading(f"training.monitor={monitor.name}"):
        known_id = path.read_text(encoding="utf-8") if path.exists() else None
        service = SERVICES[monitor](config, directory.parent.name, known_id)
    if service.id:
        directory.mkdir(parents=True, exist_ok=True)
        write_text(path, service.id)
    return Tracker(service)
