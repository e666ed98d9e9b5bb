"""Rules for scopes: the table of what each layer finds; may import the library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentmemory.client import AsyncAgentMemory
from agentmemory.errors import NotFoundError, ScopeError, ValidationError
from agentmemory.requests import ListQuery, RecordFilter
from agentmemory.scope import NOT_SET_MARKER, DimensionMatch, ScopeFilter, SearchScope
from agentmemory.testing.conformance.base import NOW, StoreRules, ids, record, refused

Layer = Literal["thread", "client", "store"]
Outcome = Literal["all", "own", "id", "none", "refused"]

USERS: Final = ("u1", "u2", None)
AGENTS: Final = ("a1", "a2", None)
DIMENSIONS: Final = ("user_id", "agent_id", "thread_id")
GIVEN: Final = {"user_id": "u2", "agent_id": "a2", "thread_id": "t-u1-other"}
"""The id that a cell passes, other than the thread's own."""

OWN: Final = {"user_id": "u1", "agent_id": "a1", "thread_id": "t-u1"}
"""What belongs to the thread that searches."""

_OMITTED: Final = NOT_SET_MARKER


@dataclass(frozen=True, slots=True)
class ScopeCell:
    """One cell of the table: what one dimension finds at one layer.

    Args:
        layer: Where the search starts.
        dimension: "user_id", "agent_id" or "thread_id".
        value: `NOT_SET_MARKER`, None or an id.
        exact: The exact flag of the dimension, or `NOT_SET_MARKER`.
        outcome: "all" (no filter), "own" (the thread's value), "id" (the value given), "none"
            (records without one), "refused" (an error).
        preferred: The value whose records stand first although it does not filter.
    """

    layer: Layer
    dimension: str
    value: Any
    exact: Any
    outcome: Outcome
    preferred: str | None = None

    def __str__(self) -> str:
        value = "omitted" if self.value is _OMITTED else self.value
        exact = "omitted" if self.exact is _OMITTED else self.exact
        return f"{self.layer} {self.dimension}={value} exact={exact}"


def _cells() -> Iterator[ScopeCell]:
    for dimension in DIMENSIONS:
        given, own = GIVEN[dimension], OWN[dimension]
        for layer in ("store", "client"):
            if layer == "client" and dimension == "user_id":
                continue
            yield ScopeCell(layer, dimension, _OMITTED, _OMITTED, "all")
            yield ScopeCell(layer, dimension, _OMITTED, False, "all")
            yield ScopeCell(layer, dimension, _OMITTED, True, "refused")
        yield ScopeCell(
            "thread",
            dimension,
            _OMITTED,
            _OMITTED,
            "all" if dimension == "thread_id" else "own",
            own if dimension == "thread_id" else None,
        )
        yield ScopeCell("thread", dimension, _OMITTED, False, "all", own)
        yield ScopeCell("thread", dimension, _OMITTED, True, "own")
        layers: tuple[Layer, ...] = ("store", "client", "thread")
        for each in layers:
            inexact: Outcome = "all"
            if each == "client" and dimension == "user_id":
                for exact in (_OMITTED, False, True):
                    yield ScopeCell(each, dimension, _OMITTED, exact, "refused")
                inexact = "refused"
            preferred = given if inexact == "all" else None
            yield ScopeCell(each, dimension, None, _OMITTED, "none")
            yield ScopeCell(each, dimension, None, False, inexact)
            yield ScopeCell(each, dimension, None, True, "none")
            yield ScopeCell(each, dimension, given, _OMITTED, "id")
            yield ScopeCell(each, dimension, given, False, inexact, preferred)
            yield ScopeCell(each, dimension, given, True, "id")


SCOPE_TABLE: Final = tuple(_cells())
"""Every layer, dimension, value and flag."""


async def fill_scopes(memory: AsyncAgentMemory) -> Any:
    """Store one memory for every user, agent and thread, and return the thread that searches."""
    own = await memory.create_thread(thread_id="t-u1", user_id="u1", agent_id="a1")
    for user in USERS:
        if user != "u1":
            await memory.create_thread(thread_id=f"t-{user}", user_id=user)
        await memory.create_thread(thread_id=f"t-{user}-other", user_id=user)
        for agent in AGENTS:
            for thread in (f"t-{user}", f"t-{user}-other", None):
                await memory.add_memory(
                    "kite",
                    memory_id=f"{user}/{agent}/{thread}",
                    user_id=user,
                    agent_id=agent,
                    thread_id=thread,
                )
    return own


def expected_in(cell: ScopeCell) -> set[str]:
    """Return the ids a search of a cell has to find."""
    bounds: dict[str, Any] = {}
    if cell.layer == "client":
        bounds["user_id"] = "u1"
    elif cell.layer == "thread":
        bounds = {"user_id": "u1", "agent_id": "a1"}
    bounds.pop(cell.dimension, None)
    if cell.outcome != "all":
        value = {"own": OWN[cell.dimension], "id": cell.value, "none": None}[cell.outcome]
        bounds[cell.dimension] = value
    found = set()
    for user in USERS:
        for agent in AGENTS:
            for thread in (f"t-{user}", f"t-{user}-other", None):
                values = {"user_id": user, "agent_id": agent, "thread_id": thread}
                if all(values[name] == value for name, value in bounds.items()):
                    found.add(f"{user}/{agent}/{thread}")
    return found


def arguments_of(cell: ScopeCell) -> dict[str, Any]:
    """Return the arguments by which a cell searches."""
    given: dict[str, Any] = {"max_results": 100}
    if cell.layer == "client" and cell.dimension != "user_id":
        given["user_id"] = "u1"
    if cell.value is not _OMITTED:
        given[cell.dimension] = cell.value
    if cell.exact is not _OMITTED:
        given[f"exact_{cell.dimension.removesuffix('_id')}_match"] = cell.exact
    return given


def check_found(cell: ScopeCell, found: list[str]) -> None:
    """Compare what a search of a cell found, and in which order."""
    assert set(found) == expected_in(cell), str(cell)
    preferred = {cell.dimension: cell.preferred} if cell.preferred is not None else {}
    if cell.layer == "thread":
        preferred.setdefault("thread_id", OWN["thread_id"])
    matches = [
        sum(name.split("/")[DIMENSIONS.index(key)] == value for key, value in preferred.items())
        for name in found
    ]
    if cell.preferred is not None:
        assert matches == sorted(matches, reverse=True), f"{cell}: {found}"


class ScopeRules(StoreRules):
    """Scopes on every path."""

    async def test_every_cell_of_the_scope_table(self) -> None:
        """Omitted, None or an id, exact or not, at the thread, the client and the store."""
        async with self.memory() as memory:
            thread = await fill_scopes(memory)
            layers: dict[str, Callable[..., Awaitable[Any]]] = {
                "thread": thread.search,
                "client": memory.search,
                "store": memory.store.search,
            }
            for cell in SCOPE_TABLE:
                search = layers[cell.layer]
                if cell.outcome == "refused":
                    with refused(ScopeError, "`"):
                        await search("kite", **arguments_of(cell))
                else:
                    check_found(cell, ids(await search("kite", **arguments_of(cell))))

    async def test_a_scope_object_means_the_same_as_its_fields(self) -> None:
        """And together with fields it is refused."""
        async with self.memory() as memory:
            thread = await fill_scopes(memory)
            for layer, search in (("client", memory.search), ("thread", thread.search)):
                fields: dict[str, Any] = {
                    "user_id": "u1",
                    "agent_id": None,
                    "thread_id": "t-u1",
                    "exact_thread_match": True,
                }
                by_object = await search("kite", scope=SearchScope(**fields), max_results=100)
                assert ids(by_object) == ids(await search("kite", max_results=100, **fields)), layer
                with refused(ScopeError, "`scope`"):
                    await search("kite", scope=SearchScope(user_id="u1"), agent_id="a1")

    async def test_lists_take_an_omitted_dimension_for_any_and_none_for_none(self) -> None:
        """The client always names the user; a thread lists its own only."""
        async with self.memory() as memory:
            thread = await fill_scopes(memory)
            everything = ids(await memory.list_memories(user_id="u1"))
            assert len(everything) == 9
            assert ids(await memory.list_memories(user_id="u1", agent_id=None)) == [
                name for name in everything if name.split("/")[1] == "None"
            ]
            assert ids(await memory.list_memories(user_id="u1", agent_id="a2", thread_id=None)) == [
                "u1/a2/None"
            ]
            assert ids(await thread.list_memories()) == ["u1/a1/t-u1"]
            with refused(ScopeError, "`user_id`"):
                await memory.list_memories()

    async def test_a_record_is_not_there_for_another_scope(self) -> None:
        """By-id calls with the wrong scope find nothing and change nothing."""
        async with self.memory() as memory:
            thread = await fill_scopes(memory)
            name = "u2/a1/t-u2"
            calls: tuple[Callable[..., Awaitable[Any]], ...] = (
                memory.get_memory,
                memory.delete_memory,
                lambda name, **scope: memory.update_memory(name, content="x", **scope),
            )
            scopes: tuple[dict[str, Any], ...] = (
                {"user_id": "u1"},
                {"user_id": None},
                {"agent_id": "a2"},
                {"agent_id": None},
                {"thread_id": "t-u1"},
                {"thread_id": None},
            )
            for call in calls:
                for scope in scopes:
                    with refused(NotFoundError, name):
                        await call(name, **scope)
            for owner_call in (thread.get_memory, thread.delete_memory):
                with refused(NotFoundError, name):
                    await owner_call(name)
            found = await memory.get_memory(name, user_id="u2", agent_id="a1", thread_id="t-u2")
            assert found.content == "kite"

    async def test_nobody_writes_into_the_thread_of_another_user(self) -> None:
        """For the writer that thread is not there."""
        async with self.memory() as memory:
            await memory.create_thread(thread_id="t1", user_id="u1")
            for user in ("u2", None):
                with refused(NotFoundError, "'t1'"):
                    await memory.add_memory("kite", user_id=user, thread_id="t1")
            await memory.add_memory("kite", user_id="u1", thread_id="t1", agent_id="a9")

    async def test_the_store_enforces_the_scope_itself(self) -> None:
        """Lists and lookups of the protocol return nothing from outside the filter."""
        async with self.store() as store:
            await store.add_records(
                [record("mine"), record("theirs", user_id="u2"), record("nobodys", user_id=None)]
            )
            for user, expected in (("u1", "mine"), ("u2", "theirs"), (None, "nobodys")):
                scope = ScopeFilter(user=DimensionMatch(exact=True, value=user))
                bound = RecordFilter(scope=scope, now=NOW)
                page = await store.list_records(ListQuery(filter=bound))
                assert ids(page) == [expected]
                every = RecordFilter(scope=scope, now=NOW, ids=("mine", "theirs", "nobodys"))
                assert ids(await store.get_records(every)) == [expected]

    async def test_malformed_ids_are_refused(self) -> None:
        """An id is text of 1 to 128 bytes."""
        async with self.memory() as memory:
            for bad in ("", " ", "é" * 65, 7, b"u", ["u"]):
                with refused(ValidationError, "`user_id`"):
                    await memory.search("kite", user_id=bad)  # type: ignore[arg-type]
