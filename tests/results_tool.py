"""The scripts of docs/results as modules: they find each other by being run from their folder."""

import importlib
import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parents[1] / "docs/results")
sys.path.insert(0, _FOLDER)
try:
    claims, make_results = map(importlib.import_module, ("claims", "make_results"))
finally:
    sys.path.remove(_FOLDER)
