"""The configuration of the service."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from seq2seq.checks import Config, Count, FilePath, FilePaths, Name, Positive, Range, Threads
from seq2seq.runtime.devices import Device, Precision
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig


class Engine(Enum):
    """The library that computes the model."""

    torch = "torch"
    """Checkpoints of train.py."""
    onnx = "onnx"
    """Folders of seq2seq-export."""


@dataclass(kw_only=True, slots=True, repr=False)
class ServeConfig(Config):
    """The configuration of seq2seq-serve."""

    checkpoint: FilePaths
    """A checkpoint file, a run's directory or an exported folder for each language pair."""
    plugins: list[str]
    """Python files that register the attention types in use."""
    engine: Engine
    host: Name
    """Address to listen on; 0.0.0.0 accepts requests of other machines."""
    port: Annotated[int, Range(0, 65_535)]
    """0: any free port, which the log names."""
    device: Device
    """Device that translates; auto: CUDA if there is one."""
    precision: Precision
    threads: Threads | None
    """CPU threads; None: as many as torch chooses, or one of onnxruntime."""
    batch_size: Count
    """Most sentences translated together."""
    split_length: Count
    """Most tokens of a line that is not split into sentences; 1 splits every line."""
    max_waiting: Count
    """Most sentences that wait, a quarter of them of one request; more are answered by 503."""
    timeout: Positive
    """Seconds in which a request is answered; later the answer is 504."""
    max_characters: Count
    """Most characters of a request."""
    max_sentence: Count
    """Most characters of a sentence; time grows with the square of its length."""
    max_texts: Count
    """Most texts of a request."""
    max_body: Count
    """Most bytes of a request's body."""
    max_beam: Annotated[int, Range(1, 100)]
    """Largest beam, and most translations of a sentence, that a request may ask for."""
    api_keys: FilePath | None
    """A file with a key on each line, of which requests must have one; None: no key is needed."""
    cors: list[str]
    """Origins of other sites whose pages may use the service, such as https://example.org; or *."""
    access_log: bool
    """Log a line for each request."""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        is_usual = self.precision is Precision.fp32 and self.device is not Device.cuda
        if self.engine is Engine.onnx and not is_usual:
            raise ValueError(
                f"device={self.device.name} and precision={self.precision.name} are keys of "
                "engine=torch; an exported folder has its precision, and is computed by the CPU"
            )
        if type(self.decoding) not in (BeamConfig, GreedyConfig):
            raise ValueError(
                f"decoding={self.decoding.name}: the service searches with decoding=beam or greedy"
            )
        if (n_best := getattr(self.decoding, "n_best", 1)) > 1:
            raise ValueError(
                f"decoding.n_best={n_best}: a request asks for several translations itself, by "
                "n_best or alternatives; remove the key"
            )
        if (size := getattr(self.decoding, "beam_size", 1)) > self.max_beam:
            raise ValueError(
                f"decoding.beam_size={size} must be at most max_beam={self.max_beam}; raise it too"
            )
