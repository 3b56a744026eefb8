"""The configuration of the service."""

from dataclasses import dataclass
from typing import Annotated

from seq2seq.checks import Config, Count, FilePath, FilePaths, Name, Positive, Range, Threads
from seq2seq.runtime.devices import Device, Engine, Precision
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig
from seq2seq.text.sentences import Split


@dataclass(kw_only=True, slots=True, repr=False)
class ServeConfig(Config):
    """The configuration of seq2seq-serve."""

    checkpoint: FilePaths
    """Checkpoint file, run directory or exported folder, one for each language pair."""
    plugins: list[str]
    """Python files that register the attention types in use."""
    engine: Engine
    host: Name
    """Address to listen on; 0.0.0.0 accepts requests from other machines."""
    port: Annotated[int, Range(0, 65_535)]
    """Port to listen on; 0: any free port, which the log names."""
    device: Device
    """Device to translate on; auto: CUDA if available."""
    precision: Precision
    threads: Threads | None
    """Number of CPU threads; None: torch's default, or one thread of onnxruntime."""
    batch_size: Count
    """Maximum number of sentences translated together."""
    split: Split
    max_waiting: Count
    """Maximum number of waiting sentences; beyond that, the answer is 503. A request with more than
    a quarter of them gets 413."""
    timeout: Positive
    """Maximum seconds to answer a request; after that, the answer is 504."""
    max_characters: Count
    """Maximum number of characters in a request."""
    max_sentence: Count
    """Maximum number of characters in a sentence; time grows with the square of its length."""
    max_texts: Count
    """Maximum number of texts in a request."""
    max_body: Count
    """Maximum number of bytes in the body of a request."""
    max_beam: Annotated[int, Range(1, 100)]
    """Maximum beam size, and maximum number of translations per sentence, that a request may ask
    for."""
    api_keys: FilePath | None
    """File of API keys, one on each line; a request must send one of them. None: no key is
    needed."""
    cors: list[str]
    """Origins of other sites whose pages may use the service, such as https://example.org; *: all
    sites."""
    access_log: bool
    """Whether to log a line for each request."""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        is_usual = self.precision is Precision.fp32 and self.device is not Device.cuda
        if self.engine is Engine.onnx and not is_usual:
            raise ValueError(
                f"device={self.device.name} and precision={self.precision.name} are keys of "
                "engine=torch; an exported folder has its own precision, and runs on the CPU"
            )
        if type(self.decoding) not in (BeamConfig, GreedyConfig):
            raise ValueError(
                f"decoding={self.decoding.name}: the service searches with decoding=beam or greedy"
            )
        if (n_best := getattr(self.decoding, "n_best", 1)) > 1:
            raise ValueError(
                f"decoding.n_best={n_best}: each request sets its number of translations by "
                "n_best or alternatives; remove the key"
            )
        if (size := getattr(self.decoding, "beam_size", 1)) > self.max_beam:
            raise ValueError(
                f"decoding.beam_size={size} must be at most max_beam={self.max_beam}; raise it too"
            )
