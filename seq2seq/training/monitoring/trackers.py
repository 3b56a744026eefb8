"""Send the points of a run's curves to a tracking service, besides the files of TensorBoard."""

import importlib.util
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from seq2seq.config.schema import Monitor, TrainConfig
from seq2seq.config.serialization import flatten_config
from seq2seq.files.atomic import whole_file

logger = logging.getLogger(__name__)


class Service(NamedTuple):
    """A run of a service; without arguments, nothing is sent."""

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
"""Function of each service that begins a run, or continues the run whose id is known. A service has
the name of its package."""


_ERRORS = (Exception, SystemExit)
"""Everything that the code of a service may raise; Ctrl-C still ends the training."""


class Tracker:
    """Keeps points until a checkpoint is written, so that a resumed run repeats none of them.

    An error of the service ends the sending, and not the training.
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
            logger.warning("training.monitor: no more points are sent: %s", _first_line(error))
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
    """Begin a run of the service, or continue the one whose id is known.

    Args:
        config: The configuration of the run.
        directory: Directory of the curves, in the run directory; it keeps the id.

    Raises:
        ValueError: The service refuses it.
    """
    monitor = config.training.monitor
    path = directory / f"{monitor.name}.id"
    try:
        known_id = path.read_text(encoding="utf-8") if path.exists() else None
        service = SERVICES[monitor](config, directory.parent.name, known_id)
    except _ERRORS as error:
        way_out = f", or delete {path} to begin a new run there" if path.exists() else ""
        raise ValueError(
            f"training.monitor={monitor.name}: {_first_line(error)}; correct this and repeat the "
            "command with resume=true, or send nothing with resume=true "
            f"training.monitor=tensorboard{way_out}"
        ) from error
    if service.id:
        directory.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(service.id.encode())
    return Tracker(service)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
