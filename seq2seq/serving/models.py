"""The models of the service by language pair, each with its batcher, and their reload."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq.inference.batcher import Batcher, Translate
from seq2seq.inference.translation import Translation
from seq2seq.search.config import DecodingConfig
from seq2seq.serving.texts import Split

logger = logging.getLogger(__name__)

Pair = tuple[str, str]
"""Codes of the source and the target language."""


class LoadedModel(NamedTuple):
    """A model that was read from a checkpoint or an exported folder."""

    pair: Pair
    translate: Translate[Translation]
    split: Split
    """Returns the sentences of a line, as the model needs them."""


class ServedModel(NamedTuple):
    """A model that answers requests."""

    split: Split
    batcher: Batcher[Translation]


Load = Callable[[str], LoadedModel]
NewBatcher = Callable[[Translate[Translation], Pair], Batcher[Translation]]


class Models:
    """The models of the service.

    Args:
        paths: A checkpoint or an exported folder for each language pair.
        load: Reads one of them.
        new_batcher: Starts the thread of a model.
        decoding: The search that a new model is tried with before it answers requests.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not a model, or two of them have the same languages.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        load: Load,
        new_batcher: NewBatcher,
        decoding: DecodingConfig,
    ) -> None:
        self._paths = paths
        self._load = load
        self._decoding = decoding
        self._models = {
            pair: ServedModel(model.split, new_batcher(model.translate, pair))
            for pair, model in self._load_all().items()
        }

    @property
    def pairs(self) -> list[Pair]:
        """Return the language pairs, in the order of the paths."""
        return list(self._models)

    @property
    def num_waiting(self) -> int:
        """Return the number of sentences that wait."""
        return sum(model.batcher.num_waiting for model in self._models.values())

    @property
    def are_working(self) -> bool:
        """Return whether all models accept requests."""
        return all(model.batcher.is_working for model in self._models.values())

    def __getitem__(self, pair: Pair) -> ServedModel:
        return self._models[pair]

    def reload(self) -> None:
        """Read all files again and use the new models from the next request on.

        Requests that wait are translated by the model that they came for. After an error all
        models are the old ones.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is not a model, or its languages are others than before.
        """
        loaded = self._load_all()
        if loaded.keys() != self._models.keys():
            raise ValueError(
                f"the models translate {_listed(loaded)} now, but the service began with "
                f"{_listed(self._models)}; restart it"
            )
        reloaded = {}
        for pair, model in loaded.items():
            self._models[pair].batcher.replace(model.translate)
            reloaded[pair] = ServedModel(model.split, self._models[pair].batcher)
        self._models = reloaded

    def close(self) -> None:
        """Answer what waits, and accept no more."""
        for model in self._models.values():
            model.batcher.close()

    def _load_all(self) -> dict[Pair, LoadedModel]:
        loaded: dict[Pair, LoadedModel] = {}
        origins: dict[Pair, str] = {}
        for path in self._paths:
            model = self._load(path)
            if model.pair in loaded:
                raise ValueError(
                    f"checkpoint={path} translates {_listed([model.pair])}, as "
                    f"checkpoint={origins[model.pair]} does; give one model for each pair"
                )
            model.translate(["a"], self._decoding)  # the first translation is slow, or fails
            loaded[model.pair], origins[model.pair] = model, path
        return loaded


def _listed(pairs: object) -> str:
    assert isinstance(pairs, dict | list)
    return ", ".join(f"{source}-{target}" for source, target in pairs)
