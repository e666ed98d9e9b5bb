"""What may be given as `connection`, and that no secret of it is ever shown."""

from __future__ import annotations

import inspect
import logging
import traceback
from pathlib import Path
from typing import Any

import oracledb
import pytest

from agentmemory import (
    NOT_SET_MARKER,
    AgentMemory,
    AsyncAgentMemory,
    SchemaPolicy,
    SearchIndexSyncMode,
)
from agentmemory.errors import (
    ConfigurationError,
    StoreUnavailableError,
    UsageError,
    ValidationError,
)
from agentmemory.parts import open_store
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.sources import make_source, pool_arguments
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.stores.oracle.urls import OPTIONS, TokenFile, describe_dsn, parse_url
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.stores.urls import hide_secrets
from tests.support.oracle.faults import FaultKind
from tests.support.oracle.server import PASSWORD
from tests.support.oracle_engines import DSN, LOGIN, URL, given, scripted

SECRETS = (PASSWORD, "correct%20horse", "wallet secret", "t0ken")


@pytest.fixture(autouse=True)
def _what_runs_is_right():
    """These tests run no statement of the store that others do not look at."""


@pytest.fixture
def server():
    with scripted() as (server, _):
        yield server


def opened(connection=None, **options):
    """Return the store that a client would use."""
    options = {
        "store": None,
        "schema_policy": NOT_SET_MARKER,
        "memory_store_id": NOT_SET_MARKER,
        **options,
    }
    return open_store(connection, options.pop("store"), **options)


class TestUrls:
    def test_host_port_service_and_credentials(self):
        url = parse_url("oracle://maya:p%40ss%2Fword@db.example.com:1522/memory")
        assert url.driver == {
            "user": "maya",
            "password": "p@ss/word",
            "host": "db.example.com",
            "port": 1522,
            "service_name": "memory",
        }
        assert url.where == "the Oracle database 'db.example.com:1522/memory'"

    def test_the_usual_port_is_the_default(self):
        assert parse_url("oracle://u:p@h/s").driver["port"] == 1521

    def test_without_a_service_the_host_is_a_name_from_tnsnames(self):
        url = parse_url("oracle://u:p@memory_high?config_dir=/etc/oracle")
        assert url.driver["dsn"] == "memory_high"
        assert url.driver["config_dir"] == "/etc/oracle"
        assert "host" not in url.driver

    def test_wallet_and_tls_options(self):
        url = parse_url(
            "oracle://u:p@h:1522/s?protocol=tcps&wallet_location=/etc/wallet"
            "&wallet_password=wallet%20secret&ssl_server_dn_match=true"
            "&ssl_server_cert_dn=CN%3Ddb&tcp_connect_timeout=2.5&retry_count=3"
        )
        given = {name: url.driver[name] for name in url.driver if name in OPTIONS}
        assert given == {
            "protocol": "tcps",
            "wallet_location": "/etc/wallet",
            "wallet_password": "wallet secret",
            "ssl_server_dn_match": True,
            "ssl_server_cert_dn": "CN=db",
            "tcp_connect_timeout": 2.5,
            "retry_count": 3,
        }

    def test_a_sid_instead_of_a_service(self):
        url = parse_url("oracle://u:p@h?sid=MEM")
        assert url.driver["sid"] == "MEM"
        assert "dsn" not in url.driver

    def test_options_of_the_engine(self):
        engine = OracleEngine(f"{URL}?max_connections=3&acquire_timeout_s=2&operation_timeout_s=5")
        assert engine._operation_timeout_s == 5
        assert vars(engine._source)["_max"] == 3
        # What is said in code counts for more.
        engine = OracleEngine(f"{URL}?max_connections=3", max_connections=4)
        assert vars(engine._source)["_max"] == 4

    @pytest.mark.parametrize("option", OPTIONS)
    def test_every_option_is_one_of_the_driver_or_of_the_engine(self, option):
        text = {"protocol": "tcps", "ssl_server_dn_match": "yes", "use_sni": "no"}.get(option, "5")
        url = parse_url(f"oracle://u:p@h/?{option}={text}")
        if option in url.driver:
            assert option in inspect.signature(oracledb.create_pool_async).parameters
        elif option in url.engine:
            assert option in inspect.signature(OracleEngine).parameters
        else:
            assert url.token_location == "5"

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("oracle://", "names no host"),
            ("oracle:///service", "names no host"),
            ("oracle://h/s", "no password"),
            ("oracle://maya@h/s", "no password"),
            ("oracle://u:p@h:port/s", "malformed"),
            ("oracle://u:p@h:99999/s", "malformed"),
            ("oracle://u:p@[::1/s", "malformed"),
            ("oracle://u:p@h/s?colour=blue", "`connection`.*'colour' is not known"),
            ("oracle://u:p@h/s?protocol=http", "`protocol` is 'http'"),
            ("oracle://u:p@h/s?ssl_server_dn_match=maybe", "`ssl_server_dn_match` is 'maybe'"),
            ("oracle://u:p@h/s?expire_time=soon", "`expire_time` is 'soon'"),
            ("oracle://u:p@h/s?expire_time=1&expire_time=2", "twice"),
            ("oracle://u:p@h/s?sid=x", "both a service"),
            ("oracle://h/s?access_token=t0ken&token_location=/x", "both `access_token`"),
        ],
    )
    def test_what_is_malformed_is_named_without_secrets(self, url, problem):
        with pytest.raises(ConfigurationError, match=problem) as caught:
            parse_url(url)
        assert "`connection`" in str(caught.value)
        assert ":p@" not in str(caught.value)
        assert "t0ken" not in str(caught.value)
        assert caught.value.__cause__ is None


class TestTokens:
    def test_a_token_in_the_url(self):
        assert parse_url("oracle://h/s?protocol=tcps&access_token=t0ken").driver[
            "access_token"
        ] == ("t0ken")

    def test_a_file_with_a_token_is_read_anew_when_it_expired(self, tmp_path: Path):
        file = tmp_path / "token"
        file.write_text("first\n")
        token = TokenFile(str(file))
        token.load()
        file.write_text("second\n")
        assert token(False) == "first"
        assert token(True) == "second"
        assert "first" not in repr(token)

    def test_a_directory_holds_token_and_key(self, tmp_path: Path):
        (tmp_path / "token").write_text("t0ken")
        (tmp_path / "oci_db_key.pem").write_text("key")
        url = parse_url(f"oracle://h/s?protocol=tcps&token_location={tmp_path}")
        token = pool_arguments(url, 2, 1.0)["access_token"]
        assert token(False) == ("t0ken", "key")

    def test_a_directory_without_a_key_holds_a_bare_token(self, tmp_path: Path):
        (tmp_path / "token").write_text("t0ken")
        token = TokenFile(str(tmp_path))
        assert token(False) == "t0ken"

    async def test_a_file_that_is_not_there_is_named(self, tmp_path: Path):
        url = f"oracle://h/s?protocol=tcps&token_location={tmp_path / 'none'}"
        with pytest.raises(ConfigurationError, match=r"`token_location`.*No such file"):
            await OracleEngine(url).open()


class TestSecrets:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("oracle://maya:correct%20horse@h/s", "oracle://maya:***@h/s"),
            ("oracle://maya:p@ss@h/s", "oracle://maya:***@h/s"),
            ("oracle://maya@h/s", "oracle://maya@h/s"),
            ("postgresql://maya:secret@h/s", "postgresql://maya:***@h/s"),
            (
                "oracle://h/s?access_token=t0ken&wallet_password=x&sid=y",
                "oracle://h/s?access_token=***&wallet_password=***&sid=y",
            ),
            ("memory.db", "memory.db"),
        ],
    )
    def test_urls_are_shown_without_them(self, text, shown):
        assert hide_secrets(text) == shown

    @pytest.mark.parametrize(
        ("dsn", "shown"),
        [
            ("h:1521/s", "the Oracle database 'h:1521/s'"),
            ("maya/secret@h/s", "the Oracle database 'h/s'"),
            ("h/s?wallet_location=/x", "the Oracle database 'h/s'"),
            (
                "(DESCRIPTION=(ADDRESS=(PORT=1521)(HOST=h))(CONNECT_DATA=(SERVICE_NAME=s)))",
                "the Oracle database 's'",
            ),
            ("(DESCRIPTION=x)", "the Oracle database"),
            (None, "the Oracle database"),
        ],
    )
    def test_connect_strings_are_shown_without_them(self, dsn, shown):
        assert describe_dsn(dsn) == shown

    async def test_no_error_log_or_representation_holds_one(self, server, caplog):
        caplog.set_level(logging.DEBUG)
        url = f"{URL}?wallet_password=wallet%20secret"
        server.faults.add(FaultKind.ERROR, trip="connect", code=1017, times=99)
        engine = OracleEngine(url)
        with pytest.raises(StoreUnavailableError) as caught:
            await engine.open()
        said = "".join(traceback.format_exception(caught.value))
        shown = f"{engine!r} {engine._source!r} {parse_url(url)!r} {vars(engine)!r}"
        for text in (said, shown, caplog.text):
            for secret in SECRETS:
                assert secret not in text

    def test_a_store_shows_none_of_its_insides(self, server):
        store = OracleStore(URL)
        shown = f"{store!r} {vars(store)!r} {vars(store._engine._source)!r}"
        for secret in SECRETS:
            assert secret not in shown

    @pytest.mark.parametrize("scheme", ["mysql", "oracle+thin", "ORACLE"])
    def test_other_urls_are_refused_without_showing_one(self, scheme):
        url = f"{scheme}://u:{PASSWORD}@h/s"
        with pytest.raises(ConfigurationError, match="`connection`") as caught:
            opened(url)
        assert PASSWORD not in str(caught.value)


class TestDispatch:
    def test_what_leads_where(self, server):
        assert isinstance(opened("memory.db"), SqliteStore)
        assert isinstance(opened(":memory:"), SqliteStore)
        assert isinstance(opened(URL), OracleStore)

    @pytest.mark.parametrize("kind", ["pool", "connection", "blocking pool", "blocking connection"])
    async def test_objects_of_the_driver(self, server, kind):
        async with given(kind) as connection:
            store = opened(connection, schema_owner="keeper", memory_store_id="notes")
            assert isinstance(store, OracleStore)
            assert store.store_id == "NOTES"

    async def test_classes_of_users_that_derive_from_the_drivers(self, server):
        class Mine(oracledb.Connection):
            pass

        connection = oracledb.connect(DSN, conn_class=Mine, **LOGIN)
        assert isinstance(opened(connection), OracleStore)
        connection.close()

    @pytest.mark.parametrize("value", [7, object(), None, "", b"x", oracledb.defaults])
    def test_anything_else_is_refused_by_name(self, value):
        with pytest.raises(ConfigurationError, match="`connection` is"):
            opened(value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("schema_owner", "KEEPER"), ("search_index_sync", SearchIndexSyncMode.MANUAL)],
    )
    def test_options_of_oracle_are_refused_for_a_file(self, name, value):
        with pytest.raises(ConfigurationError, match=f"`{name}`.*SQLite.*oracle://"):
            opened("memory.db", **{name: value})
        with pytest.raises(ConfigurationError, match=f"`{name}`.*SQLite"):
            AsyncAgentMemory("memory.db", **{name: value})
        with pytest.raises(ConfigurationError, match=f"`{name}`.*SQLite"):
            AgentMemory("memory.db", **{name: value})
        with pytest.raises(ConfigurationError, match=f"`store`.*`{name}`"):
            opened(store=SqliteStore(":memory:"), **{name: value})

    def test_options_of_oracle_are_checked(self, server):
        with pytest.raises(ValidationError, match="`schema_owner`"):
            AgentMemory(URL, schema_owner="no such; name")
        with pytest.raises(ConfigurationError, match="`search_index_sync`"):
            AgentMemory(URL, search_index_sync="sometimes")  # type: ignore[arg-type]
        for mode in ("manual", SearchIndexSyncMode.AUTO):
            opened(URL, search_index_sync=mode)

    def test_the_source_itself_refuses_what_it_does_not_know(self):
        from agentmemory.stores.oracle.connection import Background

        for value in (7, f"oracle+thin://u:{PASSWORD}@h/s"):
            with pytest.raises(ConfigurationError, match="`connection`") as caught:
                make_source(value, Background(), max_connections=1, acquire_timeout_s=1, grace_s=1)
            assert PASSWORD not in str(caught.value)

    def test_the_blocking_api_says_why_it_takes_no_pool_of_asyncio(self, server):
        import asyncio

        async def make():
            return oracledb.create_pool_async(DSN, **LOGIN)

        with asyncio.Runner() as runner:
            pool = runner.run(make())
            memory = AgentMemory(pool, schema_policy=SchemaPolicy.NO_CHECK, embedder=None)
            with pytest.raises(UsageError, match=r"oracledb\.create_pool"):
                memory.stats()
            memory.close()
            runner.run(pool.close())

    @pytest.mark.parametrize("kind", ["url", "blocking pool", "blocking connection"])
    def test_the_blocking_api_works_on_urls_and_blocking_objects(self, oracle, kind):
        connection: Any = {
            "url": lambda: URL,
            "blocking pool": lambda: oracledb.create_pool(DSN, **LOGIN, min=1, max=2),
            "blocking connection": lambda: oracledb.connect(DSN, **LOGIN),
        }[kind]()
        with AgentMemory(
            connection, schema_policy=SchemaPolicy.CREATE_IF_NECESSARY, embedder=None
        ) as memory:
            thread = memory.create_thread(user_id="maya")
            thread.add_messages([{"role": "user", "content": "The kiln is booked for Friday."}])
            (found, *_) = memory.search("kiln", user_id="maya")
            assert found.content == "The kiln is booked for Friday."
            able = {each.name: each.available for each in memory.stats().capabilities}
            assert able["pipelining"] is (kind == "url")
        if kind != "url":
            connection.close()
        assert oracle.open_transactions == []

    def test_the_driver_is_loaded_only_for_those_who_use_it(self, tmp_path: Path):
        import subprocess
        import sys

        program = (
            "import sys\n"
            "from agentmemory import AgentMemory\n"
            "with AgentMemory('memory.db', embedder=None) as memory:\n"
            "    memory.add_memory('tea', user_id='bo')\n"
            "assert 'oracledb' not in sys.modules\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
