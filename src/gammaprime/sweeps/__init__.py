"""Many runs: specs, plans, local processes, Ray, forecasts and reports.

Nothing is imported here: the process of a run sets its threads before NumPy is imported.
"""

from __future__ import annotations

from pathlib import Path

RUNS = Path("results/runs")
"""Folder of runs, by default."""
FIGURES = Path("results/figures")
"""Folder of figures, by default."""
PAGE = Path("results/report.html")
"""File of the report, by default."""
PUBLISHED = Path("results/published")
"""Folder of figures and small copies of runs that are kept, by default."""
