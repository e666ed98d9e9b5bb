"""What a database can do is asked, not assumed, and told to whoever wants to know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentmemory.stores.oracle.capabilities import (
    Capabilities,
    VectorIndexKind,
    capabilities_from,
    probes,
)
from agentmemory.stores.oracle.engine import OracleEngine
from tests.support.oracle.errors import ora
from tests.support.oracle_engines import KINDS, engine_on, given, scripted

FULL = Capabilities(
    version=(23, 26, 0, 0, 0),
    banner="Oracle AI Database 26ai",
    vector_memory_bytes=1 << 30,
    oracle_text=True,
    hybrid_index=True,
    create_table=True,
    create_job=True,
    models=("KEEPER.MINI",),
    pipelining=True,
    text_index=True,
    vector_index=VectorIndexKind.HNSW,
)


@pytest.fixture(autouse=True)
def _what_runs_is_right():
    """These tests run no statement of the store that others do not look at."""


def said(capabilities: Capabilities) -> dict[str, tuple[bool, str]]:
    """Return what is reported, by name."""
    return {each.name: (each.available, each.detail) for each in capabilities.report()}


class TestProbing:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_every_kind_of_connection_asks_and_is_told(self, kind):
        with scripted() as (server, _):
            async with engine_on(server, kind) as engine:
                able = engine.capabilities
        assert able == Capabilities(
            version=(23, 26, 0, 0, 0),
            banner="Oracle AI Database 26ai Free 23.26.0.0.0",
            user="MEMORY_APP",
            current_schema="MEMORY_APP",
            vectors=True,
            vector_memory_bytes=None,
            oracle_text=True,
            hybrid_index=True,
            create_table=True,
            create_job=True,
            models=("MEMORY_APP.MINI",),
            pipelining=not kind.startswith("blocking"),
        )

    async def test_asking_is_one_round_trip(self):
        with scripted() as (server, _):
            async with given("connection") as connection:
                server.forget()
                engine = OracleEngine(connection)
                await engine.open()
                assert [trip.name for trip in server.trips] == ["pipeline"]
                await engine.close()

    @pytest.mark.parametrize("kind", ["connection", "blocking connection"])
    async def test_a_user_who_may_see_nothing_can_still_open(self, kind):
        def refused(_):
            raise ora(942, "it")

        with scripted() as (server, script):
            script.on(r"product_component|session_privs|all_objects|mining", respond=refused)
            async with engine_on(server, kind) as engine:
                able = engine.capabilities
        assert able.banner == ""
        assert not able.oracle_text
        assert not able.create_table
        assert not able.create_job
        assert able.models == ()
        assert able.vector_memory_bytes is None

    def test_answers_of_nothing_are_nothing(self):
        able = capabilities_from((19, 3, 0, 0, 0), [[] for _ in probes()[:-1]] + [[(None,)]])
        assert not able.vectors
        assert not able.pipelining
        assert able.vector_memory_bytes == 0

    def test_hybrid_indexes_need_a_newer_server_and_oracle_text(self):
        answers = [[], [], [], [(1,)], [], []]
        assert capabilities_from((23, 6, 0, 0, 0), answers).hybrid_index
        assert not capabilities_from((23, 5, 0, 0, 0), answers).hybrid_index
        assert not capabilities_from((23, 6, 0, 0, 0), [[] for _ in probes()]).hybrid_index


class TestReport:
    def test_a_database_that_can_do_everything(self):
        assert all(available for available, _ in said(FULL).values())
        assert said(FULL)["vector_index"][1] == "searches of large scopes use the HNSW index"
        assert said(FULL)["database"][1] == "Oracle AI Database 26ai"

    @pytest.mark.parametrize(
        ("name", "lacking", "words"),
        [
            ("database", {"vectors": False, "banner": "Oracle 19c"}, "23.4 or newer"),
            ("pipelining", {"pipelining": False}, "round trip of its own"),
            ("text_index", {"text_index": False}, "CREATE_IF_NECESSARY"),
            ("text_index", {"text_index": False, "oracle_text": False}, "CTXAPP"),
            ("vector_index", {"vector_index": None}, "one by one"),
            ("vector_memory", {"vector_memory_bytes": 0}, "VECTOR_MEMORY_SIZE; IVF"),
            ("vector_memory", {"vector_memory_bytes": None}, "may not see"),
            ("hybrid_index", {"hybrid_index": False}, "23.6"),
            ("models", {"models": ()}, "no embedding model"),
            ("create_table", {"create_table": False}, "cannot be created"),
            ("create_job", {"create_job": False}, "purge_expired"),
        ],
    )
    def test_what_is_missing_says_what_that_means(self, name, lacking, words):
        available, detail = said(replace(FULL, **lacking))[name]
        assert not available
        assert words in detail
