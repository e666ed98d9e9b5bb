"""A candidate on its way through the pipeline; may import requests and results."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentmemory.records import ScopedRecord
from agentmemory.requests import Candidate
from agentmemory.results import StageTrace


# Not frozen, for that makes it four times dearer; each stage makes new ones all the same.
@dataclass(slots=True, kw_only=True)
class Ranked:
    """A candidate with its present score and what each stage did to it; never changed.

    Args:
        candidate: What the store brought.
        score: Relevance after the last stage that scored it.
        stages: What each stage did, in order.
        notes: What went wrong or was left out.
    """

    candidate: Candidate
    score: float
    stages: tuple[StageTrace, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def record(self) -> ScopedRecord:
        """The record."""
        return self.candidate.record

    def after(self, trace: StageTrace) -> Ranked:
        """Return the same candidate after one more stage, with the stage's score if it has one."""
        return Ranked(
            candidate=self.candidate,
            score=self.score if trace.score is None else trace.score,
            stages=(*self.stages, trace),
            notes=self.notes,
        )

    def noting(self, note: str) -> Ranked:
        """Return the same candidate with one more note."""
        return replace(self, notes=(*self.notes, note))
