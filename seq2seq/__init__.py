"""Train, inspect and use attention-based translation models.

The public names are listed in `__init__.pyi`. They are loaded on first use, so that `import
seq2seq` takes no time.
"""

import lazy_loader

from seq2seq.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
