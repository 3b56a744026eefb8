"""Translate sentences with a trained model, or score known translations."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from seq2seq.checkpoints.checkpoint import load_checkpoints
from seq2seq.data.files.tags import required_tags
from seq2seq.data.tokenizers.base import TokenizerPair
from seq2seq.evaluation.alignment import Links
from seq2seq.files.lines import parallel
from seq2seq.inference.batches import BatchTranslator, OnTranslation, Window
from seq2seq.inference.ensemble import Ensemble, join_models
from seq2seq.inference.lexical_constraints import BannedPhrases, PrefixEncoder
from seq2seq.inference.quantization import quantize
from seq2seq.inference.stream_counts import PairCounts, SearchCounts
from seq2seq.inference.streaming import cut_windows, ignore
from seq2seq.inference.translation import TranslatedHypothesis, Translation, hypothesis_links
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.numerics import Device, Numerics, Precision, choose_numerics
from seq2seq.search import DecodingConfig, GreedyConfig


class Translator:
    """Translates with a model and its tokenizers.

    On a CPU in fp32 and int8 neither the other sentences nor the batch size change the text of a
    translation; the last digits of its scores may differ.

    Args:
        model: A model, or several as an `Ensemble`. It is put into evaluation mode, moved to the
            device and, for int8, quantized.
        tokenizers: Source and target tokenizer of the model.
        numerics: Device and precision; None means fp32 on a GPU if there is one, else on the CPU.
        decoding: Default configuration of the search; None means greedy search.
        tags: The symbols of which every source of the training text began with one; lines without
            one are counted in a warning.

    Example:
        >>> from seq2seq import build_model, load_config
        >>> from seq2seq.data import CharacterTokenizer, TokenizerPair
        >>> model = build_model(load_config(), source_vocabulary_size=7, target_vocabulary_size=7)
        >>> tokenizers = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("xyz"))
        >>> Translator(model, tokenizers=tokenizers)(["abc"])[0].source_tokens
        ['a', 'b', 'c', '</s>']
    """

    def __init__(
        self,
        model: Seq2Seq | Ensemble,
        *,
        tokenizers: TokenizerPair,
        numerics: Numerics | None = None,
        decoding: DecodingConfig | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        numerics = numerics or choose_numerics(Device.auto, Precision.fp32)
        self.tokenizers = tokenizers
        self.decoding = decoding or GreedyConfig()
        self._tags = tags
        if numerics.precision is Precision.int8:
            quantize(model)
        self._model = model.to(numerics.device).eval()
        self._batches = BatchTranslator(self._model, tokenizers=tokenizers, numerics=numerics)

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: Device | str = Device.auto,
        precision: Precision | str = Precision.fp32,
    ) -> "Translator":
        """Load a translator from a checkpoint, or an ensemble from several.

        Args:
            path: A file, or a directory that contains best.pt. An ensemble averages the
                probabilities of its members and uses the search of the first by default.
            device: Device to run on.
            precision: Type of matrix products; int8 quantizes the model, on a CPU only.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: A file is not a checkpoint, the members of an ensemble have different
                tokenizers, or the device or the precision is not available.
        """
        numerics = choose_numerics(Device(device), Precision(precision))
        checkpoints = load_checkpoints([path] if isinstance(path, str | Path) else path)
        model = join_models([checkpoint.build_model() for checkpoint in checkpoints])
        first = checkpoints[0]
        return cls(
            model,
            tokenizers=first.tokenizers,
            numerics=numerics,
            decoding=first.config.decoding,
            tags=required_tags(first.config.data),
        )

    @property
    def num_heads(self) -> int:
        """Return the number of attention heads of the model, or of all members together."""
        return self._model.attention.num_heads

    def __call__(
        self,
        sentences: Sequence[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
    ) -> list[Translation]:
        """Translate a list of sentences as `translate` does; raise TypeError for anything else."""
        lines = list(sentences)  # An iterator can be read only once.
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
        prefixes: Iterable[str] | None = None,
        banned_phrases: Sequence[str] = (),
        on_translation: OnTranslation = ignore,
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order.

        Lines of whitespace get an empty translation.

        Args:
            lines: Any number of lines, of which 64 batches are read and sorted by length at once.
            decoding: Configuration of the search; None uses that of the checkpoint.
            batch_size: Sentences translated together.
            prefixes: For each line the text that its translation begins with, which must end
                where a word ends; an empty prefix leaves the translation free.
            banned_phrases: Phrases that no translation may contain; see `BannedPhrases`.
            on_translation: Called with each translation as soon as it is known, in any order.

        Raises:
            ValueError: A prefix is too long, a phrase is empty, the numbers of lines and
                prefixes differ, or the model gives probabilities that are not numbers.
        """
        if isinstance(lines, str):
            raise TypeError(f"lines={lines!r} must be several lines; write translate([line])")
        free = ((line, "") for line in lines)
        names = ("lines", "prefixes")
        pairs = free if prefixes is None else parallel(lines, prefixes, names=names)
        return self.translate_windows(
            cut_windows(pairs, batch_size),
            decoding,
            batch_size=batch_size,
            banned_phrases=banned_phrases,
            on_translation=on_translation,
        )

    def translate_windows(
        self,
        windows: Iterable[Window],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        banned_phrases: Sequence[str] = (),
        on_translation: OnTranslation = ignore,
    ) -> Iterator[Translation]:
        """Translate as `translate` does, each window before the next one is read.

        Args:
            windows: Lists of pairs of a line and its prefix, such as the lines of a pipe that
                have arrived so far.
            decoding: As of `translate`, like the other arguments.
        """
        decoding = decoding or self.decoding
        prefixes = PrefixEncoder(self.tokenizers.target, decoding)
        banned = BannedPhrases(banned_phrases, self.tokenizers.target)
        counts = SearchCounts(self._tags, decoding)
        for window in windows:
            for translation in self._batches.translate(
                window,
                decoding,
                prefixes=prefixes,
                banned=banned.id_rows,
                batch_size=batch_size,
                on_translation=on_translation,
            ):
                banned.check(translation)
                counts.add(translation)
                yield translation
            del window  # Otherwise two windows are held while the next one is read.
        prefixes.report()
        banned.report()
        counts.report()

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = 64,
        on_translation: OnTranslation = ignore,
    ) -> Iterator[Translation]:
        """Yield each pair's target as the only translation of its source, teacher-forced.

        The score of such a translation is its log-probability; there is no length limit. A pair
        without text on one side is scored too, a pair without any text has probability 1.

        Args:
            pairs: Any number of pairs of a source and a target line.
            batch_size: Pairs scored together.
            on_translation: Called with each translation as soon as it is known, in any order.
        """
        return self.score_windows(
            cut_windows(pairs, batch_size), batch_size=batch_size, on_translation=on_translation
        )

    def score_windows(
        self,
        windows: Iterable[Window],
        *,
        batch_size: int = 64,
        on_translation: OnTranslation = ignore,
    ) -> Iterator[Translation]:
        """Score as `score` does, each window before the next one is read."""
        counts = PairCounts(self._tags)
        for window in windows:
            for translation in self._batches.score(
                window, batch_size=batch_size, on_translation=on_translation
            ):
                counts.add(translation)
                yield translation
            del window
        counts.report()

    def num_tokens(self, line: str) -> int:
        """Return the number of tokens of a source line."""
        return len(self.tokenizers.source.encode([line])[0])

    def links(self, translation: Translation, hypothesis: TranslatedHypothesis) -> Links:
        """Link each word of a hypothesis to the source word with the most attention.

        Returns:
            Pairs of a source word and a target word, both counted from 0.

        Raises:
            ValueError: The model has no attention heads.
        """
        return hypothesis_links(translation, hypothesis, tokenizers=self.tokenizers)
