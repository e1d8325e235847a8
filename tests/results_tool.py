"""The scripts of docs/results as modules: they find each other by being run from their folder."""

import importlib
import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parents[1] / "docs/results")
sys.path.insert(0, _FOLDER)
try:
    names = ("make_results", "claims", "blocks", "rerun", "second_round", "advice", "forest")
    modules = map(importlib.import_module, names)
    make_results, claims, blocks, rerun, second_round, advice, forest = modules
finally:
    sys.path.remove(_FOLDER)
