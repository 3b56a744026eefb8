import pytest
import torch

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.config.schema import load_config
from seq2seq.runtime.device_memory import DeviceMemoryError, OnOutOfMemory, naming_batch


def test_stop_is_the_default():
    assert load_config().training.on_out_of_memory is OnOutOfMemory.stop


def test_too_little_memory_is_an_error_of_one_line():
    error = DeviceMemoryError("update 7: the memory of a GPU is too small")

    assert isinstance(error, USER_ERRORS)
    assert describe_error(error) == "update 7: the memory of a GPU is too small"


def test_only_too_little_memory_is_named():
    with pytest.raises(DeviceMemoryError) as caught, naming_batch("3 rows", "lower size=3"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    assert str(caught.value) == "the memory of a GPU is too small for 3 rows; lower size=3"

    with pytest.raises(RuntimeError, match=r"^other$"), naming_batch("3 rows", "lower size=3"):
        raise RuntimeError("other")
