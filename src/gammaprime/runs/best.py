"""The policy of the best evaluation of a run, kept beside the newest.

The best of many noisy evaluations is biased upwards: its score is no estimate of its return.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.loops.loop import take_part
from gammaprime.networks import BEST_POLICY, Policy
from gammaprime.runs.directory import pack_policy, write_whole
from gammaprime.runs.metrics import Row

SCORE = "eval/mean_reward"


class Best:
    """Policy, step and score of the best evaluation so far; the first of equals."""

    def __init__(self) -> None:
        self.score, self.step = -math.inf, 0
        self._packed = b""
        self._written = False

    def offer(self, policy: Policy, step: int, score: float) -> None:
        """Take a policy that has just been evaluated, if none was better."""
        if score > self.score:
            self.score, self.step, self._written = score, step, False
            facts = {"best_step": np.array(step), "best_score": np.array(score)}
            self._packed = pack_policy(policy, facts)

    @property
    def policy(self) -> Policy | None:
        """The policy itself; None before the first evaluation."""
        return Policy.unpack(self._packed) if self._packed else None

    def write(self, path: Path) -> None:
        """Write the policy into the folder of a run, unless it is there."""
        if self._packed and not self._written:
            write_whole(path / BEST_POLICY, self._packed)
            self._written = True

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays of a checkpoint; none before the first evaluation."""
        if not self._packed:
            return {}
        packed = np.frombuffer(self._packed, np.uint8)
        facts = {"score": np.array(self.score), "step": np.array(self.step)}
        return {f"best/{name}": x for name, x in (facts | {"policy": packed}).items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], rows: Sequence[Row]) -> None:
        """Go on from the arrays of a checkpoint and the metrics up to it.

        Checkpoints of earlier versions have no policy: only a better one is then kept.
        """
        kept = take_part(arrays, "best")
        if kept:
            self.score, self.step = float(kept["score"]), int(kept["step"])
            self._packed = kept["policy"].tobytes()
        else:
            self.score = max((row[SCORE] for row in rows if SCORE in row), default=-math.inf)
