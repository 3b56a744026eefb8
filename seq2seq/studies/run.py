"""A trained run: its configuration, results, sentences, model, and attention over a corpus."""

# N heads, T target length, S source length

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import load_saved_config
from seq2seq.data.tokenizers.tags import required_tags
from seq2seq.evaluation.measures import (
    Statistics,
    alignment_error_rate,
    head_scores,
    measure,
    total_scores,
)
from seq2seq.evaluation.metrics import ScoringRule
from seq2seq.files.links import GoldLinks, Links, check_links, read_links
from seq2seq.files.paths import expand_home
from seq2seq.inference import tally
from seq2seq.inference.checkpoint import load_checkpoints
from seq2seq.inference.scoring import attention_links, read_sentences
from seq2seq.inference.translations import TranslatedSentence, sentences_of
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import choose_numerics
from seq2seq.studies.attribution import Attribution, attribute
from seq2seq.studies.interventions import (
    ChangedAttention,
    Intervention,
    changed_words,
    find_intervention,
)
from seq2seq.text.rules import split_words
from seq2seq.training.run_directory import RunDirectory
from seq2seq.visualization.plots import head_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Target = Literal["reference", "translation"]


class ScoredPair(NamedTuple):
    """A sentence of the validation or test set."""

    source: str
    translation: str
    """Translation by the best checkpoint with the run's own search."""
    reference: str
    gold: GoldLinks | None
    """Gold links between the words of source and reference; None if there are none."""


class Intervened(NamedTuple):
    """The results of a model with changed attention weights, and what the change costs."""

    translations: list[TranslatedSentence]
    """Translations of the sources by the model's own search."""
    references: list[TranslatedSentence]
    """References as known translations, with log-probabilities and attention weights."""
    statistics: Statistics
    """Statistics of each sentence: `bleu`, `loss` and `perplexity`."""
    bleu: float
    """BLEU of the translations."""
    bleu_lost: float
    """BLEU of the unchanged model minus `bleu`."""
    perplexity: float
    """Perplexity of the references."""
    perplexity_factor: float
    """`perplexity` divided by the perplexity of the unchanged model."""
    changed_words: float
    """Share of the words that differ from the translations of the unchanged model."""


@contextmanager
def without_warnings() -> Iterator[None]:
    """Translate without the warnings about input and translations.

    Their advice does not fit a set that was translated before, or a model that was changed.
    """
    tally.logger.disabled = True
    try:
        yield
    finally:
        tally.logger.disabled = False


class Run:
    """A finished run.

    Attributes:
        path: The run directory.
        config: The configuration.
        results: The content of results.json.
    """

    def __init__(self, path: Path, *, device: Device | str = Device.auto) -> None:
        """Read a run directory; raises the errors of `load_run`."""
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
            split: `test`; `valid`, the first validation set; or `valid.NAME`, a further set.

        Raises:
            FileNotFoundError: The run has no such set.
            ValueError: The files have different numbers of lines, or a gold link lies outside its
                pair.
        """
        directory = self._directory
        path = directory.text(split, "gold")
        kinds = ("src", "hyp", "ref", *(["gold"] if path.exists() else []))
        texts = directory.read_texts(split, kinds)
        gold = read_links(str(path)) if path.exists() else [None] * len(texts[0])
        pairs = list(map(ScoredPair, *texts[:3], gold))
        for number, pair in enumerate(pairs, start=1):
            if pair.gold is not None:
                num_words = len(split_words(pair.source)), len(split_words(pair.reference))
                check_links(pair.gold, *num_words, where=f"{path}:{number}")
        return pairs

    def attention(self, split: str = "test", *, target: Target = "reference") -> "CorpusAttention":
        """Compute the attention over a validation set or the test set.

        Args:
            split: The set; see `pairs`.
            target: The text that the decoder reads: the references, as for results.json, or the
                translations of the model.

        Raises:
            FileNotFoundError: The run has no such set.
            ValueError: The target is unknown.
        """
        return attend(self.translator, self._read_by_decoder(split, target))

    def attributions(
        self, split: str = "test", *, target: Target = "reference"
    ) -> list[Attribution]:
        """Measure by three methods how much the target words depend on the source words.

        Args:
            split: The set; see `pairs`.
            target: As in `attention`.

        Returns:
            For each pair the matrices of `attention`, `erasure` and `gradient`, and the
            correlations `tau_erasure`, `tau_gradient` and `tau_methods`.

        Raises:
            FileNotFoundError: The run has no such set.
            ValueError: The target is unknown.
        """
        return attribute(self.path, self._read_by_decoder(split, target), device=self._device)

    def _read_by_decoder(self, split: str, target: Target) -> list[tuple[str, str]]:
        """Return the source and the chosen target of each pair."""
        if target not in get_args(Target):
            raise ValueError(f"target={target} is unknown; choose {' or '.join(get_args(Target))}")
        return [(pair.source, getattr(pair, target)) for pair in self.pairs(split)]

    def intervene(self, intervention: Intervention | str, *, split: str = "test") -> Intervened:
        """Translate and score a set with changed attention weights; the model itself stays
        unchanged.

        Args:
            intervention: `uniform`, `permuted`, `strongest`, `without_end`, `frozen`,
                `drop_head:N` with heads counted from 1, or one of your own.
            split: The set; see `pairs`.

        Raises:
            FileNotFoundError: The run has no such set.
            ValueError: The intervention is unknown or does not fit the model.
        """
        if not isinstance(intervention, Intervention):
            intervention = find_intervention(str(intervention))
        pairs = self.pairs(split)
        [checkpoint] = load_checkpoints([self.path])
        model = checkpoint.build_model()
        model.replace_attention(ChangedAttention(model.attention, intervention))
        device, precision = Device(self._device), Precision(str(self.results["precision"]))
        on_cpu = choose_numerics(device, Precision.fp32).device.type == "cpu"
        if on_cpu and precision is not Precision.bf16:
            precision = Precision.fp32  # a CPU has neither tf32 nor fp16
        changed = Translator(
            model,
            tokenizers=checkpoint.tokenizers,
            numerics=choose_numerics(device, precision),
            decoding=checkpoint.config.decoding,
            tags=required_tags(checkpoint.config.data),
        )
        with without_warnings():
            sources = [pair.source for pair in pairs]
            translations = sentences_of(changed(sources, split="never"))
            references = sentences_of(changed.score((p.source, p.reference) for p in pairs))
        read = read_sentences(references, tokenizers=checkpoint.tokenizers)
        read.translations = [each.text for each in translations]
        read.rule = ScoringRule.of_signature(self.results["valid"]["signature"])  # type: ignore[index]
        statistics = measure(read, ("bleu", "loss", "perplexity"))
        known = self._directory.read_statistics(split)
        before = total_scores({name: known[name] for name in statistics})
        after = total_scores(statistics)
        return Intervened(
            translations,
            references,
            statistics,
            after["bleu"],
            before["bleu"] - after["bleu"],
            after["perplexity"],
            after["perplexity"] / before["perplexity"],
            changed_words([pair.translation for pair in pairs], read.translations),
        )

    def gold(self, split: str = "test") -> list[GoldLinks]:
        """Return the gold links of a set, an empty list if it has none; see `pairs`."""
        return [pair.gold for pair in self.pairs(split) if pair.gold is not None]


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
    return Run(expand_home(path, key="run"), device=device)


@dataclass(kw_only=True, slots=True)
class CorpusAttention:
    """Attention weights over a corpus; every list has one item for each sentence pair."""

    translator: Translator
    translations: list[TranslatedSentence]
    """The sources with their known translations."""

    @property
    def weights(self) -> list[NDArray[np.float32]]:
        """Attention weights, (N, T, S) each; T and S include the end of the sentence."""
        return [each.best.attention_weights.numpy() for each in self.translations]

    @property
    def source_tokens(self) -> list[list[str]]:
        """Labels of the S columns of each sentence."""
        return [each.source_tokens for each in self.translations]

    @property
    def target_tokens(self) -> list[list[str]]:
        """Labels of the T rows of each sentence."""
        return [each.best.tokens for each in self.translations]

    def statistics(self, gold: Sequence[GoldLinks] | None = None) -> list[dict[str, float]]:
        """Return the measures of each head over the corpus: `entropy`, `coverage` and so on.

        Args:
            gold: Gold links of each pair, for `aer`, the alignment error rate of each head.

        Raises:
            ValueError: The numbers of gold alignments and pairs differ.
        """
        tokenizers = self.translator.tokenizers
        return head_scores(
            measure(read_sentences(self.translations, tokenizers=tokenizers, gold=gold))
        )

    def links(self, *, head: int | None = None) -> list[Links]:
        """Link each target word to its most attended source word, both counted from 0.

        Args:
            head: The head, counted from 1; None averages the heads.

        Raises:
            ValueError: The model has no attention heads, or no such head.
        """
        num_heads = self.translator.num_heads
        if head is not None and num_heads > 0 and not 1 <= head <= num_heads:
            raise ValueError(f"head={head} must be from 1 to {num_heads}; numbering starts at 1")
        tokenizers = self.translator.tokenizers
        return [
            list(attention_links(each, each.best, tokenizers=tokenizers))[head or 0]
            for each in self.translations
        ]

    def alignment_error_rate(
        self, gold: Sequence[GoldLinks] | Sequence[Links], *, head: int | None = None
    ) -> float:
        """Return the alignment error rate of `links`; 0 is perfect.

        Args:
            gold: Gold links of each pair, or the `links` of another seed.
            head: As in `links`.

        Raises:
            ValueError: The numbers of gold alignments and pairs differ, or the model has no
                attention heads.
        """
        return alignment_error_rate(self.links(head=head), gold)

    def figure(self, index: int) -> "Figure":
        """Draw the attention of one pair, a panel for each head.

        Raises:
            ValueError: The model has no attention heads.
        """
        return self.translations[index].figure()

    def head_figure(self, gold: Sequence[GoldLinks] | None = None) -> "Figure":
        """Draw the `statistics` of all heads side by side."""
        return head_figure(self.statistics(gold))


def attend(
    translator: Translator, pairs: Iterable[tuple[str, str]], *, batch_size: int = 64
) -> CorpusAttention:
    """Compute the attention weights of known translations, teacher-forced.

    Args:
        translator: Model and tokenizers.
        pairs: Sources and their translations: references, or the translations of any system.
        batch_size: Pairs processed together.

    Example:
        >>> from seq2seq import build_model, load_config
        >>> from seq2seq.data.tokenizers.interface import TokenizerPair
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
        >>> model = build_model(load_config(), source_vocabulary_size=7, target_vocabulary_size=7)
        >>> tokenizers = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("xyz"))
        >>> translator = Translator(model, tokenizers=tokenizers)
        >>> attention = attend(translator, [("abc", "xy"), ("ab", "xyz")])
        >>> [weights.shape for weights in attention.weights]
        [(1, 3, 4), (1, 4, 3)]
        >>> attention.source_tokens[1], attention.target_tokens[1]
        (['a', 'b', '</s>'], ['x', 'y', 'z', '</s>'])
        >>> [head] = attention.statistics()
        >>> 0 < head["entropy"] < 1.4, attention.weights[0].sum(axis=-1).round(3).tolist()
        (True, [[1.0, 1.0, 1.0]])
    """
    return CorpusAttention(
        translator=translator,
        translations=sentences_of(translator.score(pairs, batch_size=batch_size)),
    )
