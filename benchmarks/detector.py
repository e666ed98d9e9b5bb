"""How much of what users ask for and like is found without a language model, on BEAM.

A question counts as covered when a record of the fitting type comes from one of its evidence
messages: guidelines for `instruction_following`, preferences for `preference_following`.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentmemory.extraction.detector import Proposal, detect
from agentmemory.records import ScopedRecord
from benchmarks.datasets import Conversation, load_beam

WANTED: Final = {"instruction_following": "guideline", "preference_following": "preference"}

_WRITTEN: Final = datetime(2026, 1, 1, tzinfo=UTC)


def measure_detector(path: Path, *, conversations: int | None = None) -> dict[str, Any]:
    """Run the detector over every conversation and return the report.

    Raises:
        BenchmarkError: The data cannot be used.
    """
    dataset = load_beam(path)
    chosen = dataset.conversations[:conversations]
    covered: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    found: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for conversation in chosen:
        proposals = proposals_of(conversation)
        counts = Counter(proposal.memory_type for proposal in proposals)
        found.update(counts)
        for name, count in counts.items():
            most[name] = max(most[name], count)
        for question in conversation.questions:
            kind = WANTED.get(question.category, "")
            if not kind:
                continue
            sources = {item.source for item in proposals if item.memory_type == kind}
            asked[question.category] += 1
            covered[question.category] += not sources.isdisjoint(question.evidence)
    return {
        "benchmark": "detector",
        "file": dataset.file,
        "conversations": len(chosen),
        "messages": sum(len(conversation.turns) for conversation in chosen),
        "abilities": {
            category: {
                "questions": asked[category],
                "covered": covered[category],
                "share": covered[category] / asked[category] if asked[category] else None,
                "interval_95": wilson(covered[category], asked[category]),
                "records_per_conversation": found[kind] / len(chosen),
                "most_records": most[kind],
            }
            for category, kind in WANTED.items()
        },
    }


def proposals_of(conversation: Conversation) -> tuple[Proposal, ...]:
    """Return what the detector finds in a conversation."""
    return detect(
        ScopedRecord(
            id=turn.id,
            record_type="message",
            content=turn.text,
            role=turn.role,
            created_at=_WRITTEN,
            updated_at=_WRITTEN,
        )
        for turn in conversation.turns
    )


def wilson(hits: int, total: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a share (Wilson's score interval); None without a sample."""
    if not total:
        return None
    z = 1.959964
    share = hits / total
    middle = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return ((middle - spread) / scale, (middle + spread) / scale)


def print_detector(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    print(
        f"{report['file']}: {report['conversations']} conversations, {report['messages']} messages"
    )
    for category, row in report["abilities"].items():
        if row["share"] is None:
            print(f"{category:<22} no questions")
            continue
        low, high = row["interval_95"]
        print(
            f"{category:<22} {row['covered']}/{row['questions']} = {row['share']:.1%} "
            f"(95 %: {low:.0%} to {high:.0%}); {row['records_per_conversation']:.1f} records a "
            f"conversation, at most {row['most_records']}"
        )
