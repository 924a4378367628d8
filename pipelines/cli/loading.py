"""Modules that are imported when they are needed."""

import gc
import importlib
from types import ModuleType


def loaded(module: str) -> ModuleType:
    """The module, and all that it imports, without the collector of garbage.

    What an import makes stays. To look through it again and again takes a tenth of a verb's start.
    """
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()
