"""The package of the plug-in files: `seq2seq.config.plugin_modules.NAME` is FOLDER/NAME.py.

A folder on `sys.path` would let its files hide modules of other packages. The environment variable
tells the processes that a launcher starts, which import a plug-in when they read a pickled job.
"""

import os

_VARIABLE = "SEQ2SEQ_PLUGIN_PATH"

__path__ = [folder for folder in os.environ.get(_VARIABLE, "").split(os.pathsep) if folder]
"""Folders whose files can be imported as modules of this package."""


def add_folder(folder: str) -> None:
    """Make the files of a folder importable, here and in processes that this one starts."""
    if folder not in __path__:
        __path__.append(folder)
        os.environ[_VARIABLE] = os.pathsep.join(__path__)
