"""The configuration of the service, and its models: one with a batcher for each language pair."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, NamedTuple

from seq2seq.checks import Config, Count, FilePath, FilePaths, Name, Positive, Range, Threads
from seq2seq.config.composition import describe_error
from seq2seq.inference.translations import Translation
from seq2seq.runtime.devices import Device, Engine, Precision
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig
from seq2seq.serving.batcher import Batcher, Translate
from seq2seq.serving.metrics import Metrics
from seq2seq.serving.texts import SplitLine
from seq2seq.text.sentences import Split

logger = logging.getLogger(__name__)

SHOWN_DIGITS = 12
"""Number of hexadecimal digits of a hash in the log and in the metrics."""
Pair = tuple[str, str]
"""Codes of the source and the target language."""


@dataclass(kw_only=True, slots=True, repr=False)
class ServeConfig(Config):
    """The configuration of seq2seq-serve."""

    checkpoint: FilePaths
    """Checkpoint file, run directory or exported folder, one for each language pair."""
    plugins: list[str]
    """Python files that register the attention types in use."""
    engine: Engine
    host: Name
    """Address to listen on; 0.0.0.0 accepts requests from other machines."""
    port: Annotated[int, Range(0, 65_535)]
    """Port to listen on; 0: any free port, which the log names."""
    device: Device
    """Device to translate on."""
    precision: Precision
    threads: Threads | None
    """Number of CPU threads; None: torch's default or, with engine=onnx, one."""
    batch_size: Count
    """Maximum number of sentences translated together."""
    split: Split
    max_waiting: Count
    """Maximum number of waiting sentences; beyond that, the answer is 503. A request with more than
    a quarter of this number gets 413."""
    timeout: Positive
    """Maximum seconds to answer a request; after that, the answer is 504."""
    max_characters: Count
    """Maximum number of characters in a request."""
    max_sentence: Count
    """Maximum number of characters in a sentence; time grows with the square of its length."""
    max_texts: Count
    """Maximum number of texts in a request."""
    max_body: Count
    """Maximum number of bytes in the body of a request."""
    max_beam: Annotated[int, Range(1, 100)]
    """Maximum beam size, and maximum number of translations per sentence, that a request may ask
    for."""
    api_keys: FilePath | None
    """File of API keys, one on each line; a request must send one of them. None: no key is
    needed."""
    cors: list[str]
    """Origins of other sites whose pages may use the service, such as https://example.org; *: all
    sites."""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        is_usual = self.precision is Precision.fp32 and self.device is not Device.cuda
        if self.engine is Engine.onnx and not is_usual:
            raise ValueError(
                f"device={self.device.name} and precision={self.precision.name} are keys of "
                "engine=torch; an exported folder has its own precision, and runs on the CPU"
            )
        if type(self.decoding) not in (BeamConfig, GreedyConfig):
            raise ValueError(
                f"decoding={self.decoding.name}: the service searches with decoding=beam or greedy"
            )
        if (n_best := getattr(self.decoding, "n_best", 1)) > 1:
            raise ValueError(
                f"decoding.n_best={n_best}: each request sets its number of translations by "
                "n_best or alternatives; remove the key"
            )
        if (size := getattr(self.decoding, "beam_size", 1)) > self.max_beam:
            raise ValueError(
                f"decoding.beam_size={size} must be at most max_beam={self.max_beam}; raise "
                "max_beam or lower beam_size"
            )


class LoadedModel(NamedTuple):
    """A model that was read from a checkpoint or an exported folder."""

    pair: Pair
    translate: Translate[Translation]
    split: SplitLine
    """Function that returns the sentences of a line, as the model needs them."""
    others: Mapping[Pair, Translate[Translation]] = MappingProxyType({})
    """Functions that translate the further language pairs of a multilingual model."""
    name: str = ""
    """Folder and file of the model, as `FOLDER/FILE`; symbolic links are resolved."""
    sha256: str = ""
    """SHA-256 of its best.pt, or of runtime.json, which has the hashes of the other files."""


Load = Callable[[str], LoadedModel]


class Models:
    """The models of the service.

    Args:
        config: The paths of the models, the limits of their queues, and the search for testing a
            new model before it answers requests.
        load: Reads a model.
        metrics: Counts batches and reloads.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not a model, or two of them have the same languages.
    """

    def __init__(self, config: ServeConfig, *, load: Load, metrics: Metrics) -> None:
        self._config = config
        self._load = load
        self._metrics = metrics
        self._reloading = threading.Lock()
        self._models: dict[Pair, LoadedModel] = {}
        self._use(self._load_all())
        self._batchers = {
            pair: Batcher[Translation](
                batch_size=config.batch_size,
                max_waiting=config.max_waiting,
                on_batch=partial(metrics.count_batch, "-".join(pair)),
            )
            for pair in self._models
        }
        metrics.waiting.set_function(lambda: self.num_waiting)

    @property
    def pairs(self) -> list[Pair]:
        """Return the language pairs, in the order of the paths."""
        return list(self._models)

    @property
    def described(self) -> str:
        """Return the language pairs, each with the name and the hash of its model, for the log."""
        return ", ".join(
            f"{'-'.join(pair)} (model {model.name}, sha256 {model.sha256[:SHOWN_DIGITS]})"
            for pair, model in self._models.items()
        )

    @property
    def num_waiting(self) -> int:
        """Return the number of sentences that wait."""
        return sum(batcher.num_waiting for batcher in self._batchers.values())

    @property
    def are_ready(self) -> bool:
        """Return whether all models work, and at least one has room for a request."""
        batchers = self._batchers.values()
        is_full = all(batcher.is_full for batcher in batchers)
        return all(batcher.is_working for batcher in batchers) and not is_full

    def __getitem__(self, pair: Pair) -> LoadedModel:
        """Return the model of a pair; it answers every request submitted to it, even after a
        reload."""
        return self._models[pair]

    def submit(
        self, model: LoadedModel, sentences: Sequence[str], decoding: DecodingConfig, timeout: float
    ) -> Future[list[Translation]]:
        """Ask for translations by a model; raises as `Batcher.submit`."""
        batcher = self._batchers[model.pair]
        return batcher.submit(model.translate, sentences, decoding, timeout=timeout)

    def reload(self) -> None:
        """Read all files again and use the new models from the next request on.

        Waiting requests are translated by the old models. After an error, the old models stay in
        use, and the log names the error. This may be called in any thread.
        """
        with self._reloading:
            try:
                loaded = self._load_all()
                if loaded.keys() != self._models.keys():
                    raise ValueError(
                        f"the models now translate {_listed(loaded)}, but the service started with "
                        f"{_listed(self._models)}; restart the service"
                    )
            except BaseException as error:  # libraries raise their own types
                reason = describe_error(error)
                logger.error("the models were not reloaded; the old ones stay in use: %s", reason)
                self._metrics.reloads.labels("failure").inc()
            else:
                self._use(loaded)
                logger.info("reloaded %s", self.described)
                self._metrics.reloads.labels("success").inc()

    def _use(self, loaded: dict[Pair, LoadedModel]) -> None:
        self._models = loaded
        for pair, model in loaded.items():
            self._metrics.set_model("-".join(pair), model.name, model.sha256[:SHOWN_DIGITS])

    def close(self) -> None:
        """Answer the waiting requests, and accept no more."""
        for batcher in self._batchers.values():
            batcher.close()

    def _load_all(self) -> dict[Pair, LoadedModel]:
        loaded: dict[Pair, LoadedModel] = {}
        for path in self._config.checkpoint:
            model = self._load(path)
            for pair, translate in {model.pair: model.translate, **model.others}.items():
                if pair in loaded:
                    raise ValueError(
                        f"checkpoint={path} translates {_listed([pair])}, as another checkpoint "
                        "does; give one model for each pair"
                    )
                translate(["a"], self._config.decoding)  # the first call is slow or may fail
                counting = self._metrics.counting("-".join(pair), translate)
                loaded[pair] = model._replace(pair=pair, translate=counting)
        return loaded


def _listed(pairs: Iterable[Pair]) -> str:
    return ", ".join(map("-".join, pairs))
