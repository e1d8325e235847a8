"""The scripts of docs/scale as modules: they find each other by being run from their folder."""

import importlib
import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parents[1] / "docs/scale")
sys.path.insert(0, _FOLDER)
try:
    names = ("make_scale", "costs", "measure", "blocks")
    make_scale, costs, measure, blocks = map(importlib.import_module, names)
finally:
    sys.path.remove(_FOLDER)
