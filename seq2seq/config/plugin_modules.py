"""The package of the plug-in files: `seq2seq.config.plugin_modules.NAME` is FOLDER/NAME.py.

If the folder were on `sys.path`, its files could hide modules of other packages. An environment
variable names the folders to the processes that a launcher starts, because these processes import
a plug-in when they unpickle a job.
"""

import os

_VARIABLE = "SEQ2SEQ_PLUGIN_PATH"

__path__ = [folder for folder in os.environ.get(_VARIABLE, "").split(os.pathsep) if folder]
"""Folders whose files can be imported as modules of this package."""


def add_folder(folder: str) -> None:
    """Make the files of a folder importable, here and in processes that this process starts."""
    if folder not in __path__:
        __path__.append(folder)
        os.environ[_VARIABLE] = os.pathsep.join(__path__)
