"""Public functions of the exact and the sampled room explain every argument, by example too."""

import doctest
import inspect
import re

import pytest

from gammaprime import estimators, tabular

PUBLIC = {
    f"{room.__name__.split('.')[-1]}.{name}": vars(room)[name]
    for room in (tabular, estimators)
    for name in room.__all__
    if inspect.isfunction(vars(room)[name])
}


def section(docstring, title):
    """The indented lines below a title such as "Args:"."""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("function", PUBLIC.values(), ids=PUBLIC)
def test_docstring__names_every_argument_once_and_what_comes_back(function):
    described = re.findall(r"^    (\w+): \S", section(function.__doc__, "Args"), re.MULTILINE)
    assert described == list(inspect.signature(function).parameters)
    assert section(function.__doc__, "Returns").strip()


@pytest.mark.parametrize("function", PUBLIC.values(), ids=PUBLIC)
def test_example__runs_as_printed(function):
    (example,) = doctest.DocTestFinder(recurse=False).find(
        function, globs=dict(vars(inspect.getmodule(function)))
    )
    assert example.examples
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_section__is_the_indented_block_below_its_title():
    docstring = (
        "Add.\n\n    Args:\n        a: One.\n            More.\n        b: Two.\n\n    Paper: x.\n"
    )
    assert section(docstring, "Args") == "    a: One.\n        More.\n    b: Two.\n\n"
    assert section(docstring, "Returns") == ""
