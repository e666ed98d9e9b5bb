"""Large objects of the emulated driver."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import oracledb

if TYPE_CHECKING:
    from tests.support.oracle.driver import EmulatedConnection


class EmulatedLob:
    """What `LOB` and `AsyncLOB` stand on: every access is a round trip.

    Args:
        connection: Where it lives.
        lob_type: CLOB or BLOB.
        data: Its content.
    """

    def __init__(
        self, connection: EmulatedConnection, lob_type: Any, data: str | bytes | None = None
    ) -> None:
        self._connection = connection
        self._conn_impl = connection
        self.dbtype = lob_type
        empty: str | bytes = b"" if lob_type is oracledb.DB_TYPE_BLOB else ""
        self.data: str | bytes = empty if data is None else data

    def process_async_operation(self, *arguments: Any) -> Any:
        return self._connection.process_async_operation(*arguments)

    def process_sync_operation(self, *arguments: Any) -> Any:
        return self._connection.process_sync_operation(*arguments)

    def read(self, offset: int, amount: int) -> Generator[Any, Any, str | bytes]:
        yield from self._connection.trip("read_lob", _nothing)
        return self.data[offset - 1 : offset - 1 + amount]

    def write(self, value: Any, offset: int) -> Generator[Any, Any, None]:
        yield from self._connection.trip("write_lob", _nothing)
        self.data = self.data[: offset - 1] + value + self.data[offset - 1 + len(value) :]

    def get_size(self) -> Generator[Any, Any, int]:
        yield from self._connection.trip("lob_size", _nothing)
        return len(self.data)

    def get_max_amount(self) -> int:
        return 2**32 - 1

    def free_lob(self) -> None:
        """Nothing is kept on a server."""


def _nothing() -> Generator[Any, Any, None]:
    return
    yield
