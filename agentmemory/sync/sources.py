"""Reads async classes as source text: members with those of base classes, and what names mean.

May import nothing of the package: it reads files. A part of the generator.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = "agentmemory"
_BUILTINS: Final = frozenset(dir(builtins))


class TranslationError(Exception):
    """Something in an async class that has no blocking twin by rule.

    Args:
        module: The module it stands in.
        node: Where.
        problem: What it is, and what would do.
    """

    def __init__(self, module: Module, node: ast.AST, problem: str) -> None:
        super().__init__(f"{module.path}:{getattr(node, 'lineno', 0)}: {problem}")


@dataclass(frozen=True, slots=True)
class Binding:
    """How a module gets a name.

    Args:
        statement: The import that gives another module the same.
        guarded: Whether it is there for type checkers only.
        home: The module of the package that defines it, if one does.
        name: Its name there.
    """

    statement: str
    guarded: bool = False
    home: str | None = None
    name: str = ""


class Module:
    """A module of the package.

    Args:
        root: The directory of the package.
        name: The module's name below the package, dotted.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self.name = name
        file = root.joinpath(*name.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        self.path: Final = file.relative_to(root.parent).as_posix()
        text = file.read_text(encoding="utf-8")
        self._lines = text.splitlines()
        self._tree = ast.parse(text, self.path)
        self._bindings = dict(self._bind(self._tree.body, guarded=False))

    def lines_of(self, node: ast.stmt) -> list[str]:
        """Return the lines a statement stands on."""
        return self._lines[node.lineno - 1 : node.end_lineno]

    def class_named(self, name: str) -> ast.ClassDef | None:
        """Return the class that the module defines under this name, if it does."""
        for node in self._tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
        return None

    def binding(self, name: str, node: ast.AST) -> Binding | None:
        """Say where a name comes from; None for a built-in one.

        Raises:
            TranslationError: From nowhere that can be seen.
        """
        found = self._bindings.get(name)
        if found is None and name not in _BUILTINS:
            raise TranslationError(self, node, f"it cannot be seen where `{name}` comes from")
        return found

    def members(self, owner: ast.ClassDef) -> Iterator[tuple[Module, ast.stmt]]:
        """Give the members of a class and then those of its bases, each with its module.

        Raises:
            TranslationError: A base class is not one of the package.
        """
        for statement in owner.body:
            yield self, statement
        for base in owner.bases:
            yield from self._base_members(base)

    def _base_members(self, base: ast.expr) -> Iterator[tuple[Module, ast.stmt]]:
        bound = self._bindings.get(base.id) if isinstance(base, ast.Name) else None
        if bound is None or bound.home is None:
            raise TranslationError(
                self, base, f"base class `{ast.unparse(base)}` is none of the package's own"
            )
        module = self if bound.home == self.name else Module(self._root, bound.home)
        found = module.class_named(bound.name)
        if found is None:
            raise TranslationError(
                self, base, f"base class `{bound.name}` is not a class of {module.path}"
            )
        yield from module.members(found)

    def _bind(self, statements: list[ast.stmt], *, guarded: bool) -> Iterator[tuple[str, Binding]]:
        for node in statements:
            match node:
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    yield from self._bind(node.body, guarded=True)
                case ast.Import():
                    for alias in node.names:
                        bound = alias.asname or alias.name.partition(".")[0]
                        yield bound, Binding(f"import {_alias(alias)}", guarded)
                case ast.ImportFrom(module=str(home)):
                    for alias in node.names:
                        yield (
                            alias.asname or alias.name,
                            Binding(
                                f"from {home} import {_alias(alias)}",
                                guarded,
                                home.removeprefix(f"{PACKAGE}.") if _is_own(home) else None,
                                alias.name,
                            ),
                        )
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    yield name, self._own(name)
                case ast.Assign(targets=targets):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            yield target.id, self._own(target.id)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield name, self._own(name)
                case _:
                    pass

    def _own(self, name: str) -> Binding:
        return Binding(f"from {PACKAGE}.{self.name} import {name}", home=self.name, name=name)


def _alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _is_own(module: str) -> bool:
    return module.startswith(f"{PACKAGE}.")
