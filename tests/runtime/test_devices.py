import subprocess
import sys


def test_the_names_load_without_torch():
    code = "import sys; import seq2seq.runtime.devices; print('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
