"""Evaluation data: conversations, and questions with the ids of the turns that answer them.

Reads LoCoMo in its original format (`locomo10.json` and any file like it) and BEAM as repacked for
evaluation (`*.json.gz`: `id`, `recs`, `qa`). The data is never part of this project: the caller
gives a path, and looks after the licences (LoCoMo: CC BY-NC 4.0; BEAM: CC BY-SA 4.0).
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.errors import BenchmarkError

LOCOMO_CATEGORIES: Final = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message as somebody said it.

    Args:
        id: Unique within its conversation.
        role: `user` or `assistant`.
        text: What was said.
        speaker: The speaker's name, if the data has names.
        time: When it was said, aware, in UTC; None if the data does not say.
        metadata: What came with the turn, such as the caption of a shared picture.
    """

    id: str
    role: str
    text: str
    speaker: str | None = None
    time: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns said in one sitting, in order."""

    id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the ids of the turns that hold its answer, in the order of the turns."""

    text: str
    category: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Sessions between the same people, and what is asked about them."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, in order."""
        return tuple(turn for session in self.sessions for turn in session.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What a benchmark runs on.

    Args:
        name: `locomo` or `beam`.
        file: Name of the file it came from, without its folder.
        level: What counts as found: `turn` or `message`.
        conversations: In the order of the file.
        unanswerable: Questions left out because no turn is marked as evidence.
    """

    name: str
    file: str
    level: str
    conversations: tuple[Conversation, ...]
    unanswerable: int

    @property
    def question_count(self) -> int:
        return sum(len(conversation.questions) for conversation in self.conversations)

    @property
    def turn_count(self) -> int:
        return sum(
            len(session.turns)
            for conversation in self.conversations
            for session in conversation.sessions
        )


def load_locomo(path: Path, *, categories: Iterable[int] = (1, 2, 3, 4)) -> Dataset:
    """Read conversations in LoCoMo's original format.

    Evidence is cleaned up: every `D<session>:<turn>` of a string counts, `D:11:26` is read as
    `D11:26` and `D30:05` as `D30:5`, and what names no turn is dropped. Session dates become the
    time of each of their turns, in UTC. Sessions without turns are left out.

    Args:
        path: The JSON file.
        categories: Question categories to keep; the adversarial ones (5) have no answer to find.

    Raises:
        BenchmarkError: The file cannot be read or is not of this format.
    """
    wanted = frozenset(categories)
    left_out = 0
    conversations = []
    for sample in _load_list(path, kind="LoCoMo"):
        try:
            identifier = str(sample["sample_id"])
            sessions = _locomo_sessions(sample["conversation"])
            places = {
                turn.id: place
                for place, turn in enumerate(turn for part in sessions for turn in part.turns)
            }
            questions = []
            for raw in sample["qa"]:
                if raw["category"] not in wanted:
                    continue
                evidence = clean_evidence(raw.get("evidence") or (), places)
                if not evidence:
                    left_out += 1
                    continue
                category = LOCOMO_CATEGORIES[raw["category"]]
                questions.append(
                    Question(text=str(raw["question"]), category=category, evidence=evidence)
                )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise _not_of_format(path, "LoCoMo", error) from error
        conversations.append(
            Conversation(id=identifier, sessions=sessions, questions=tuple(questions))
        )
    _check_ids(path, conversations)
    return Dataset(
        name="locomo",
        file=path.name,
        level="turn",
        conversations=tuple(conversations),
        unanswerable=left_out,
    )


def load_beam(path: Path) -> Dataset:
    """Read chats of BEAM, repacked as a list of `{"id", "recs", "qa"}`, gzipped or plain.

    A chat's sessions (`sess`) were held on different days, so each becomes a session here. The
    data dates only the message that opens a session; the others have no time.

    Raises:
        BenchmarkError: The file cannot be read or is not of this format.
    """
    left_out = 0
    conversations = []
    for chat in _load_list(path, kind="BEAM"):
        try:
            grouped: dict[str, list[Turn]] = {}
            for raw in chat["recs"]:
                turn = Turn(
                    id=str(raw["id"]),
                    role=str(raw["role"]),
                    text=str(raw["text"]),
                    time=parse_beam_time(raw["time"]) if raw.get("time") else None,
                )
                grouped.setdefault(str(raw["sess"]), []).append(turn)
            known = {turn.id for turns in grouped.values() for turn in turns}
            questions = []
            for raw in chat["qa"]:
                marked = {str(identifier) for identifier in raw["ev"]} & known
                if not marked:
                    left_out += 1
                    continue
                questions.append(
                    Question(
                        text=str(raw["question"]),
                        category=str(raw["type"]),
                        evidence=tuple(sorted(marked, key=lambda text: (len(text), text))),
                    )
                )
            conversation = Conversation(
                id=str(chat["id"]),
                sessions=tuple(
                    Session(id=name, turns=tuple(turns)) for name, turns in grouped.items()
                ),
                questions=tuple(questions),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise _not_of_format(path, "BEAM", error) from error
        conversations.append(conversation)
    _check_ids(path, conversations)
    return Dataset(
        name="beam",
        file=path.name,
        level="message",
        conversations=tuple(conversations),
        unanswerable=left_out,
    )


def clean_evidence(raw: Iterable[str], places: Mapping[str, int]) -> tuple[str, ...]:
    """Return the turns that evidence strings name, in the order of the turns, each once.

    Args:
        raw: Strings such as `D1:3`, `D8:6; D9:17`, `D:11:26` or `D30:05`.
        places: The place of each known turn id.
    """
    found = {
        f"D{int(session)}:{int(turn)}" for text in raw for session, turn in _EVIDENCE.findall(text)
    }
    return tuple(sorted(found & places.keys(), key=places.__getitem__))


def parse_locomo_time(text: str) -> datetime:
    """Read `1:56 pm on 8 May, 2023` as a time in UTC.

    Raises:
        ValueError: The text has another form.
    """
    return datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def parse_beam_time(text: str) -> datetime:
    """Read `March-15-2024` as midnight in UTC.

    Raises:
        ValueError: The text has another form.
    """
    return datetime.strptime(text.strip(), "%B-%d-%Y").replace(tzinfo=UTC)


def _locomo_sessions(conversation: Mapping[str, Any]) -> tuple[Session, ...]:
    numbers = sorted(
        int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key)) is not None
    )
    sessions = []
    for number in numbers:
        raw_turns = conversation[f"session_{number}"]
        if not raw_turns:
            continue
        time = parse_locomo_time(conversation[f"session_{number}_date_time"])
        turns = tuple(
            Turn(
                id=str(raw["dia_id"]),
                role="user",
                text=str(raw["text"]),
                speaker=str(raw["speaker"]),
                time=time,
                metadata=(
                    {"blip_caption": str(raw["blip_caption"])} if raw.get("blip_caption") else {}
                ),
            )
            for raw in raw_turns
        )
        sessions.append(Session(id=f"session-{number}", turns=turns))
    return tuple(sessions)


def _load_list(path: Path, *, kind: str) -> list[Any]:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP_MAGIC):
            data = gzip.decompress(data)
        loaded = json.loads(data)
    except OSError as error:
        raise BenchmarkError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zlib.error) as error:
        raise BenchmarkError(f"{path} is not JSON: {error}") from error
    if not isinstance(loaded, list) or not loaded:
        raise BenchmarkError(
            f"{path} is not of the {kind} format: expected a list of conversations"
        )
    return loaded


def _check_ids(path: Path, conversations: Iterable[Conversation]) -> None:
    """Refuse ids that stand twice: answers could not be told apart."""
    seen: set[str] = set()
    for conversation in conversations:
        for kind, name in (
            ("conversation", conversation.id),
            *(("turn", f"{conversation.id}/{turn.id}") for turn in conversation.turns),
        ):
            if name in seen:
                short = name.rpartition("/")[2] if kind == "turn" else name
                raise BenchmarkError(f"{path}: the {kind} id {short!r} stands twice")
            seen.add(name)


def _not_of_format(path: Path, kind: str, error: Exception) -> BenchmarkError:
    what = f"no key {error}" if isinstance(error, KeyError) else str(error)
    return BenchmarkError(f"{path} is not of the {kind} format: {what}")
