"""docs/paper/make_map.py as a module: a script of the documentation, not of the package."""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parents[1] / "docs/paper/make_map.py"
_SPEC = importlib.util.spec_from_file_location("make_map", _PATH)
make_map = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_map)
