"""The command-line programs."""

import sys
from pathlib import Path

try:
    Path.cwd()
except FileNotFoundError:  # torch's libraries would end the program without saying why
    print("error: the current directory has been deleted; change to another", file=sys.stderr)
    sys.exit(2)
