"""From a checkpoint to translations: sentences in, sentences out, in their order."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from seq2seq.checkpoints.checkpoint_group import load_checkpoints
from seq2seq.data.tokenizers.base import TokenizerPair
from seq2seq.evaluation.alignment import Links
from seq2seq.inference.batches import BatchTranslator
from seq2seq.inference.ensemble import Ensemble, join_models
from seq2seq.inference.lexical_constraints import Forbidden, Prefixes
from seq2seq.inference.quantization import quantize
from seq2seq.inference.streaming import ignore, windows
from seq2seq.inference.translation import TranslatedHypothesis, Translation, word_links
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.numerics import Device, Numerics, Precision, choose_numerics
from seq2seq.search import DecodingConfig

logger = logging.getLogger(__name__)


def _always() -> bool:
    return True


class Translator:
    """Translates with a model and its tokenizers."""

    def __init__(
        self,
        model: Seq2Seq | Ensemble,
        *,
        tokenizers: TokenizerPair,
        numerics: Numerics,
        decoding: DecodingConfig,
    ) -> None:
        self._model = model.to(numerics.device).eval()
        self._batches = BatchTranslator(self._model, tokenizers=tokenizers, numerics=numerics)
        self.decoding = decoding
        """the search that the model was scored with"""
        self.tokenizers = tokenizers

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: Device | str = Device.auto,
        precision: Precision | str = Precision.fp32,
    ) -> "Translator":
        """Read a checkpoint, which is all that is needed; a directory means its best.pt.

        Several are an ensemble, whose probabilities are averaged; how it searches unless told
        otherwise is a matter of the first.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no checkpoint, several have different tokenizers, or the device or
                precision is not to be had.
        """
        numerics = choose_numerics(Device(device), Precision(precision))
        paths = [path] if isinstance(path, str | Path) else path
        checkpoints = load_checkpoints(paths)
        model = join_models([checkpoint.build_model() for checkpoint in checkpoints])
        if numerics.precision is Precision.int8:
            quantize(model)
        return cls(
            model,
            tokenizers=checkpoints[0].tokenizers,
            numerics=numerics,
            decoding=checkpoints[0].config.decoding,
        )

    @property
    def num_heads(self) -> int:
        """Return how many attention heads there are; without any there are no links."""
        return self._model.attention.num_heads

    def __call__(
        self,
        sentences: Sequence[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
    ) -> list[Translation]:
        """Translate a list of sentences; each translation has its text, scores and attention.

        Raises:
            TypeError: what is given is no list of strings.
        """
        # An iterator is used up by looking at it.
        lines = [] if isinstance(sentences, str) else list(sentences)
        if isinstance(sentences, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError(
                f"sentences={sentences!r} must be a list of strings; write translator([sentence])"
            )
        return list(self.translate(lines, decoding, batch_size=batch_size))

    def translate(
        self,
        lines: Iterable[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        has_more: Callable[[], bool] = _always,
        forbidden: Sequence[str] = (),
        observe: Callable[[Translation], None] = ignore,
    ) -> Iterator[Translation]:
        """Translate lines as they come, each to one translation, in their order.

        A window of lines is read, sorted by length and translated in batches; what stands next
        in order is yielded after each batch. A line without text is not given to the model.

        Args:
            lines: of any number; no more than a window of them is held.
            decoding: The search; None for the one that the model was scored with.
            batch_size: sentences translated at once.
            has_more: says whether another line can be had without waiting; where not, the
                window ends and is translated.
            forbidden: phrases that no translation is to hold; what that means says `Forbidden`.
            observe: takes each translation as soon as there is one, before its turn has come.
        """
        return self.complete(
            ((line, "") for line in lines),
            decoding,
            batch_size=batch_size,
            has_more=has_more,
            forbidden=forbidden,
            observe=observe,
        )

    def complete(
        self,
        pairs: Iterable[tuple[str, str]],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        has_more: Callable[[], bool] = _always,
        forbidden: Sequence[str] = (),
        observe: Callable[[Translation], None] = ignore,
    ) -> Iterator[Translation]:
        """Do what `translate` does for pairs of a line and what its translation begins with.

        A beginning without text leaves the translation free; any other ends where a word does.
        """
        decoding = decoding or self.decoding
        prefixes = Prefixes(self.tokenizers.target, decoding)
        phrases = Forbidden(forbidden, self.tokenizers.target)
        num_lines = num_cut = 0
        for window in windows(pairs, batch_size=batch_size, has_more=has_more):
            for translation in self._batches.complete(
                window,
                decoding,
                prefixes=prefixes,
                forbidden=phrases.id_rows,
                batch_size=batch_size,
                observe=observe,
            ):
                phrases.watch(translation)
                num_lines += 1
                num_cut += not translation.hypotheses[0].finished
                yield translation
            del window  # else two would be held while the next one is read
        prefixes.report()
        phrases.report()
        if num_cut:
            logger.warning(
                "%d of %d translations reached the length limit before their end; raise "
                "decoding.max_length_ratio=%s or decoding.max_length_offset=%s to let them go on",
                num_cut,
                num_lines,
                decoding.max_length_ratio,
                decoding.max_length_offset,
            )

    def force(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = 64,
        has_more: Callable[[], bool] = _always,
        observe: Callable[[Translation], None] = ignore,
    ) -> Iterator[Translation]:
        """Read references as if they had been found: how probable they are, what is attended to.

        Each pair of a line and its reference gets a translation whose one hypothesis is the
        reference, whatever its length, in their order and as `translate` does with its lines. A
        pair without text on either side is not given to the model; text on one side only is read
        against an end of sentence alone.
        """
        num_pairs = num_halves = 0
        for window in windows(pairs, batch_size=batch_size, has_more=has_more):
            for translation in self._batches.force(window, batch_size=batch_size, observe=observe):
                num_pairs += 1
                num_halves += bool(translation.source_ids) != bool(translation.hypotheses[0].ids)
                yield translation
            del window
        if num_halves:
            logger.warning(
                "%d of %d pairs have text on one side only, and so no links; check that the "
                "lines of input and reference belong together",
                num_halves,
                num_pairs,
            )

    def num_tokens(self, line: str) -> int:
        """Return how many tokens the model would read of a line."""
        return len(self.tokenizers.source.encode([line])[0])

    def links(self, translation: Translation, hypothesis: TranslatedHypothesis) -> Links:
        """Link each word of a hypothesis to the source word that attention prefers.

        Raises:
            ValueError: the model has no attention heads.
        """
        return word_links(translation, hypothesis, tokenizers=self.tokenizers)
