"""How well layered retrieval finds the rule an intent is about, and how long it takes.

The ontology is generated: 20 subjects with 10 aspects each make 200 rules, each with a definition
in RULE; the most important aspects are CRITICAL constraints too. The other memories are outcomes of
operations under these rules, decisions and history, with hits and confidence spread at random, so
that often used memories compete with the definitions. Intents are in English and Chinese, in equal
parts, and name subject and aspect in the words of either language, together or apart, beside cues
of every row of the routing table. What is stored alternates between the languages whatever the
intents are in. Everything is drawn from one seed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentmemory import AsyncAgentMemory, Ontology, OntologyRule, Vocabulary
from agentmemory.protocols import IEmbedder
from agentmemory.records import Layer, ScopedRecord
from agentmemory.retrieval.vectorizer import Passage
from agentmemory.testing import HashEmbedder
from benchmarks.errors import BenchmarkError
from benchmarks.metrics import percentile

USER: Final = "layers"
RULES: Final = 200
LEAST_MEMORIES: Final = 220
INTENTS: Final = 500
QUALITY_MEMORIES: Final = 2_000
LATENCY_MEMORIES: Final = 10_000
SEED: Final = 20_260_504

_SUBJECTS: Final = (
    ("supplier", "供应商"), ("shipment", "货运"), ("invoice", "发票"), ("warehouse", "仓库"),
    ("contract", "合同"), ("payment", "付款"), ("return", "退货"), ("carrier", "承运人"),
    ("customs", "海关"), ("quality", "质量"), ("tender", "招标"), ("budget", "预算"),
    ("inventory", "库存"), ("discount", "折扣"), ("employee", "员工"), ("vehicle", "车辆"),
    ("machine", "机器"), ("project", "项目"), ("customer", "客户"), ("sample", "样品"),
)  # fmt: skip
_ASPECTS: Final = (
    ("certificate", "证明"), ("limit", "限额"), ("deadline", "期限"), ("approval", "审批"),
    ("insurance", "保险"), ("status", "状态"), ("tax", "税率"), ("weight", "重量"),
    ("signature", "签字"), ("audit", "审计"),
)  # fmt: skip
_CRITICAL_ASPECTS: Final = ("limit",)
_OPERATIONS: Final = ("CREATE_ORDER", "RELEASE_PAYMENT", "CLOSE_CASE", "SHIP_GOODS", "CHANGE_TERMS")

_ENGLISH: Final = (
    "Discuss whether the {subject} {aspect} rule should change",
    "What must hold for the {aspect} of a {subject}?",
    "Last time we spoke about the {subject}: what was the conclusion on {aspect}?",
    "I want to check which orders are affected by the {subject} {aspect}",
    "How is the {aspect} of any {subject} checked?",
    "Is the threshold for {subject} {aspect} too strict?",
)
_CHINESE: Final = (
    "我想讨论一下{subject}{aspect}规则是否需要调整",
    "{subject}的{aspect}必须满足什么？",
    "上次讨论{subject}，关于{aspect}的结论是什么",
    "我想看看{aspect}有问题的{subject}，下个月可能受影响",
    "{subject}的{aspect}怎么检查",
    "{subject}{aspect}的阈值可能太严格了",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """An intent and the rule whose definition it needs."""

    text: str
    rule: str


def make_ontology() -> Ontology:
    """Return the domain: its vocabulary, 200 definitions and the CRITICAL constraints."""
    rules = []
    for number, (subject, aspect) in enumerate(_pairs()):
        name = f"{subject[0]}_{aspect[0]}_rule"
        tags = (subject[number % 2], aspect[number % 2])
        content = (
            f"The {aspect[0]} of every {subject[0]} is verified before the operation runs."
            if number % 2 == 0
            else f"每个{subject[1]}的{aspect[1]}在操作之前检查。"
        )
        rules.append(OntologyRule(name=name, content=content, layer="rule", fields=tags))
        if aspect[0] in _CRITICAL_ASPECTS:
            rules.append(
                OntologyRule(
                    name=f"{subject[0]}_{aspect[0]}_constraint",
                    content=f"The {aspect[0]} of a {subject[0]} is never exceeded.",
                    fields=tags,
                )
            )
    vocabulary = Vocabulary.from_mapping(
        {
            "entities": {english: [chinese] for english, chinese in _SUBJECTS},
            "fields": {english: [chinese] for english, chinese in _ASPECTS},
            "rules": [rule.name for rule in rules],
            "operations": list(_OPERATIONS),
        }
    )
    return Ontology(vocabulary=vocabulary, rules=tuple(rules))


def make_memories(count: int, seed: int = SEED) -> list[ScopedRecord]:
    """Return memories that compete with the definitions, of every layer but CRITICAL."""
    random_ = random.Random(seed)
    pairs = _pairs()
    now = datetime(2026, 5, 4, tzinfo=UTC)
    made = []
    for number in range(count):
        subject, aspect = random_.choice(pairs)
        language = random_.randrange(2)
        operation = random_.choice(_OPERATIONS)
        rule = f"{subject[0]}_{aspect[0]}_rule"
        layer = random_.choices((Layer.RULE, Layer.CONTEXT, Layer.BACKGROUND), weights=(1, 1, 2))[0]
        words = subject[language], aspect[language]
        texts = {
            Layer.RULE: f"{operation} succeeded for case {number}; passed: {rule}",
            Layer.CONTEXT: f"{operation} was rejected for case {number} by {rule}",
            Layer.BACKGROUND: (
                f"{words[0]} {number}: {words[1]} as usual"
                if language == 0
                else f"{words[0]}{number}的{words[1]}历史记录"
            ),
        }
        tags = {
            Layer.RULE: (operation, rule, "success"),
            Layer.CONTEXT: (operation, rule, "rejected"),
            Layer.BACKGROUND: words,
        }
        made.append(
            ScopedRecord(
                id=f"m{number}",
                record_type="memory",
                content=texts[layer],
                layer=layer,
                tags=tags[layer],
                hit_count=min(40, int(random_.expovariate(0.4))),
                confidence=round(random_.uniform(0.3, 1.0), 2),
                created_at=now,
                updated_at=now,
                user_id=USER,
            )
        )
    return made


def make_intents(count: int = INTENTS, seed: int = SEED) -> list[Asked]:
    """Return intents in English and Chinese by turns, each about one rule."""
    random_ = random.Random(seed + 1)
    pairs = _pairs()
    asked = []
    for number in range(count):
        subject, aspect = random_.choice(pairs)
        language = number % 2
        template = random_.choice(_CHINESE if language else _ENGLISH)
        text = template.format(subject=subject[language], aspect=aspect[language])
        asked.append(Asked(text, f"{subject[0]}_{aspect[0]}_rule"))
    return asked


async def fill(memory: AsyncAgentMemory, memories: Sequence[ScopedRecord]) -> None:
    """Store memories as they are, with their hits and their vectors."""
    parts = memory._parts  # noqa: SLF001 - hits cannot be given through the public verbs
    await parts.ready()
    for start in range(0, len(memories), 1_000):
        batch = memories[start : start + 1_000]
        vectors = await parts.vectorizer.record_vectors(
            [Passage(id=record.id, content=record.content) for record in batch]
        )
        await parts.store.add_records(batch, vectors=vectors)


async def measure_quality(
    database: Path | str, *, embedder: IEmbedder | None, count: int = QUALITY_MEMORIES
) -> dict[str, Any]:
    """Return how often CRITICAL is whole and the definition is among the five RULE memories."""
    ontology = make_ontology()
    critical = {rule.content for rule in ontology.rules if rule.layer == "critical"}
    wanted = {rule.name: rule.content for rule in ontology.rules}
    whole = 0
    found: dict[str, list[bool]] = {"en": [], "zh": []}
    missed: list[str] = []
    async with AsyncAgentMemory(database, embedder=embedder) as memory:
        await memory.load_ontology(ontology, user_id=USER)
        await fill(memory, make_memories(count - len(ontology.rules)))
        intents = make_intents()
        for number, asked in enumerate(intents):
            result = await memory.retrieve(asked.text, user_id=USER)
            whole += {item.content for item in result.critical} == critical
            hit = wanted[asked.rule] in {item.content for item in result.rule}
            found["zh" if number % 2 else "en"].append(hit)
            if not hit:
                missed.append(asked.text)
    hits = [*found["en"], *found["zh"]]
    return {
        "memories": count,
        "rules": RULES,
        "intents": len(intents),
        "critical_memories": len(critical),
        "critical_recall": whole / len(intents),
        "rule_recall_at_5": sum(hits) / len(hits),
        "rule_recall_at_5_en": sum(found["en"]) / len(found["en"]),
        "rule_recall_at_5_zh": sum(found["zh"]) / len(found["zh"]),
        "missed": missed,
    }


async def measure_latency(
    database: Path | str, *, embedder: IEmbedder | None, count: int = LATENCY_MEMORIES
) -> dict[str, Any]:
    """Return how long `retrieve` takes, in milliseconds."""
    ontology = make_ontology()
    times = []
    processor = 0.0
    async with AsyncAgentMemory(database, embedder=embedder) as memory:
        await memory.load_ontology(ontology, user_id=USER)
        await fill(memory, make_memories(count - len(ontology.rules)))
        intents = make_intents()
        for asked in intents[:20]:
            await memory.retrieve(asked.text, user_id=USER)
        processor = time.process_time()
        for asked in intents:
            start = time.perf_counter()
            await memory.retrieve(asked.text, user_id=USER)
            times.append((time.perf_counter() - start) * 1000)
        processor = time.process_time() - processor
    return {
        "memories": count,
        "retrievals": len(times),
        "processor_ms": processor * 1000 / len(times),
        "p50_ms": percentile(times, 0.5),
        "p95_ms": percentile(times, 0.95),
    }


async def measure_layers(
    directory: Path, *, memories: int, latency_memories: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Measure quality and latency, by words alone and with vectors, and return the report."""
    if min(memories, latency_memories) < LEAST_MEMORIES:
        raise BenchmarkError(
            f"the rules alone are {LEAST_MEMORIES} memories; give at least so many"
        )
    report: dict[str, Any] = {"benchmark": "layers", "arms": {}}
    arms: dict[str, IEmbedder | None] = {"words": None, "words and vectors": HashEmbedder()}
    for number, (name, embedder) in enumerate(arms.items()):
        progress(f"layers: {name}")
        report["arms"][name] = {
            "quality": await measure_quality(
                directory / f"quality{number}.db", embedder=embedder, count=memories
            ),
            "latency": await measure_latency(
                directory / f"latency{number}.db", embedder=embedder, count=latency_memories
            ),
        }
    return report


def add_command(commands: Any, positive: Callable[[str], int]) -> None:
    """Describe the command."""
    text = "rules found by layered retrieval in a generated ontology, and its latency"
    parser = commands.add_parser("layers", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--memories",
        type=positive,
        default=QUALITY_MEMORIES,
        metavar="N",
        help=f"memories to find the rules among (default: {QUALITY_MEMORIES})",
    )
    parser.add_argument(
        "--latency-memories",
        type=positive,
        default=LATENCY_MEMORIES,
        metavar="N",
        help=f"memories to time retrieval among (default: {LATENCY_MEMORIES})",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIRECTORY",
        help="leave the databases in this directory, which must be empty or new",
    )


def print_layers(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    for name, row in report["arms"].items():
        quality, latency = row["quality"], row["latency"]
        print(
            f"{name:<18} {quality['rules']} rules, {quality['memories']} memories, "
            f"{quality['intents']} intents: CRITICAL recall {quality['critical_recall']:.3f}, "
            f"RULE recall@5 {quality['rule_recall_at_5']:.3f} "
            f"(en {quality['rule_recall_at_5_en']:.3f}, zh {quality['rule_recall_at_5_zh']:.3f})"
        )
        print(
            f"{'':<18} {latency['memories']} memories: retrieve p50 {latency['p50_ms']:.1f} ms, "
            f"p95 {latency['p95_ms']:.1f} ms over {latency['retrievals']}; "
            f"processor {latency['processor_ms']:.1f} ms each"
        )


def _pairs() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return [(subject, aspect) for subject in _SUBJECTS for aspect in _ASPECTS]
