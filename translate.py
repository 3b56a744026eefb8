"""Translate text with a trained model; for example `translate.py checkpoint=checkpoints/NAME`."""

import logging
import sys

import hydra
from omegaconf import DictConfig

from seq2seq.config import register_schemas, to_dataclass
from seq2seq.errors import one_line_errors, run_script
from seq2seq.translate_config import TranslateConfig
from seq2seq.translate_task import quote_plain_values, translate


@hydra.main(version_base="1.3", config_path="configs", config_name="translate")
@one_line_errors
def main(composed: DictConfig) -> None:
    """Check the configuration, then translate."""
    config = to_dataclass(composed)
    assert isinstance(config, TranslateConfig)
    translate(config)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s: %(message)s")
    register_schemas()
    sys.argv[1:] = quote_plain_values(sys.argv[1:])
    run_script(main)
