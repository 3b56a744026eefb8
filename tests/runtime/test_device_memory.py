from seq2seq.config.errors import USER_ERRORS, describe_error
from seq2seq.config.schema import load_config
from seq2seq.runtime.device_memory import DeviceMemoryError, OnOutOfMemory


def test_stop_is_the_default():
    assert load_config().training.on_out_of_memory is OnOutOfMemory.stop


def test_too_little_memory_is_an_error_of_one_line():
    error = DeviceMemoryError("update 7: the memory of a GPU is too small")

    assert isinstance(error, USER_ERRORS)
    assert describe_error(error) == "update 7: the memory of a GPU is too small"
