"""The front door: every promised name, in the stub too, and nothing imported before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gammaprime as gp

STUB = Path(gp.__file__).with_suffix(".pyi")
PROMISED = {
    *("train", "resume", "evaluate", "load_policy", "read_metrics", "Evaluation", "Callback"),
    *("PPO", "TRPO", "PG", "TD3", "DDPG", "SAC", "PRESETS", "make", "load_experiment", "report"),
    *("GAE", "TaylorQ", "TaylorGradient", "TaylorCritic", "TDDelta"),
    *("Uniform", "TaylorWeight", "AveragedWeight", "DensityRatio"),
    *("tabular", "estimators", "integrations", "__version__"),
}


def in_a_new_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names__are_those_that_are_promised_and_those_of_the_stub():
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    imported = {
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    declared = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert imported | declared == set(gp.__all__) == set(dir(gp)) == PROMISED
    assert (STUB.parent / "py.typed").is_file()


def test_stub__imports_each_name_from_where_it_is_found():
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                where = f"{node.module}:{alias.name}"
                assert vars(gp)["_WHERE"][alias.name] in (where, where.replace(":", "."))


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_every_name__resolves(name):
    pytest.importorskip("jax")
    assert in_a_new_process(f"import gammaprime as gp; print(gp.{name} is not None)") == "True\n"


def test_name_that_does_not_exist__is_refused():
    with pytest.raises(AttributeError, match="module 'gammaprime' has no attribute 'trian'"):
        gp.trian  # noqa: B018


def test_import__imports_nothing_else():
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import gammaprime\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    found = set(in_a_new_process(code).split())
    assert found == {"gammaprime"}


@pytest.mark.parametrize(
    ("use", "unneeded"),
    [
        ("gp.tabular.solve_value; gp.estimators.gae", "jax gymnasium mujoco optax"),
        ("gp.PPO(advantage=gp.TaylorQ(0.999)); gp.Evaluation(); gp.DDPG", "jax gymnasium optax"),
        ("gp.load_policy; gp.read_metrics", "jax gymnasium mujoco optax scipy safetensors"),
        ("gp.train; gp.resume; gp.evaluate; gp.Callback", "jax gymnasium mujoco optax"),
    ],
)
def test_names__import_no_more_than_they_need(use, unneeded):
    blocked = f"sys.modules.update(dict.fromkeys({unneeded.split()!r}))"
    in_a_new_process(f"import sys; {blocked}; import gammaprime as gp; {use}")
