"""An Oracle server that is none: sessions, what they did, and what goes wrong with them.

It stands behind the real python-oracledb: `installed` replaces the driver's network layer, so that
`oracledb.connect_async`, `create_pool_async`, `connect` and `create_pool` reach it, and classes,
signatures, binding and pooling are the driver's own. What a statement does is up to a `Database`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import Counter, OrderedDict
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import oracledb

from tests.support.oracle.faults import Fault, Faults
from tests.support.oracle.internals import thin_impl
from tests.support.oracle.values import Answer, DatabaseSession, Request

HOST: Final = "db.example.com"
SERVICE: Final = "memory"
USER: Final = "memory_app"
PASSWORD: Final = "correct horse"


@dataclass(frozen=True, slots=True)
class Trip:
    """One round trip that was made.

    Args:
        name: As the driver calls it: "execute", "pipeline", "commit", …
        statements: The statements that travelled in it.
        session: The number of its session.
    """

    name: str
    statements: tuple[str, ...]
    session: int


@dataclass(frozen=True, slots=True)
class Executed:
    """One statement that reached the database.

    Args:
        text: The SQL.
        binds: Values by name of each execution.
        session: The number of its session.
        error: What it failed with.
    """

    text: str
    binds: tuple[Mapping[str, Any], ...]
    session: int
    error: BaseException | None = None


class ServerSession:
    """One session of the server, with what the driver keeps of it.

    Args:
        server: Where it belongs.
        number: Unique in its server.
        user: Who logged in, in capitals.
        work: What runs its statements.
    """

    def __init__(self, server: OracleServer, number: int, user: str, work: DatabaseSession) -> None:
        self.server = server
        self.number = number
        self.user = user
        self.work = work
        self.alive = True
        self.out_of_step = False
        self.deaf = False
        self.breaking: asyncio.Task[None] | None = None
        self.app_context: dict[str, dict[str, str]] = {}
        self.cached: OrderedDict[str, bool] = OrderedDict()

    @property
    def in_transaction(self) -> bool:
        """Whether it holds uncommitted changes or locks."""
        return self.alive and self.work.in_transaction

    def execute(self, trip: str, request: Request) -> Generator[Any, Any, Answer]:
        """Run one statement and note it."""
        binds = tuple(
            {name: bind.value for name, bind in execution.items()}
            for execution in request.executions
        )
        try:
            self.server.faults.for_statement(trip, request.text)
            answer = yield from self.work.execute(request)
        except BaseException as error:
            self.server.executed.append(Executed(request.text, binds, self.number, error))
            raise
        self.server.executed.append(Executed(request.text, binds, self.number))
        return answer

    def kill(self) -> None:
        """End it, as a network that breaks does; the database rolls back."""
        if self.alive:
            self.alive = False
            self.work.discard()


@dataclass(slots=True)
class OracleServer:
    """The server: what it is, what happened on it, what is wrong with it.

    Args:
        database: What runs the statements: a `values.Database`.
        version: As the driver reports it.
        pipelining: Whether many statements travel in one trip; servers before 23 do not.
        request_boundaries: Whether a pooled connection that was used is rolled back when it
            returns, as on servers from 19 on; otherwise only if a transaction is open.
    """

    database: Any
    version: tuple[int, int, int, int, int] = (23, 26, 0, 0, 0)
    pipelining: bool = True
    request_boundaries: bool = True
    faults: Faults = field(default_factory=Faults)
    sessions: list[ServerSession] = field(default_factory=list)
    trips: list[Trip] = field(default_factory=list)
    executed: list[Executed] = field(default_factory=list)
    logins: list[oracledb.ConnectParams] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    cursors: int = 0
    answering: set[asyncio.Task[Any]] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    # A cursor may be collected, and then counted, while its own thread holds it.
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def statements(self) -> list[str]:
        """The texts of all statements that reached the database, in order."""
        return [executed.text for executed in self.executed]

    @property
    def open_sessions(self) -> list[ServerSession]:
        """Sessions that have not ended."""
        return [session for session in self.sessions if session.alive]

    @property
    def open_transactions(self) -> list[ServerSession]:
        """Sessions that hold uncommitted changes or locks."""
        return [session for session in self.sessions if session.in_transaction]

    def count(self, *names: str) -> int:
        """Return how many trips of these names were made; of no name: of all."""
        made = Counter(trip.name for trip in self.trips)
        return sum(made[name] for name in names) if names else len(self.trips)

    def forget(self) -> None:
        """Start to count and to note anew."""
        self.trips.clear()
        self.executed.clear()

    def login(
        self, params: oracledb.ConnectParams, *, is_async: bool
    ) -> Generator[Any, Any, ServerSession]:
        """Open a session."""
        self.logins.append(params)
        user = str(params.user or "").upper()
        work = yield from self.database.session(user, is_async=is_async)
        session = ServerSession(self, next(self.numbers), user, work)
        self.sessions.append(session)
        return session

    def note(self, name: str, statements: tuple[str, ...], session: ServerSession) -> Fault | None:
        """Note a trip and return the fault it is to have."""
        with self.lock:
            self.trips.append(Trip(name, statements, session.number))
            return self.faults.for_trip(name, statements)

    def violate(self, what: str) -> None:
        """Note what the driver's documents forbid."""
        self.violations.append(what)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Take care of what the database does on its own."""
        self.answering.add(task)
        task.add_done_callback(self.answering.discard)

    def shut_down(self) -> None:
        """End all sessions."""
        for session in self.sessions:
            session.kill()

    async def settle(self) -> None:
        """Wait until the database is done with requests that nobody waits for any more."""
        while self.answering:
            await asyncio.wait(self.answering)

    def check_clean(self) -> None:
        """Fail if anything was left behind.

        Raises:
            AssertionError: A cursor or a transaction is open, or a rule of the driver was broken.
        """
        assert not self.violations, self.violations
        assert not self.open_transactions, [s.number for s in self.open_transactions]
        assert self.cursors == 0, f"{self.cursors} cursors were not closed"


_current: OracleServer | None = None


def current_server() -> OracleServer:
    """Return the server that the driver reaches now."""
    assert _current is not None, "no emulated server is installed"
    return _current


@contextlib.contextmanager
def installed(server: OracleServer) -> Iterator[OracleServer]:
    """Let python-oracledb reach a server instead of the network."""
    global _current  # noqa: PLW0603
    from tests.support.oracle import driver, pools

    before = _current
    replaced = {
        "ThinConnImpl": driver.EmulatedConnection,
        "AsyncThinPoolImpl": pools.EmulatedAsyncPool,
        "ThinPoolImpl": pools.EmulatedPool,
    }
    originals = {name: getattr(thin_impl, name) for name in replaced}
    _current = server
    for name, replacement in replaced.items():
        setattr(thin_impl, name, replacement)
    try:
        yield server
    finally:
        _current = before
        for name, original in originals.items():
            setattr(thin_impl, name, original)
