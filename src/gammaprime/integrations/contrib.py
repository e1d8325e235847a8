"""sb3-contrib: the callbacks of `gammaprime.integrations.sb3`, and a Judge that masks actions."""

from __future__ import annotations

from gammaprime.integrations import sb3
from gammaprime.integrations.rollouts import check_version, missing
from gammaprime.integrations.sb3 import DensityRatio, Taylor

try:
    from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
except ImportError as error:
    raise missing("contrib", error) from None

__all__ = ["DensityRatio", "Judge", "Taylor"]

check_version("sb3_contrib", sb3.OLDEST, sb3.NEWEST)


class Judge(sb3.Judge, MaskableEvalCallback):
    """Evaluation callback for MaskablePPO; its arguments are those of `sb3.Judge`."""
