"""Translate with a trained model, for example `translate.py checkpoint=checkpoints/NAME`."""

import sys

from seq2seq.runtime.process import interrupts_in_one_line

with interrupts_in_one_line():  # these imports take seconds
    import hydra
    from omegaconf import DictConfig

    from seq2seq.cli.command_line import one_line_errors, read_arguments, run_script
    from seq2seq.cli.translation.config import TranslateConfig, register_translate_schema
    from seq2seq.cli.translation.task import translate
    from seq2seq.config.composition import config_directory, to_dataclass
    from seq2seq.config.plugins import load_plugins_of
    from seq2seq.runtime.process import keep_freed_memory, log_to_stderr


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    log_to_stderr()
    run_script(_check_and_translate)


def _check_and_translate() -> None:
    if any(argument.startswith("hypotheses=") for argument in sys.argv[1:]):
        raise ValueError(
            "hypotheses= is a key of the command that scores files of translations; use "
            "python -m seq2seq.cli.score reference=FILE hypotheses=FILE"
        )
    read_arguments(TranslateConfig)
    load_plugins_of(sys.argv[1:])
    register_translate_schema()
    _translate()


@hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="translate")
@one_line_errors
def _translate(composed: DictConfig) -> None:
    translate(to_dataclass(composed, TranslateConfig))


if __name__ == "__main__":
    main()
