"""A trained run: its configuration, results, sentences and model."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from seq2seq.analysis.corpus_attention import CorpusAttention, attend
from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import load_saved_config
from seq2seq.evaluation.alignment import GoldLinks, read_links
from seq2seq.files.paths import expand_home
from seq2seq.files.text import read_lines
from seq2seq.inference.translator import Translator
from seq2seq.runtime.numerics import Device

Target = Literal["reference", "translation"]


@dataclass(kw_only=True, slots=True)
class ScoredPair:
    """A sentence of the validation or test set."""

    source: str
    translation: str
    """Of the best checkpoint, found by the run's own search."""
    reference: str
    gold: GoldLinks | None
    """Gold links between the words of source and reference; None if the corpus has none."""


class Run:
    """A finished run.

    Attributes:
        path: The run directory.
        config: The configuration.
        results: The content of results.json.
    """

    def __init__(self, path: Path, *, device: Device | str = Device.auto) -> None:
        """Read a run directory; raises as `load_run`."""
        self.path = path
        self.config: TrainConfig = load_saved_config(path / "config.yaml")
        self.results: dict[str, object] = _read_results(path / "results.json")
        self._device = device

    @cached_property
    def translator(self) -> Translator:
        """The best checkpoint, loaded at first use."""
        return Translator.load(self.path, device=self._device)

    def pairs(self, split: str = "test") -> list[ScoredPair]:
        """Return the sentences of a validation set or the test set, in the order of the corpus.

        Args:
            split: `test`; `valid`, the first validation set; or `valid.NAME`, a further one.

        Raises:
            FileNotFoundError: The run has no such set.
            ValueError: The files have different numbers of lines.
        """
        if not self._path(split, "src").is_file():
            known = sorted(path.stem for path in self.path.glob("*.src"))
            raise FileNotFoundError(
                f"{self.path} has no {split}.src; its sets are {', '.join(known)}"
            )
        source, translation, reference = (
            read_lines(self._path(split, kind)) for kind in ("src", "hyp", "ref")
        )
        gold: list[GoldLinks | None] = [None] * len(source)
        path = self._path(split, "gold")
        if path.exists():
            gold = list(read_links(str(path)))
        if len({len(each) for each in (source, translation, reference, gold)}) > 1:
            raise ValueError(
                f"{self._path(split, '*')} have different numbers of lines; train the run again"
            )
        columns = zip(source, translation, reference, gold, strict=True)
        return [ScoredPair(source=a, translation=b, reference=c, gold=d) for a, b, c, d in columns]

    def attention(self, split: str = "test", *, target: Target = "reference") -> CorpusAttention:
        """Compute the attention over a validation set or the test set.

        Args:
            split: The set; see `pairs`.
            target: The text that the decoder reads: the references, as for results.json, or the
                translations of the model.

        Raises:
            FileNotFoundError: The run has no such set.
            ValueError: The target is unknown.
        """
        if target not in get_args(Target):
            raise ValueError(f"target={target} is unknown; choose {' or '.join(get_args(Target))}")
        pairs = self.pairs(split)
        return attend(self.translator, [(pair.source, getattr(pair, target)) for pair in pairs])

    def gold(self, split: str = "test") -> list[GoldLinks]:
        """Return the gold links of a set; see `pairs`.

        Raises:
            ValueError: The corpus has none.
        """
        found = [pair.gold for pair in self.pairs(split) if pair.gold is not None]
        if not found:
            raise ValueError(f"{self.path} has no gold links of its {split} set")
        return found

    def _path(self, split: str, kind: str) -> Path:
        return self.path / f"{split}.{kind}"


def _read_results(path: Path) -> dict[str, object]:
    try:
        results: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); train the run again") from error
    return results


def load_run(path: str | Path, *, device: Device | str = Device.auto) -> Run:
    """Load a finished run for analysis; its model is loaded at first use.

    Args:
        path: A run directory, such as `checkpoints/grammar-additive`.
        device: Device to run on.

    Raises:
        FileNotFoundError: The directory has no finished run.
        ValueError: A file is damaged, or the configuration cannot be read, for example because it
            names an attention type of a plug-in; see `seq2seq.load_plugins`.
    """
    directory = expand_home(path, key="run")
    for name in ("config.yaml", "results.json"):
        if not (directory / name).is_file():
            raise FileNotFoundError(
                f"run={path} has no {name}; give the directory of a single run that has ended"
            )
    return Run(directory, device=device)
