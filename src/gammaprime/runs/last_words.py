"""What a run says when it stops before its end: what is kept, and how it is gone on with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gammaprime.loops.rollout import BreakdownError
from gammaprime.runs import folders
from gammaprime.runs.setup import Setup


@dataclass(frozen=True)
class LastWords:
    """Of the run with this setup, in this folder."""

    setup: Setup
    path: Path

    def stopped(self, steps: int) -> str:
        """Asked to, and saved."""
        exact = self.setup.env.exact_resume
        return (
            f"stopped and saved at step {steps} of {self.setup.steps}; go on with: {self._again()}"
            f"{'' if exact else ' (in new episodes: those of this task cannot be saved)'}"
        )

    def failed(self, error: OSError, saved_step: int) -> OSError:
        """What failed, and that nothing but the time since the last checkpoint is lost."""
        saved = f"the checkpoint at step {saved_step}" if saved_step else "the folder"
        return OSError(f"{error}; {saved} is whole; when this is mended: {self._again()}")

    def broken(self, broken: BreakdownError, steps: int, saved_step: int) -> BreakdownError:
        """The same breakdown, kept, and told with where to look and how to see it again."""
        about = {"message": str(broken), "step": steps, "config": self.setup.config}
        folder = folders.write_breakdown(self.path, about, broken.arrays)
        saved = f"step {saved_step}" if saved_step else "the start"
        number = steps // self.setup.agent.rollout_size + 1
        message = (
            f"{broken} (update {number}, after {steps} steps); what it broke on is in {folder}; "
            f"from {saved} it happens again with: {self._again()}"
        )
        return BreakdownError(message, broken.arrays)

    def _again(self) -> str:
        if isinstance(self.setup.task, str):
            return f"gammaprime resume {self.path}"
        return f"train() with the same arguments, out={str(self.path)!r} among them"
