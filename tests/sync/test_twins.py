"""Each async class and its blocking twin are the same but for `async`."""

from __future__ import annotations

import inspect
import re
import typing
from typing import Any

import pytest

from agentmemory import AgentMemory, AsyncAgentMemory, AsyncStore, AsyncThread, Store, Thread
from agentmemory.sync.generate import TWINS

PAIRS = [(AsyncAgentMemory, AgentMemory), (AsyncThread, Thread), (AsyncStore, Store)]
CONTEXT = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
IDS = [blocking.__name__ for _, blocking in PAIRS]


def blocking_text(text: Any) -> Any:
    """An annotation or docstring as the blocking side has to spell it."""
    if not isinstance(text, str):
        return text
    return re.sub(r"\bAsync(AgentMemory|Thread|Store)\b", r"\1", text)


def members(owner: type) -> dict[str, Any]:
    """The public members of a class, and those that make it a context manager."""
    special = {*CONTEXT, *CONTEXT.values()}
    return {
        name: inspect.getattr_static(owner, name)
        for name in dir(owner)
        if name in special or not name.startswith("_")
    }


def signature(function: Any) -> list[tuple[Any, ...]]:
    found = inspect.signature(function)
    parameters = [
        (each.name, each.kind, each.default, blocking_text(each.annotation))
        for each in found.parameters.values()
    ]
    return [*parameters, (blocking_text(found.return_annotation),)]


@pytest.mark.parametrize(("asynchronous", "blocking"), PAIRS, ids=IDS)
def test_twins_have_the_same_members(asynchronous: type, blocking: type) -> None:
    names = {CONTEXT.get(name, name) for name in members(asynchronous)}
    assert names == set(members(blocking))
    assert len(names) > 2


METHODS = [
    pytest.param(
        member, members(blocking)[CONTEXT.get(name, name)], id=f"{blocking.__name__}.{name}"
    )
    for asynchronous, blocking in PAIRS
    for name, member in members(asynchronous).items()
]


@pytest.mark.parametrize(("member", "twin"), METHODS)
def test_a_member_and_its_twin_have_the_same_signature_and_docstring(
    member: Any, twin: Any
) -> None:
    if isinstance(member, property):
        assert isinstance(twin, property)
        member, twin = member.fget, twin.fget
    else:
        assert inspect.iscoroutinefunction(member)
        assert inspect.isfunction(twin)
    assert not inspect.iscoroutinefunction(twin)
    assert signature(twin) == signature(member)
    assert inspect.getdoc(twin) == blocking_text(inspect.getdoc(member))


def test_the_client_is_made_with_the_same_arguments() -> None:
    assert signature(AgentMemory) == signature(AsyncAgentMemory)


@pytest.mark.parametrize("blocking", [blocking for _, blocking in PAIRS], ids=IDS)
def test_the_annotations_of_a_twin_can_be_resolved(blocking: type) -> None:
    for member in members(blocking).values():
        function = member.fget if isinstance(member, property) else member
        assert "return" in typing.get_type_hints(function)


def test_every_twin_is_public() -> None:
    assert {(twin.source, twin.name) for twin in TWINS} == {
        (asynchronous.__name__, blocking.__name__) for asynchronous, blocking in PAIRS
    }
