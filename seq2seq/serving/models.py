"""The models of the service by language pair, each with its batcher, and their reload."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from seq2seq.config.composition import describe_error
from seq2seq.inference.translations import Translation
from seq2seq.search.config import DecodingConfig
from seq2seq.serving.batcher import Batcher, Translate
from seq2seq.serving.config import ServeConfig
from seq2seq.serving.metrics import Metrics
from seq2seq.serving.texts import Split

logger = logging.getLogger(__name__)

SHOWN_DIGITS = 12
"""Number of hexadecimal digits of a hash in the log and in the metrics."""
Pair = tuple[str, str]
"""Codes of the source and the target language."""


class LoadedModel(NamedTuple):
    """A model that was read from a checkpoint or an exported folder."""

    pair: Pair
    translate: Translate[Translation]
    split: Split
    """Function that returns the sentences of a line, as the model needs them."""
    others: Mapping[Pair, Translate[Translation]] = MappingProxyType({})
    """Functions that translate further pairs, of a model for several languages."""
    name: str = ""
    """Name of its folder, in which links are followed, and of its file."""
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
            pair: Batcher(
                model.translate,
                batch_size=config.batch_size,
                max_waiting=config.max_waiting,
                on_batch=partial(metrics.count_batch, "-".join(pair)),
            )
            for pair, model in self._models.items()
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
        """Return whether all models work, and one at least has room for a request."""
        batchers = self._batchers.values()
        is_full = all(batcher.is_full for batcher in batchers)
        return all(batcher.is_working for batcher in batchers) and not is_full

    def __getitem__(self, pair: Pair) -> LoadedModel:
        """Return the model of a pair; what is submitted to it is its own after a reload too."""
        return self._models[pair]

    def submit(
        self, model: LoadedModel, sentences: Sequence[str], decoding: DecodingConfig, timeout: float
    ) -> Future[list[Translation]]:
        """Ask for translations by a model; raises as `Batcher.submit`."""
        batcher = self._batchers[model.pair]
        return batcher.submit(sentences, decoding, timeout=timeout, translate=model.translate)

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
                        f"{_listed(self._models)}; restart it"
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
        """Answer what waits, and accept no more."""
        for batcher in self._batchers.values():
            batcher.close()

    def _load_all(self) -> dict[Pair, LoadedModel]:
        loaded: dict[Pair, LoadedModel] = {}
        for path in self._config.checkpoint:
            model = self._load(path)
            for pair, translate in {model.pair: model.translate, **model.others}.items():
                if pair in loaded:
                    raise ValueError(
                        f"checkpoint={path} translates {_listed([pair])}, as another one does; "
                        "give one model for each pair"
                    )
                translate(["a"], self._config.decoding)  # the first call is slow or may fail
                counted = partial(self._translate, "-".join(pair), translate)
                loaded[pair] = model._replace(pair=pair, translate=counted)
        return loaded

    def _translate(
        self,
        pair: str,
        translate: Translate[Translation],
        lines: list[str],
        decoding: DecodingConfig,
    ) -> Sequence[Translation]:
        found = translate(lines, decoding)
        self._metrics.count_translations(pair, found)
        return found


def _listed(pairs: Iterable[Pair]) -> str:
    return ", ".join(map("-".join, pairs))
