"""Parallel text of a Hugging Face data set: `data=huggingface`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets import load_dataset, load_from_disk

from seq2seq import Corpora, Corpus, DataConfig, Pair, register_data


@dataclass(kw_only=True, slots=True, repr=False)
class HuggingFaceConfig(DataConfig):
    """A folder that `save_to_disk` wrote, or a data set by name."""

    name: str = "huggingface"
    path: str
    """The folder, or the name, such as `Helsinki-NLP/opus_books`."""
    subset: str | None = None
    """The subset of a data set by name, such as `de-en`."""
    train: str = "train"
    """The split to train on."""
    valid: str = "validation"
    """The split that chooses the best checkpoint."""
    test: str | None = None
    """The test split; null: no test set."""
    columns: list[str] | None = None
    """The columns of source and target; null: the dictionary `translation` under the languages."""


@register_data(HuggingFaceConfig)
def load_huggingface(config: HuggingFaceConfig) -> Corpora:
    """Open the splits of the data set as corpora."""
    return Corpora(
        train=_open(config, "train", config.train),
        valid=_open(config, "valid", config.valid),
        test=_open(config, "test", config.test) if config.test else None,
    )


def _open(config: HuggingFaceConfig, name: str, split: str) -> Corpus:
    try:
        if Path(config.path).is_dir():
            rows = load_from_disk(config.path)[split]
        else:
            rows = load_dataset(config.path, config.subset, split=split)
    except KeyError as error:
        raise ValueError(f"data.path={config.path}: there is no split {error}") from error
    source, target = config.columns or (config.source, config.target)

    def lines() -> Iterator[Pair | None]:
        for row in rows:
            texts = row if config.columns else row.get("translation", {})
            if source not in texts or target not in texts:
                raise ValueError(f"data.path={config.path}: no {source} and {target} in {row}")
            pair = Pair(texts[source] or "", texts[target] or "")
            yield pair if pair.source.strip() and pair.target.strip() else None  # skipped

    fingerprint = f"{rows._fingerprint} {source} {target}"
    return Corpus(name=name, num_lines=len(rows), fingerprint=fingerprint, lines=lines)
