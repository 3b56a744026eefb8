"""What the data configurations of tests have in common."""

from dataclasses import fields

from seq2seq.data import DataConfig, OnInvalid

BASE = DataConfig(
    name="base",
    source="de",
    target="en",
    cache_dir="cache",
    vocabulary_size=50,
    max_epochs=3,
    batch_tokens=100,
    learning_rate=0.001,
    dropout=0.1,
    max_length=20,
    empty_lines=OnInvalid.error,
    long_pairs=OnInvalid.error,
    invalid_utf8=OnInvalid.error,
)


def shared(**changes: object) -> dict[str, object]:
    """Return the common fields, some of them changed, for a config of any corpus."""
    return {field.name: getattr(BASE, field.name) for field in fields(BASE)} | changes
