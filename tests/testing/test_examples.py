"""The examples in the docstrings of alfine.testing, and its public names."""

import doctest
import importlib
import pkgutil

import pytest

import alfine.testing

MODULES = ["alfine.testing", *(f"alfine.testing.{m.name}" for m in pkgutil.iter_modules(alfine.testing.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", alfine.testing.__all__)
def test_a_public_name_has_a_docstring(name: str) -> None:
    public = getattr(alfine.testing, name)
    assert name == "Script" or public.__doc__.strip()


def test_a_public_class_has_an_example() -> None:
    classes = [c for c in vars(alfine.testing).values() if isinstance(c, type)]
    assert [c.__name__ for c in classes if ">>>" not in str(c.__doc__)] == []
