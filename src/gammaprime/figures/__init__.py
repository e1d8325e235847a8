"""Pictures of what the suite has stored.  The only room that imports matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"toy": "errors", "weights": "weights"}
"""The module that draws each kind of experiment."""


def draw(
    config: Mapping[str, Any], data: Mapping[str, NDArray[np.float64]], folder: Path, name: str
) -> list[Path]:
    """Draw a finished run into the folder; the files written, pictures first."""
    module = import_module(f"gammaprime.figures.{KINDS[config['kind']]}")
    folder.mkdir(parents=True, exist_ok=True)
    return module.draw(config["settings"], data, folder, name)
