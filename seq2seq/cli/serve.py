"""Answer translation requests over HTTP: `seq2seq-serve checkpoint=checkpoints/NAME`."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import cast

from seq2seq.runtime.process import interrupts_in_one_line

with interrupts_in_one_line():  # these imports take seconds
    import torch
    from hydra.core.config_store import ConfigStore

    from seq2seq.checkpoints.checkpoint import load_checkpoint
    from seq2seq.cli.command_line import quote_plain_values, run_command
    from seq2seq.config.composition import load_as
    from seq2seq.config.plugins import load_plugins_of
    from seq2seq.config.schema import register_schemas
    from seq2seq.data.tokenizers.interface import leading_symbols
    from seq2seq.files.exported import read_runtime
    from seq2seq.files.paths import expand_home
    from seq2seq.files.text import open_lines
    from seq2seq.inference.batcher import Translate
    from seq2seq.inference.sentence_splitting import SentenceSplitter
    from seq2seq.inference.translation import Translation
    from seq2seq.inference.translator import Translator
    from seq2seq.runtime.numerics import choose_numerics
    from seq2seq.runtime.process import keep_freed_memory
    from seq2seq.serving.config import Engine, ServeConfig
    from seq2seq.serving.models import LoadedModel

logger = logging.getLogger(__name__)

_SHORTEST_KEY = 16


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    sys.argv[1:] = [_listed(argument) for argument in sys.argv[1:]]
    run_command("serve", ServeConfig, serve, register=register_schemas)


def load_serve_config(*arguments: str) -> ServeConfig:
    """Compose the configuration of the command; raises as `load_config`."""
    quoted = quote_plain_values([_listed(argument) for argument in arguments], ServeConfig)
    load_plugins_of(quoted)
    register_schemas()
    ConfigStore.instance().store(name="serve_schema", node=ServeConfig)
    return load_as(ServeConfig, "serve", quoted)


def _listed(argument: str) -> str:
    """Write checkpoint=A,B as a list."""
    key, _, value = argument.partition("=")
    is_several = key == "checkpoint" and "," in value and value[0] not in "['\""
    return f"{key}=[{value}]" if is_several else argument


def serve(config: ServeConfig) -> None:
    """Answer requests until SIGTERM or Ctrl-C.

    Raises:
        ValueError: A model, the address or the API keys cannot be used.
        OSError: A file cannot be read.
    """
    try:
        from seq2seq.serving.app import Service
        from seq2seq.serving.server import Server, bind, raise_file_limit
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the service needs {error.name}; pip install 'attention-seq2seq[serve]'"
        ) from error
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # Warnings that count lines are for one who translates files; a request gets the counts.
    logging.getLogger("seq2seq.inference").setLevel(logging.ERROR)
    raise_file_limit()
    with bind(config.host, config.port) as bound:
        keys = read_keys(config.api_keys) if config.api_keys else []
        service = Service(config, load=partial(load_model, config=config), api_keys=keys)
        Server(service, config, bound).serve_until_stopped()
    logger.info("all requests are answered; stopped")


def load_model(path: str, config: ServeConfig) -> LoadedModel:
    """Load a model, with the languages that its run was configured with."""
    if config.engine is Engine.onnx:
        return _load_exported(path, config)
    checkpoint = load_checkpoint(path)
    translator = Translator(
        checkpoint.build_model(),
        tokenizers=checkpoint.tokenizers,
        numerics=choose_numerics(config.device, config.precision),
        decoding=checkpoint.config.decoding,
    )
    source = translator.tokenizers.source
    split = partial(
        _sentences,
        split_length=config.split_length,
        num_tokens=translator.num_tokens,
        leading_symbols=partial(leading_symbols, source),
    )
    data = checkpoint.config.data
    return LoadedModel((data.source, data.target), translator, split)


def _load_exported(path: str, config: ServeConfig) -> LoadedModel:
    try:
        from seq2seq.export import OnnxTranslator
    except ModuleNotFoundError as error:
        raise ValueError(
            f"engine=onnx needs {error.name}; pip install 'attention-seq2seq[onnx,serve]'"
        ) from error
    runtime = read_runtime(expand_home(path, key="checkpoint"))
    translator = OnnxTranslator.load(path, threads=config.threads or 1)

    def num_tokens(line: str) -> int:
        return len(translator.source_tokenizer.encode([line])[0])

    split = partial(_sentences, split_length=config.split_length, num_tokens=num_tokens)
    # Its translations have the fields of those of Translator, whose module would load torch there.
    translate = cast(Translate[Translation], translator)
    return LoadedModel((runtime["source"], runtime["target"]), translate, split)


def _sentences(
    line: str,
    *,
    split_length: int,
    num_tokens: Callable[[str], int],
    leading_symbols: Callable[[str], str] = lambda line: "",
) -> list[str]:
    """Split a line as long_lines=split of translate.py does."""
    splitter = SentenceSplitter(
        1, split_length=split_length, num_tokens=num_tokens, leading_symbols=leading_symbols
    )
    return [part for window in splitter.split([[(line, "")]]) for part, _ in window]


def read_keys(path: str) -> list[str]:
    """Read the API keys of a file.

    Raises:
        ValueError: The file has no key, or a short one.
        OSError: The file cannot be read.
    """
    with open_lines(path, key="api_keys") as lines:
        keys = [(number, line.strip()) for number, line in enumerate(lines, start=1)]
    keys = [(number, key) for number, key in keys if key]
    for number, key in keys:
        if len(key) < _SHORTEST_KEY:
            raise ValueError(
                f"api_keys={path}:{number}: the key has {len(key)} characters; use at least "
                f"{_SHORTEST_KEY}, for example of: openssl rand -hex 16"
            )
    if not keys:
        raise ValueError(f"api_keys={path} has no key; write one on each line")
    return [key for _, key in keys]


if __name__ == "__main__":
    main()
