"""Standing instructions and preferences without a language model.

Looks at what users say, sentence by sentence, with one table of phrases for each language. Exact
enough to be stored, not to be certain: what it finds carries a lower confidence. May import
phrases, evidence, text and records. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agentmemory.extraction.evidence import own_words, trust_of
from agentmemory.extraction.phrases import TABLES, PhraseTable
from agentmemory.records import MemoryType, Record
from agentmemory.text.sentences import split_sentences

GUIDELINE_CONFIDENCE: Final = 0.7
PREFERENCE_CONFIDENCE: Final = 0.6

_LONGEST_GUIDELINE: Final = 300
_LONGEST_PREFERENCE: Final = 600
_LONGEST_MESSAGE: Final = 20_000
"""Characters; what is longer was pasted, not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Something worth remembering.

    Args:
        memory_type: "guideline" or "preference".
        content: The sentence, in the words of the user.
        confidence: 0.0 to 1.0.
        source: Id of the message.
    """

    memory_type: MemoryType
    content: str
    confidence: float
    source: str


def detect(
    messages: Iterable[Record], tables: Sequence[PhraseTable] = TABLES
) -> tuple[Proposal, ...]:
    """Return what users ask for from now on and what they say they like, each once.

    Args:
        messages: Only those of users count.
        tables: The languages to look for.
    """
    found: dict[tuple[str, str], Proposal] = {}
    for message in messages:
        if trust_of(message) != "user" or len(message.content) > _LONGEST_MESSAGE:
            continue
        for sentence in split_sentences(own_words(message.content)):
            memory_type = classify(sentence, tables)
            if memory_type is None:
                continue
            proposal = Proposal(
                memory_type=memory_type,
                content=sentence,
                confidence=(
                    GUIDELINE_CONFIDENCE if memory_type == "guideline" else PREFERENCE_CONFIDENCE
                ),
                source=message.id,
            )
            found.setdefault((memory_type, sentence.casefold()), proposal)
    return tuple(found.values())


def classify(sentence: str, tables: Sequence[PhraseTable] = TABLES) -> MemoryType | None:
    """Say whether a sentence is a standing instruction, a preference, or neither."""
    for table in tables:
        if len(sentence) <= _LONGEST_GUIDELINE and _is_guideline(sentence, table):
            return "guideline"
    for table in tables:
        if len(sentence) <= _LONGEST_PREFERENCE and _is_preference(sentence, table):
            return "preference"
    return None


def _is_guideline(sentence: str, table: PhraseTable) -> bool:
    lead_in = table.lead_in.match(sentence)
    start = lead_in.end() if lead_in else 0
    if table.guideline_exceptions.match(sentence, start):
        return False
    if table.guideline.match(sentence, start):
        return not sentence.endswith(("?", "？")) or sentence[start:].casefold().startswith(
            ("can you", "could you", "would you")
        )
    return not sentence.endswith(("?", "？")) and bool(table.guideline_anywhere.search(sentence))


def _is_preference(sentence: str, table: PhraseTable) -> bool:
    found = table.preference.search(sentence)
    return found is not None and not table.preference_exceptions.match(sentence, found.start())
