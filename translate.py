"""Translate text with a trained model, or score translations.

For example `translate.py checkpoint=checkpoints/NAME`; and, for which no model is loaded,
`translate.py reference=ref.en hypotheses=[a.en,b.en]`.
"""

import logging
import signal
import sys
from dataclasses import fields
from pathlib import Path
from types import FrameType

from seq2seq.runtime.interrupts import interrupts_in_one_line

with interrupts_in_one_line():  # these take long enough to think better of it
    import hydra
    from hydra.core.config_store import ConfigStore
    from omegaconf import DictConfig, OmegaConf

    from seq2seq.cli.hydra_arguments import (
        check_beside_hypotheses,
        has_hypotheses,
        quote_plain_values,
    )
    from seq2seq.cli.score_config import ScoreConfig
    from seq2seq.config.errors import one_line_errors, run_script
    from seq2seq.runtime.allocator import keep_freed_memory

# What only one of the two tasks needs is imported in its function: torch takes seconds to load.


@hydra.main(version_base="1.3", config_path="configs", config_name="translate")
@one_line_errors
def main(composed: DictConfig) -> None:
    """Check the configuration, then translate."""
    from seq2seq.cli.config import TranslateConfig
    from seq2seq.cli.task import translate
    from seq2seq.config.schema import to_dataclass

    config = to_dataclass(composed)
    assert isinstance(config, TranslateConfig)
    translate(config)


@hydra.main(version_base="1.3", config_path="configs", config_name="score")
@one_line_errors
def score(composed: DictConfig) -> None:
    """Check the configuration, then score translations."""
    from seq2seq.cli.score import score_systems

    # The steps of its tests are not for the user; its doubts about the text are.
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    config = OmegaConf.to_object(composed)
    assert isinstance(config, ScoreConfig)
    score_systems(config)


def run() -> None:
    """Do what the command line asks for."""
    if has_hypotheses(sys.argv[1:]):
        translating = OmegaConf.load(Path(__file__).parent / "configs" / "translate.yaml")
        check_beside_hypotheses(
            sys.argv[1:],
            known=[each.name for each in fields(ScoreConfig)],
            translating=[*map(str, translating), "decoding"],
        )
        ConfigStore.instance().store(name="score_schema", node=ScoreConfig)
        score()
    else:
        from seq2seq.config.schema import register_schemas

        register_schemas()
        main()


def end(number: int, frame: FrameType | None) -> None:
    """End by a signal as by Ctrl-C: no half-written file stays."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    keep_freed_memory()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s: %(message)s")
    sys.argv[1:] = quote_plain_values(sys.argv[1:])
    run_script(run)
