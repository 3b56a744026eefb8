"""The configuration of the service, and its models: one for each language pair."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

from prometheus_client import Counter, Info

from seq2seq.checks import Config, Count, FilePath, FilePaths, Name, Positive, Range, Threads
from seq2seq.config.composition import describe_error
from seq2seq.inference.translations import Translation, sentences_of
from seq2seq.runtime.devices import Device, Precision
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig
from seq2seq.serving.batcher import Translate
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

SHOWN_DIGITS = 12
"""Number of hexadecimal digits of a hash in the log and in the metrics."""
_MODELS = Info("seq2seq_model", "Models in use", ["pair"])
_UNKNOWN = Counter("seq2seq_unknown_tokens", "Source tokens that the model does not know", ["pair"])
_LOST = Counter(
    "seq2seq_lost_spans",
    "Numbers, codes, addresses, tags and emoji that a translation lacks",
    ["pair"],
)
_UNFINISHED = Counter(
    "seq2seq_length_limits", "Sentences whose translation was cut at the length limit", ["pair"]
)
Pair = tuple[str, str]
"""Codes of the source and the target language."""


@dataclass(kw_only=True, slots=True, repr=False)
class ServeConfig(Config):
    """The configuration of seq2seq-serve."""

    checkpoint: FilePaths
    """Checkpoint file, run directory or exported folder, one for each language pair."""
    plugins: list[str]
    """Python files that register the attention types in use."""
    host: Name
    """Address to listen on; 0.0.0.0 accepts requests from other machines."""
    port: Annotated[int, Range(0, 65_535)]
    """Port to listen on; 0: any free port, which the log names."""
    device: Device
    """Device to translate on."""
    precision: Precision
    threads: Threads | None
    """Number of CPU threads; None: torch's default or, with an exported folder, one."""
    batch_size: Count
    """Maximum number of lines, and of their sentences, translated together."""
    max_waiting: Count
    """Maximum number of waiting lines; beyond that, the answer is 503. A request with more than a
    quarter of this number gets 413."""
    timeout: Positive
    """Maximum seconds to answer a request; after that, the answer is 504."""
    max_characters: Count
    """Maximum number of characters in a request."""
    api_keys: FilePath | None
    """File of API keys, one on each line; a request must send one of them. None: no key is
    needed."""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        if type(self.decoding) not in (BeamConfig, GreedyConfig):
            raise ValueError(
                f"decoding={self.decoding.name}: the service searches with decoding=beam or greedy"
            )


class Model(NamedTuple):
    """What translates a language pair."""

    translate: Translate[Translation]
    name: str = ""
    """Folder and file of the model, as `FOLDER/FILE`; symbolic links are resolved."""
    sha256: str = ""
    """SHA-256 of its best.pt, or of runtime.json, which has the hashes of the other files."""


Load = Callable[[str], Mapping[Pair, Model]]
"""Function that reads a checkpoint or an exported folder; several pairs may share one."""


class Models:
    """The models of the service, by language pair.

    Args:
        config: The paths of the models, and the search for testing a new model before it answers
            requests.
        load: Reads a model.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not a model, or two of them have the same languages.
    """

    def __init__(self, config: ServeConfig, load: Load) -> None:
        self._config = config
        self._load = load
        self._reloading = threading.Lock()
        self._models: dict[Pair, Model] = {}
        self._use(self._load_all())

    @property
    def pairs(self) -> list[Pair]:
        """Return the language pairs, in the order of the paths."""
        return list(self._models)

    def __getitem__(self, pair: Pair) -> Model:
        """Return the model of a pair; it can be used even after a reload."""
        return self._models[pair]

    def __str__(self) -> str:
        """Return the language pairs, each with the name and the hash of its model."""
        return ", ".join(
            f"{'-'.join(pair)} (model {model.name}, sha256 {model.sha256[:SHOWN_DIGITS]})"
            for pair, model in self._models.items()
        )

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
                        f"the models now translate {listed(loaded)}, but the service started with "
                        f"{listed(self._models)}; restart the service"
                    )
            except BaseException as error:  # libraries raise their own types
                reason = describe_error(error)
                logger.error("the models were not reloaded; the old ones stay in use: %s", reason)
            else:
                self._use(loaded)
                logger.info("reloaded %s", self)

    def _use(self, loaded: dict[Pair, Model]) -> None:
        self._models = loaded
        for pair, model in loaded.items():
            name, digits = "-".join(pair), model.sha256[:SHOWN_DIGITS]
            _MODELS.labels(name).info(
                {"name": model.name, "sha256": digits, "version": __version__}
            )
            for counter in (_UNKNOWN, _LOST, _UNFINISHED):
                counter.labels(name)  # shows 0

    def _load_all(self) -> dict[Pair, Model]:
        loaded: dict[Pair, Model] = {}
        for path in self._config.checkpoint:
            for pair, model in self._load(path).items():
                if pair in loaded:
                    raise ValueError(
                        f"checkpoint={path} translates {listed([pair])}, as another checkpoint "
                        "does; give one model for each pair"
                    )
                model.translate(["a"], self._config.decoding)  # the first call is slow or may fail
                counting = partial(_translate_counting, "-".join(pair), model.translate)
                loaded[pair] = model._replace(translate=counting)
        return loaded


def _translate_counting(
    pair: str, translate: Translate[Translation], lines: list[str], decoding: DecodingConfig
) -> Sequence[Translation]:
    """Translate lines, and count what is a problem of the input or the model."""
    translations = translate(lines, decoding)
    sentences = sentences_of(translations)
    _UNKNOWN.labels(pair).inc(sum(each.num_unknown_tokens for each in sentences))
    _LOST.labels(pair).inc(sum(len(each.lost_spans) for each in sentences))
    _UNFINISHED.labels(pair).inc(sum(not each.best.finished for each in sentences))
    return translations


def listed(pairs: Iterable[Pair]) -> str:
    """Return language pairs in words, such as `de-en, en-de`."""
    return ", ".join(map("-".join, pairs))
