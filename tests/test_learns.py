import json
import random
from pathlib import Path

from tiny_training import tiny_run

OVERRIDES = (
    "training.batching.size=32",
    "training.max_epochs=10",
    "model.dropout=0",
    "training.optimizer.learning_rate=0.01",
    "training.label_smoothing=0",
    "training.schedule.warmup_updates=20",
    "training.validation.every_updates=1000",
    "training.validation.metric=loss",
    "model.embedding_size=24",
    "model.encoder.hidden_size=24",
    "model.decoder.hidden_size=48",
    "attention.size=24",
)


def write_reversals(folder: Path) -> None:
    """Write sentences of 4 to 7 one-letter words, and their reversals."""
    draw = random.Random(3)
    for name, size in (("train", 500), ("valid", 20), ("test", 40)):
        lines = [draw.choices("abcdefgh", k=draw.randint(4, 7)) for _ in range(size)]
        (folder / f"a.{name}").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"b.{name}").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))


def test_reversal_is_learned(tmp_path):
    write_reversals(tmp_path)

    bleu = tiny_run(tmp_path, "tokenizer=words", "data.source=de", "data.target=en", *OVERRIDES)

    results = json.loads((tmp_path / "runs" / "tiny" / "results.json").read_text())
    assert bleu >= 90
    assert results["test"]["bleu"] == bleu
    assert results["test"]["perplexity"] < 1.2
