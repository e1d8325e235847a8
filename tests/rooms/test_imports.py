"""The rooms stay apart: who may import whom, who may write files, and what nobody may do.

The rules are data.  They are checked on the syntax trees of the package, and on sources that
break them.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src/gammaprime"

WORDS = {"types", "typing"}
ARRAYS = {"lazy", "networks", "statistics", "losses", "trust_region"}
BELOW_AGENTS = {*WORDS, "tabular", "estimators", "envs", *ARRAYS}
BELOW_RUNS = {*BELOW_AGENTS, "agents", "loops"}

SHOWN = {"runs.results"}

# Room -> what it may import from the package, besides itself and the version in the package's
# own __init__.  A dotted name opens one module of a room, not the room.
MAY_IMPORT = {
    "__init__": set(),
    "__main__": {"cli"},
    "types": set(),
    "typing": set(),
    "tabular": WORDS,
    "estimators": WORDS,
    "lazy": set(),
    "losses": {*WORDS, "lazy"},
    "trust_region": {*WORDS, "lazy"},
    "networks": {*WORDS, "lazy"},
    "statistics": WORDS,
    "envs": WORDS,
    "agents": {*WORDS, "estimators", *ARRAYS},
    "loops": {*BELOW_AGENTS, "agents"},
    "runs": BELOW_RUNS,
    "experiments": {*WORDS, "tabular", "estimators"},
    "sweeps": {*BELOW_RUNS, "runs", "experiments", "figures"},
    "figures": {*WORDS, *SHOWN},
    "integrations": {
        *WORDS,
        *("estimators", "agents.advantages", "agents.weightings", "networks"),
    },
    "cli": {*BELOW_RUNS, "experiments", "runs", "sweeps", "figures"},
}
# Package -> the only rooms that may import it.
ONLY_IN = {
    "gymnasium": {"envs"},
    "mujoco": {"envs"},
    "pybullet": {"envs"},
    "pybullet_envs_gymnasium": {"envs"},
    "matplotlib": {"figures"},
    "jinja2": {"figures"},
    "tempfile": {"sweeps", "figures", "cli"},
    "shutil": {"runs", "sweeps", "figures", "cli"},
}
# Rooms that install with the core alone, and what their functions may import when it is there.
CORE = {"numpy", "scipy", "array_api_compat", "gammaprime", *sys.stdlib_module_names}
CORE_ROOMS = {
    "__init__": set(),
    "types": set(),
    "typing": set(),
    "tabular": set(),
    "estimators": {"jax", "torch"},
    "lazy": {"jax", "optax"},
    "networks": set(),
    "losses": set(),
    "trust_region": set(),
    "statistics": set(),
    "agents": set(),
}
WRITERS = {"runs", "sweeps", "figures", "cli.video"}

NOWHERE = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN_NAMES = {"eval", "exec", "getattr", "hasattr", "__import__"}
FORBIDDEN_FILES = {"utils.py"}
WRITING_CALLS = {
    *("write_text", "write_bytes", "mkdir", "makedirs", "touch", "unlink", "rmdir", "rename"),
    *("symlink_to", "hardlink_to", "savefig", "savez", "savez_compressed", "savetxt", "tofile"),
    *("np.save", "numpy.save", "jnp.save", "os.replace", "os.remove"),
}
WRITING_MODE = re.compile(r"[rbt]*[wax+][rwaxbt+]*")


def room_of(module):
    return module.split(".")[0]


def imports(tree, module, is_package):
    """(absolute name, inside a function?, line) of everything a module imports."""
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    parts = ["gammaprime", *(part for part in module.split(".") if part != "__init__")]
    parents = parts if is_package else parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and name_of(node.func).endswith("import_module"):
            names = [literal_start(node.args[0])]
        else:
            continue
        yield from ((name, id(node) in lazy, node.lineno) for name in names)


def literal_start(node):
    """The part of a string that the source spells out: "a.b." of f"a.b.{name}"."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    return first.value if isinstance(first, ast.Constant) else ""


def import_violations(tree, module, is_package):
    room = room_of(module)
    for name, lazy, line in imports(tree, module, is_package):
        package, _, inner = name.partition(".")
        if name in {"", "gammaprime."}:
            yield line, "imports what the source does not name"
        if package in NOWHERE:
            yield line, f"nothing may import {package}"
        if room not in ONLY_IN.get(package, {room}):
            yield line, f"only {sorted(ONLY_IN[package])} may import {package}"
        if room in CORE_ROOMS and package not in CORE | (CORE_ROOMS[room] if lazy else set()):
            yield line, f"{room} may not import {package} {'here' if lazy else 'at its top'}"
        target = room_of(inner)
        if package == "gammaprime" and target in MAY_IMPORT and target != room:
            allowed = MAY_IMPORT[room]
            prefixes = {".".join(inner.split(".")[:n]) for n in (1, 2)}
            if not prefixes & allowed:
                yield line, f"{room} may not import {inner}"


def name_of(node):
    """The dotted name of an expression such as np.save, as far as it has one."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def opens_for_writing(call):
    """open(path, "w"), path.open("w"), or a mode that cannot be read from the source."""
    if name_of(call.func) == "os.open" or name_of(call.func).split(".")[-1] != "open":
        return False
    named = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    is_method = isinstance(call.func, ast.Attribute)
    modes = named or (call.args[:2] if is_method else call.args[1:2])
    constants = [node.value for node in modes if isinstance(node, ast.Constant)]
    unknown = len(constants) < len(named or call.args[1:2])
    return unknown or any(WRITING_MODE.fullmatch(str(mode)) for mode in constants)


def use_violations(tree, module):
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in FORBIDDEN_NAMES:
                yield node.lineno, f"nothing may use {name}"
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                yield node.value.lineno, "nothing may be unpickled"
            case ast.Call(func=function) if not {module, room_of(module)} & WRITERS:
                called = name_of(function)
                if {called, called.split(".")[-1]} & WRITING_CALLS or opens_for_writing(node):
                    yield node.lineno, f"only {sorted(WRITERS)} may write files ({called})"


def violations(source, module, is_package=False):
    """What a module of the package (tabular.mdp, cli, ...) does against the rules."""
    tree = ast.parse(source)
    room = room_of(module)
    if room not in MAY_IMPORT:
        return [f"{module}: the room {room} has no rules in MAY_IMPORT"]
    found = [*import_violations(tree, module, is_package), *use_violations(tree, module)]
    return [f"{module}:{line}: {message}" for line, message in sorted(found)]


def modules():
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).with_suffix("")
        is_package = path.name == "__init__"
        inside = path.parent if is_package and len(path.parts) > 1 else path
        yield pytest.param(file, ".".join(inside.parts), is_package, id=path.as_posix())


@pytest.mark.parametrize(("file", "module", "is_package"), list(modules()))
def test_module__keeps_the_rules_of_its_room(file, module, is_package):
    assert file.name not in FORBIDDEN_FILES
    assert violations(file.read_text(encoding="utf-8"), module, is_package) == []


BROKEN = [
    ("tabular.values", "from gammaprime.estimators import gae", "may not import estimators"),
    ("estimators.scan", "from gammaprime import tabular", "may not import tabular"),
    ("estimators.scan", "from ..tabular import values", "may not import tabular"),
    ("estimators.scan", "def f():\n    import gammaprime.tabular", "may not import tabular"),
    ("types", "from gammaprime.tabular.mdp import MDP", "may not import tabular"),
    ("agents.ppo", "from gammaprime.loops.rollout import roll", "may not import loops"),
    ("loops.loop", "from gammaprime.runs import lock", "may not import runs.lock"),
    ("figures.curves", "from gammaprime.experiments.toy import run", "not import experiments.toy"),
    ("figures.curves", "from gammaprime import runs", "may not import runs"),
    ("figures.curves", "from gammaprime.runs.training import train", "may not import runs.train"),
    ("loops.loop", "import gymnasium", "only ['envs']"),
    ("experiments.toy", "from matplotlib import pyplot", "only ['figures']"),
    ("tabular.mdp", "def f():\n    import jax", "tabular may not import jax here"),
    ("estimators.scan", "import jax.numpy as jnp", "estimators may not import jax at its top"),
    ("estimators.scan", "try:\n    import torch\nexcept ImportError: ...", "may not import torch"),
    ("types", "import optax", "may not import optax"),
    ("agents.ppo", "import jax", "agents may not import jax at its top"),
    ("networks", "def f():\n    import jax", "networks may not import jax here"),
    ("runs.run", "import pickle", "nothing may import pickle"),
    ("runs.run", "np.load(path, allow_pickle=True)", "unpickled"),
    ("cli", "eval(text)", "nothing may use eval"),
    ("cli", "importlib.import_module(name)", "does not name"),
    ("cli", "import_module(f'gammaprime.{name}')", "does not name"),
    (
        "figures.curves",
        "import_module(f'gammaprime.experiments.toy{x}')",
        "may not import experiments.toy",
    ),
    ("agents.ppo", "names = map(getattr, a, b)", "nothing may use getattr"),
    ("agents.ppo", "open(path, 'w')", "write files"),
    ("agents.ppo", "open(path, mode=mode)", "write files"),
    ("loops.log", "Path(path).open('ab')", "write files"),
    ("loops.log", "gzip.open(path, 'wt')", "write files"),
    ("cli", "Path(name).write_text(text)", "write files"),
    ("cli", "out.parent.mkdir(parents=True)", "write files"),
    ("estimators.scan", "np.save(path, x)", "write files"),
    ("loops.log", "import tempfile", "only ['cli', 'figures', 'sweeps']"),
    ("attic.old", "x = 1", "no rules"),
]
CLEAN = [
    ("tabular.values", "from gammaprime.types import Order\nfrom gammaprime.tabular import mdp"),
    ("estimators.scan", "from . import weights\nfrom ..types import Order"),
    ("estimators.scan", "def f():\n    import jax\n    import torch"),
    ("estimators.scan", "import math, scipy.special\nimport array_api_compat as compat"),
    ("envs.gym", "import gymnasium"),
    ("figures.curves", "import matplotlib\nfrom gammaprime.runs.results import Result"),
    ("runs.run", "path.write_text(text)\nimport gammaprime\ngammaprime.__version__"),
    ("cli", "def f():\n    from gammaprime.figures import curves"),
    ("agents.ppo", "open(path)\nPath(path).open()\nopen(path, 'rb')\ntext.replace('w', 'x')"),
    ("agents.ppo", "state = replace(state, x=1)\nagent.save\nnp.load(path, allow_pickle=False)"),
]


@pytest.mark.parametrize(("module", "source", "message"), BROKEN)
def test_checker__catches(module, source, message):
    found = violations(source, module)
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize(("module", "source"), CLEAN)
def test_checker__lets_pass(module, source):
    assert violations(source, module) == []
