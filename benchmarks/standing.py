"""Whether a context card shows what the user asked for from now on, on BEAM, without a model.

Each conversation is stored with the keyless detector at work. For each question that needs a
standing instruction a card is built, once with guidelines that stand in it whatever is asked and
once by search alone. A question counts as served when the card shows a memory that was drawn out of
one of its evidence messages.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentmemory import AsyncAgentMemory, ContextCard, ExtractionMode, MemoryExtractionConfig
from agentmemory.messages import Message
from benchmarks.datasets import Conversation, load_beam
from benchmarks.detector import wilson

ABILITY: Final = "instruction_following"
_WRITTEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_BATCH: Final = 50


async def measure_standing(
    path: Path, directory: Path, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Build the cards and return the report.

    Raises:
        BenchmarkError: The data cannot be used.
    """
    dataset = load_beam(path)
    asked = standing = searched = 0
    async with AsyncAgentMemory(
        directory / "standing.db",
        embedder=None,
        memory_extraction_config=MemoryExtractionConfig(extraction_mode=ExtractionMode.INLINE),
    ) as memory:
        for conversation in dataset.conversations:
            questions = [item for item in conversation.questions if item.category == ABILITY]
            if not questions:
                continue
            progress(f"standing: {conversation.id}")
            thread, ids = await _store(memory, conversation)
            for question in questions:
                evidence = {ids[name] for name in question.evidence}
                with_all = await thread.get_context_card(
                    query=question.text, include_guidelines=True
                )
                by_search = await thread.get_context_card(query=question.text)
                asked += 1
                standing += _serves(with_all, evidence)
                searched += _serves(by_search, evidence)
    return {
        "benchmark": "standing",
        "file": dataset.file,
        "questions": asked,
        "served": standing,
        "served_interval_95": wilson(standing, asked),
        "served_by_search_alone": searched,
    }


async def _store(
    memory: AsyncAgentMemory, conversation: Conversation
) -> tuple[Any, dict[str, str]]:
    user = f"user-{conversation.id}"
    thread = await memory.create_thread(user_id=user)
    ids: dict[str, str] = {}
    turns = conversation.turns
    for start in range(0, len(turns), _BATCH):
        batch = turns[start : start + _BATCH]
        stored = await thread.add_messages(
            [
                Message(role=turn.role, content=turn.text, timestamp=turn.time or _WRITTEN)
                for turn in batch
            ]
        )
        ids.update(zip((turn.id for turn in batch), stored, strict=True))
    await memory.wait_for_memory_extraction()
    return thread, ids


def _serves(card: ContextCard, evidence: set[str]) -> bool:
    return any(
        not evidence.isdisjoint(hit.record.sources)
        for hit in (*card.always_on, *card.relevant_results)
    )


def add_command(commands: Any) -> None:
    """Describe the command."""
    text = "cards that show the standing instruction a question needs, without a model, on BEAM"
    parser = commands.add_parser("standing", help=text, description=text)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="PATH", help="the data, in its format"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIRECTORY",
        help="leave the database in this directory, which must be empty or new",
    )


def print_standing(report: dict[str, Any]) -> None:
    """Print the report in two lines."""
    low, high = report["served_interval_95"] or (0.0, 1.0)
    print(
        f"{report['file']}: cards that show the instruction a question needs: "
        f"{report['served']}/{report['questions']} (95 %: {low:.0%} to {high:.0%}); "
        f"by search alone {report['served_by_search_alone']}/{report['questions']}"
    )
