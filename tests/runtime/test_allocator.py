import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.runtime.allocator import keep_freed_memory

ROOT = Path(__file__).parents[2]
COUNT_FAULTS = """
import ctypes, resource, sys
from seq2seq.runtime.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def touch():
    blocks = [library.malloc(24 << 20) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, 24 << 20)
    for block in blocks:
        library.free(block)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

touch()
before = faults()
for _ in range(3):
    touch()
print(faults() - before)
"""


def count_faults(choice):
    """Return how often the system cleared a page while 72 MB were used three times more."""
    command = [sys.executable, "-c", COUNT_FAULTS, choice]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_that_was_freed_is_used_again_without_the_system():
    by_default, kept = count_faults("default"), count_faults("keep")

    assert by_default > 1000
    assert kept < 100


@pytest.mark.parametrize("platform_name", ["darwin", "win32"])
def test_another_system_is_left_alone(monkeypatch, platform_name):
    monkeypatch.setattr(sys, "platform", platform_name)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("a library was opened"))

    keep_freed_memory()


def test_another_c_library_is_left_alone(monkeypatch):
    class Musl:
        """Has no mallopt."""

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Musl())

    keep_freed_memory()
