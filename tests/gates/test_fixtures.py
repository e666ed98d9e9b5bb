"""No yield fixture holds a task group, a cancel scope or a deadline.

pytest-asyncio may finish such a fixture in another task than the one that entered it, which anyio
refuses, and which hides the failure of the test behind an error of the fixture.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))
SCOPES = frozenset(
    {
        "CancelScope",
        "TaskGroup",
        "create_task_group",
        "fail_after",
        "fail_at",
        "move_on_after",
        "move_on_at",
        "timeout",
        "timeout_at",
    }
)


def _is_fixture(node: ast.AsyncFunctionDef) -> bool:
    names = [
        part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
        for decorator in node.decorator_list
        for part in ast.walk(decorator)
    ]
    return "fixture" in names


def _opens_scope(node: ast.AST) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in SCOPES)
        or (isinstance(part, ast.Name) and part.id in SCOPES)
        for part in ast.walk(node)
    )


def scoped_yields(source: str) -> Iterator[str]:
    """Name the async fixtures of a file that yield inside a scope."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.AsyncFunctionDef) or not _is_fixture(function):
            continue
        for block in ast.walk(function):
            if (
                isinstance(block, ast.With | ast.AsyncWith)
                and any(_opens_scope(item.context_expr) for item in block.items)
                and any(isinstance(part, ast.Yield) for part in ast.walk(block))
            ):
                yield function.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_no_yield_fixture_holds_a_scope(path: Path) -> None:
    assert list(scoped_yields(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "opening",
    [
        "async with anyio.create_task_group() as group",
        "with anyio.fail_after(5)",
        "with CancelScope(shield=True)",
        "async with asyncio.timeout(1), other()",
    ],
)
@pytest.mark.parametrize("decorator", ["pytest.fixture", "pytest_asyncio.fixture(scope='module')"])
def test_a_fixture_that_holds_a_scope_is_found(opening: str, decorator: str) -> None:
    source = f"@{decorator}\nasync def bad():\n    {opening}:\n        yield 1\n"
    assert list(scoped_yields(source)) == ["bad"]


def test_a_scope_that_ends_before_the_yield_is_fine() -> None:
    source = (
        "@pytest.fixture\nasync def good():\n    with anyio.fail_after(5):\n        x = await f()\n"
        "    yield x\n"
    )
    assert list(scoped_yields(source)) == []
