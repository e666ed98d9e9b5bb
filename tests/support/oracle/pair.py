"""An SQLite store and an Oracle store that hold the same, made of chance but always the same.

What both answer has to be the same: ids, order, scores, cursors, errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np

from agentmemory.records import Layer, RecordType, ScopedRecord, ThreadRecord, Tier
from agentmemory.requests import RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle.store import OracleStore
from agentmemory.stores.sqlite.store import SqliteStore
from agentmemory.text.analyzer import analyze

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
WORDS = [
    "kite",
    "limit",
    "credit",
    "rule",
    "order",
    "supplier",
    "check",
    "café",
    "v2.3.1",
    "c++",
    "user_name",
    "Bern",
    "paint",
    "blue",
    "red",
    "凧を揚げる",
    "認証",
    "有効期",
    "garden",
    "river",
    "mountain",
    "hello",
    "coffee",
    "tea",
    "meeting",
    "monday",
    "budget",
    "report",
    "zebra",
]
USERS = {"t1": "ada", "t2": "bo"}
KINDS: tuple[RecordType, ...] = ("fact", "preference", "guideline", "memory", "message")


def unit_vector(random: Random) -> np.ndarray:
    """Return a unit vector of eight dimensions."""
    vector = np.array([random.gauss(0, 1) for _ in range(8)], dtype=np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def sentence(random: Random, words: int) -> str:
    """Return some words and a full stop."""
    return " ".join(random.choice(WORDS) for _ in range(words)) + "."


def records(count: int, random: Random) -> list[ScopedRecord]:
    """Return records of two users, of every type, with and without what is optional."""
    return [_record(number, random) for number in range(count)]


def _record(number: int, random: Random) -> ScopedRecord:
    thread = random.choice(list(USERS))
    kind = random.choice(KINDS)
    layer = None if kind == "message" else random.choice([None, *Layer])
    written = NOW + timedelta(seconds=number)

    def sometimes(value: Any, share: float = 0.5) -> Any:
        return value if random.random() < share else None

    return ScopedRecord(
        id=f"r{number}",
        record_type=kind,
        content=sentence(random, random.choice([5, 10, 20, 120])),
        metadata=sometimes({"tier": random.choice(["gold", "silver"]), "n": number % 6}) or {},
        role="user" if kind == "message" else None,
        actor=random.choice(["Ada", "Bo", None]) if kind == "message" else None,
        tier=random.choice(list(Tier)) if layer else Tier.HOT,
        layer=layer,
        tags=tuple(random.sample(WORDS, random.randint(0, 3))) if layer else (),
        confidence=random.choice([1.0, 0.5, 0.2]) if layer else 1.0,
        hit_count=random.randint(0, 4) if layer else 0,
        last_hit_at=sometimes(NOW + timedelta(days=number % 50)) if layer else None,
        event_time=sometimes(NOW + timedelta(days=random.randint(-30, 30))),
        valid_from=sometimes(NOW + timedelta(days=random.randint(-5, 5)), 0.3),
        created_at=written,
        updated_at=written,
        expires_at=sometimes(NOW + timedelta(days=random.choice([1, 400])), 0.3),
        user_id=USERS[thread],
        thread_id=thread if kind == "message" else None,
    )


def random_filter(random: Random, count: int) -> RecordFilter:
    """Return a filter of some fields, with a scope of one user, one thread or neither."""
    choices: dict[str, tuple[Any, ...]] = {
        "record_types": (("fact", "message"), ("guideline", "memory", "preference")),
        "metadata": ({"tier": "gold"}, {"n": {"$gt": 2}}, {"tier": {"$ne": "gold"}}),
        "tiers": (tuple(Tier),),
        "layers": ((Layer.RULE, Layer.CONTEXT),),
        "valid_at": (NOW,),
        "known_at": (NOW + timedelta(seconds=count // 2),),
        "include_invalid": (False,),
        "event_after": (NOW,),
        "event_before": (NOW + timedelta(days=10),),
        "exclude_ids": (("r1", "r2", "r3"),),
    }
    chosen = {
        name: random.choice(values) for name, values in choices.items() if random.random() < 0.2
    }
    ada = DimensionMatch(True, "ada")
    scope = random.choice(
        [
            ScopeFilter(user=ada),
            ScopeFilter(user=ada, thread=DimensionMatch(False, "t1")),
            ScopeFilter(thread=DimensionMatch(True, "t2")),
            ScopeFilter(),
        ]
    )
    return RecordFilter(scope=scope, now=NOW + timedelta(days=random.choice([0, 10])), **chosen)


def tokens(word: str) -> tuple[str, ...]:
    """Return the tokens of a word."""
    return tuple(analyze(word))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two stores with the same records.

    Args:
        sqlite: The one that is the measure.
        oracle: The one that is measured.
        records: What both hold.
    """

    sqlite: SqliteStore
    oracle: OracleStore
    records: list[ScopedRecord]


async def fill(pair: Pair, random: Random) -> None:
    """Store the records in both, most of them with a vector."""
    vectors = {record.id: unit_vector(random) for record in pair.records if random.random() < 0.8}
    for store in (pair.sqlite, pair.oracle):
        for thread, user in USERS.items():
            await store.add_thread(
                ThreadRecord(id=thread, user_id=user, agent_id=None, created_at=NOW, updated_at=NOW)
            )
        await store.add_records(pair.records, vectors=vectors)
