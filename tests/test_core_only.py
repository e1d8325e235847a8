"""The core needs NumPy, SciPy and array-api-compat, and nothing else."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Every name that the documentation promises of the two core rooms.
PROMISED = {
    "tabular": "MDP random_mdp chain solve_value value_terms expand_value residual error_bound "
    "solve_q expand_q visitation expand_visitation mixture expand_mixture policy_gradient "
    "first_partial second_partial expand_partial expand_gradient phased_td_bound",
    "estimators": "update_weights value_weights log_update_weights effective_horizon "
    "discounted_sum discounted_return lambda_return gae expand_terms expand expand_window "
    "expand_random sample_jumps gradient_advantage td_delta_rewards td_delta_lambdas td_delta "
    "order_curve mix expand_advantage tail_share survival_rate",
}
USE = f"""
import importlib, math, sys
import numpy as np
for room, names in {PROMISED!r}.items():
    module = importlib.import_module(f"gammaprime.{{room}}")
    missing = [name for name in names.split() if name not in vars(module)]
    assert not missing, (room, missing)
from gammaprime import estimators, tabular
never = np.zeros(3, bool)
last = np.array([False, False, True])
base = estimators.discounted_return(np.ones(3), None, last, never, gamma=0.9)
assert np.allclose(estimators.expand(base, None, last, never, 0.9, 1.0, math.inf), [3, 2, 1])
assert np.allclose(tabular.solve_value([[0.5, 0.5], [0, 1]], [1, 0], 1.0), [2, 0])
assert not {{"jax", "torch", "matplotlib"}} & set(sys.modules)
print("core works")
"""
REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"jax", "jaxlib", "torch", "matplotlib", "gymnasium", "mujoco"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""


def test_core_rooms__work_where_jax_and_torch_cannot_be_imported():
    run = [sys.executable, "-W", "error", "-c", REFUSE + USE]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "core works\n"


@pytest.mark.slow
def test_core_rooms__work_in_an_environment_with_the_core_alone(tmp_path):
    venv.create(tmp_path, with_pip=True)
    python = str(tmp_path / "bin/python")
    pins = ["--constraint", str(ROOT / "constraints.txt")]
    install = [python, "-m", "pip", "install", "--quiet", *pins, str(ROOT)]
    subprocess.run(install, check=True, capture_output=True)
    listed = [python, "-m", "pip", "list", "--format", "freeze"]
    packages = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    names = {line.split("==")[0] for line in packages.split()} - {"pip", "setuptools"}
    assert names == {"gammaprime", "numpy", "scipy", "array-api-compat"}
    run = [python, "-W", "error", "-c", USE]
    used = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert used.stdout == "core works\n"
    shipped = [str(tmp_path / "bin/gammaprime"), "list"]
    assert "fig_errors" in subprocess.run(shipped, capture_output=True, text=True).stdout
