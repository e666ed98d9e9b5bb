"""A candidate on its way through the pipeline; may import requests and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agentmemory.records import ScopedRecord
from agentmemory.requests import Candidate
from agentmemory.results import StageTrace

# Steps and ranked candidates are made for whole pools at every stage, while results are made of a
# few. So both are not frozen, which would make them four times dearer, though nothing changes
# them; and what a step has to say may wait until somebody asks.


@dataclass(slots=True)
class Step:
    """What one stage did to a candidate; as `StageTrace`, of which it is the beginning.

    Args:
        stage: The stage's name.
        rank: The candidate's place after the stage, from 1.
        score: Its score after the stage, if that gave one.
        reason: Why, in words, or what says it in words.
        duration_s: Seconds the stage took for all candidates.
        about: What `reason` is called with, if it is no text.
    """

    stage: str
    rank: int | None = None
    score: float | None = None
    reason: str | Callable[..., str] = ""
    duration_s: float | None = None
    about: tuple[Any, ...] = ()

    def trace(self) -> StageTrace:
        """Return the step in words."""
        return StageTrace(
            stage=self.stage,
            rank=self.rank,
            score=self.score,
            reason=self.reason if isinstance(self.reason, str) else self.reason(*self.about),
            duration_s=self.duration_s,
        )


@dataclass(slots=True)
class Ranked:
    """A candidate with its present score and what each stage did to it; never changed.

    Args:
        candidate: What the store brought.
        score: Relevance after the last stage that scored it.
        steps: What each stage did, in order.
        notes: What went wrong or was left out.
    """

    candidate: Candidate
    score: float
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def record(self) -> ScopedRecord:
        """The record."""
        return self.candidate.record

    def after(self, step: Step) -> Ranked:
        """Return the same candidate after one more stage, with the stage's score if it has one."""
        score = self.score if step.score is None else step.score
        return Ranked(self.candidate, score, (*self.steps, step), self.notes)

    def noting(self, note: str) -> Ranked:
        """Return the same candidate with one more note."""
        return replace(self, notes=(*self.notes, note))

    def untimed(self) -> Ranked:
        """Return the same candidate without durations: equal searches give equal results."""
        steps = [
            Step(step.stage, step.rank, step.score, step.reason, None, step.about)
            for step in self.steps
        ]
        return Ranked(self.candidate, self.score, tuple(steps), self.notes)
