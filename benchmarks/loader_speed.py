"""Measure the loader of training batches alone, with each pair once an epoch and with a mixture.

    python benchmarks/loader_speed.py data=multi30k data.root=DIR

The mixture takes the pairs of one half of the corpus three times as often as those of the other.
Both ways are measured in turn, --repeats times: the rows of an epoch are drawn, ordered and padded
in batches. Arguments with "=" are those of train.py.
"""

import argparse
import statistics
import time

from seq2seq.config.schema import load_config
from seq2seq.data.batching import Batches, collate, mix
from seq2seq.data.cache import cached_tokenizers, encode_corpus
from seq2seq.data.corpus import load_corpora


def main() -> None:
    """Print the median processor seconds of an epoch each way, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--repeats", type=int, default=15, help="epochs of each kind (default: %(default)s)"
    )
    arguments, overrides = parser.parse_known_args()
    once, mixed = measure(overrides, arguments.repeats)
    print(f"each pair once: {1000 * once:.1f} ms of processor time an epoch")
    print(f"mixture: {1000 * mixed:.1f} ms, {mixed / once:.3f} times as much")


def measure(overrides: list[str], repeats: int) -> tuple[float, float]:
    """Return the median processor seconds of an epoch without and with a mixture."""
    config = load_config(*overrides)
    corpus = load_corpora(config.data).train
    tokenizers = cached_tokenizers(config.tokenizer, corpus, config.data.cache_dir)
    encoded = encode_corpus(corpus, tokenizers, config.data)
    half = len(encoded) // 2
    mixture = mix([half, len(encoded) - half], [3, 1], temperature=1)
    loaders = [
        Batches(
            encoded,
            config=config.training.batching,
            seed=config.seed,
            rank=0,
            world_size=1,
            mixture=chosen,
        )
        for chosen in (None, mixture)
    ]
    seconds: tuple[list[float], list[float]] = [], []
    for epoch in range(repeats):
        for loader, measured in zip(loaders, seconds, strict=True):
            started = time.process_time()
            for rows in loader.epoch(epoch):
                collate(encoded, rows)
            measured.append(time.process_time() - started)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


if __name__ == "__main__":
    main()
