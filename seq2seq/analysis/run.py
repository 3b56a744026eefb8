"""A trained run: its configuration, results, sentences and model."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from seq2seq.analysis.corpus_attention import CorpusAttention, attend
from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import load_saved_config
from seq2seq.evaluation.alignment import GoldLinks, check_links, read_links
from seq2seq.files.paths import expand_home
from seq2seq.inference.translator import Translator
from seq2seq.runtime.numerics import Device
from seq2seq.training.run_directory import RunDirectory

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
        self._directory = RunDirectory(path)
        self.config: TrainConfig = load_saved_config(self._directory.config)
        self.results: dict[str, object] = self._directory.read_results()
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
            ValueError: The files have different numbers of lines, or a gold link lies outside its
                pair.
        """
        directory = self._directory
        if not directory.text(split, "src").is_file():
            known = sorted(path.stem for path in self.path.glob("*.src"))
            raise FileNotFoundError(
                f"{self.path} has no {split}.src; its sets are {', '.join(known)}"
            )
        path = directory.text(split, "gold")
        kinds = ("src", "hyp", "ref", *(["gold"] if path.exists() else []))
        texts = directory.read_texts(split, kinds)
        gold = read_links(str(path)) if path.exists() else [None] * len(texts[0])
        pairs = [
            ScoredPair(source=source, translation=translation, reference=reference, gold=links)
            for source, translation, reference, links in zip(*texts[:3], gold, strict=True)
        ]
        for number, pair in enumerate(pairs, start=1):
            if pair.gold is not None:
                words = len(pair.source.split()), len(pair.reference.split())
                check_links(pair.gold, *words, where=f"{path}:{number}")
        return pairs

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
    directory = RunDirectory(expand_home(path, key="run"))
    for file in (directory.config, directory.results):
        if not file.is_file():
            raise FileNotFoundError(
                f"run={path} has no {file.name}; give the directory of a single run that has ended"
            )
    return Run(directory.path, device=device)
