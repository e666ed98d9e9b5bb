"""What is public is decided, not drifted into: names, docstrings, keyword-only arguments."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import agentmemory
from tests.support.public_names import pinned_names, public_modules, public_names

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

# What may be given by position: the thing itself, and what is done to it.
MOST_POSITIONAL = 2
# A link reads like a sentence: source, target, relation.
SENTENCES = frozenset({"link_records"})


def value_of(full_name: str) -> Any:
    module, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_the_public_names_are_those_that_were_decided_on() -> None:
    assert public_names() == pinned_names(), (
        "to change the public names on purpose, run `python -m tests.support.public_names`"
    )


@pytest.mark.parametrize("module", public_modules())
def test_a_public_module_lists_each_of_its_names_once(module: str) -> None:
    names = importlib.import_module(module).__all__
    assert len(names) == len(set(names))
    assert set(names) <= set(dir(importlib.import_module(module)))


@pytest.mark.parametrize("module", public_modules())
def test_a_name_that_is_not_there_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        value_of(f"{module}.no_such_name")


@pytest.mark.parametrize("module", public_modules())
def test_everything_public_can_be_imported_with_a_star(module: str) -> None:
    space: dict[str, Any] = {}
    exec(f"from {module} import *", space)
    assert set(importlib.import_module(module).__all__) <= set(space)


@pytest.mark.parametrize("full_name", pinned_names())
def test_a_public_class_or_function_has_a_docstring(full_name: str) -> None:
    value = value_of(full_name)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert inspect.getdoc(value)
        # The one that dataclasses write themselves is the signature.
        assert not (value.__doc__ or "").startswith(f"{value.__name__}(")


def test_the_version_is_the_one_that_is_installed() -> None:
    assert agentmemory.__version__ == version("agentmemory")


def public_methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in inspect.getmembers(owner, inspect.isroutine):
        own = any(
            name in base.__dict__ and base.__module__.startswith("agentmemory")
            for base in owner.__mro__
        )
        if own and not name.startswith("_"):
            yield name, value


def positional(function: Any) -> list[str]:
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
        and parameter.name not in {"self", "cls"}
    ]


CLASSES = [name for name in pinned_names() if inspect.isclass(value_of(name))]


@pytest.mark.parametrize("full_name", CLASSES)
def test_public_methods_take_the_rest_by_keyword_and_say_what_they_do(full_name: str) -> None:
    owner = value_of(full_name)
    if issubclass(owner, enum.Enum | BaseException):
        return
    crowded = {
        name: positional(method)
        for name, method in public_methods(owner)
        if len(positional(method)) > MOST_POSITIONAL and name not in SENTENCES
    }
    assert crowded == {}
    silent = {name for name, method in public_methods(owner) if not inspect.getdoc(method)}
    assert silent == set()


@pytest.mark.parametrize("full_name", CLASSES)
def test_a_public_value_is_frozen_and_built_by_keyword(full_name: str) -> None:
    owner = value_of(full_name)
    if not dataclasses.is_dataclass(owner):
        return
    params: Any = vars(owner)["__dataclass_params__"]
    assert params.frozen
    assert len(positional(owner)) <= 1


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    documented = {line.split("::")[1].strip() for line in pages.splitlines() if "::" in line}
    missing = [
        name
        for name in pinned_names()
        if not name.endswith("__")
        and not {name, name.rpartition(".")[0], getattr(value_of(name), "__module__", "")}
        & documented
    ]
    assert missing == []
