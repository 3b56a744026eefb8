"""Answer translation requests over HTTP: `seq2seq-serve checkpoint=checkpoints/NAME`."""

import gc
import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq.checks import counted
from seq2seq.runtime.process import imports_in_one_line

# No import here or below may load torch, because an exported folder does not need it.
with imports_in_one_line("serve"):
    from seq2seq.cli.command_line import run_command
    from seq2seq.export.folder import CHECKPOINT, RUNTIME, is_exported, read_runtime
    from seq2seq.files.paths import expand_home, file_sha256, reading
    from seq2seq.files.text import open_lines
    from seq2seq.inference.translations import Translation
    from seq2seq.runtime.devices import Device, Precision
    from seq2seq.runtime.process import keep_freed_memory, log_to_stderr
    from seq2seq.search.config import DecodingConfig
    from seq2seq.serving.models import Model, Pair, ServeConfig

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator
    from seq2seq.serving.batcher import Translate

logger = logging.getLogger(__name__)

_SHORTEST_KEY = 16


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    log_to_stderr(has_times=True)
    gc.disable()  # until the service answers: nearly all objects created before then stay in use
    if sys.platform != "win32":  # SIGHUP asks for a reload; there is no model to read again yet
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    run_command("serve", ServeConfig, serve)


def serve(config: ServeConfig) -> None:
    """Answer requests until SIGTERM or Ctrl-C.

    Raises:
        ValueError: A model, the address or the API keys cannot be used.
        OSError: A file cannot be read.
    """
    with imports_in_one_line("serve"):
        from seq2seq.serving.app import Service
        from seq2seq.serving.server import bind, raise_file_limit, serve_until_stopped

        import_module("python_multipart")  # which a request may need
    # These warnings are for lines of files; a request gets the same counts in its answer.
    logging.getLogger("seq2seq.inference").setLevel(logging.ERROR)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it logs damaged bodies
    raise_file_limit()
    with bind(config.host, config.port) as bound:
        read = partial(read_keys, config.api_keys) if config.api_keys else list
        service = Service(config, load=partial(load_model, config=config), read_keys=read)
        gc.freeze()
        gc.enable()
        serve_until_stopped(service, config, bound)
    logger.info("all requests are answered; stopped")


def load_model(path: str, config: ServeConfig) -> dict[Pair, Model]:
    """Load a model for each pair of languages that its run was configured with."""
    load, file = (_load_exported, RUNTIME) if is_exported(path) else (_load_checkpoint, CHECKPOINT)
    found = expand_home(path, key="checkpoint").resolve()
    functions = load(path, config)
    is_folder = found.is_dir()
    name = found.name if is_folder else f"{found.parent.name}/{found.name}"
    sha256 = file_sha256(found / file if is_folder else found)
    return {pair: Model(translate, name, sha256) for pair, translate in functions.items()}


def _load_checkpoint(path: str, config: ServeConfig) -> "Mapping[Pair, Translate[Translation]]":
    import torch

    from seq2seq.data.files import language_pairs
    from seq2seq.inference.checkpoint import load_checkpoint
    from seq2seq.inference.translator import Translator
    from seq2seq.runtime.numerics import choose_numerics

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    checkpoint = load_checkpoint(path)
    translator = Translator(
        checkpoint.build_model(),
        tokenizers=checkpoint.tokenizers,
        numerics=choose_numerics(config.device, config.precision),
        habits=checkpoint.habits,
    )
    with reading(f"checkpoint={path}"):
        tags = language_pairs(checkpoint.config.data)
    return {
        pair: partial(_translate_tagged, translator, config.batch_size, f"{tag} " if tag else "")
        for pair, tag in tags.items()
    }


def _translate_tagged(
    translator: "Translator",
    batch_size: int,
    tag: str,
    lines: Sequence[str],
    decoding: DecodingConfig,
) -> list[Translation]:
    """Translate lines with the tag of a target language; the returned sources have no tag."""

    tagged = [tag + line for line in lines]
    return [
        Translation(
            translation.source.removeprefix(tag),
            [each._replace(source=each.source.removeprefix(tag)) for each in translation.sentences],
        )
        for translation in translator(tagged, decoding, batch_size=batch_size)
    ]


def _load_exported(path: str, config: ServeConfig) -> "Mapping[Pair, Translate[Translation]]":
    from seq2seq.export.translator import OnnxTranslator

    if config.precision is not Precision.fp32 or config.device is Device.cuda:
        raise ValueError(
            f"device={config.device.name} and precision={config.precision.name} do not fit an "
            "exported folder, which has its own precision and runs on the CPU"
        )
    runtime = read_runtime(expand_home(path, key="checkpoint"))
    translator = OnnxTranslator.load(path, threads=config.threads or 1)
    return {(runtime.source, runtime.target): partial(translator, batch_size=config.batch_size)}


def read_keys(path: str) -> list[str]:
    """Read the API keys of a file.

    Raises:
        ValueError: The file has no key, or a key that is too short.
        OSError: The file cannot be read.
    """
    with open_lines(path, key="api_keys") as lines:
        keys = [(number, line.strip()) for number, line in enumerate(lines, start=1)]
    keys = [(number, key) for number, key in keys if key]
    number, shortest = min(keys, key=lambda each: len(each[1]), default=(1, ""))
    if (size := len(shortest)) < _SHORTEST_KEY:
        raise ValueError(
            f"api_keys={path}:{number}: the key has {counted(size, 'character')}; write keys of at "
            f"least {_SHORTEST_KEY} on lines of their own, for example from: openssl rand -hex 16"
        )
    return [key for _, key in keys]


if __name__ == "__main__":
    main()
