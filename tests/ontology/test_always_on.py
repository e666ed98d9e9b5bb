"""What stands in a context card whatever is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentmemory import AsyncAgentMemory, AsyncThread, ValidationError
from agentmemory.testing import FrozenClock


@pytest.fixture
async def thread() -> AsyncIterator[AsyncThread]:
    async with AsyncAgentMemory(":memory:", embedder=None, clock=FrozenClock()) as memory:
        thread = await memory.create_thread(user_id="u1")
        await thread.add_memory("Speak plainly.", memory_type="guideline")
        await thread.add_memory("Rule one.", layer="rule")
        for number in range(60):
            await thread.add_memory(f"Never {number}.", layer="critical")
        yield thread


def shown(card: Any) -> list[str]:
    return [hit.content for hit in card.always_on]


NEVER = [f"Never {number}." for number in range(60)]


async def test_all_of_critical_stands_first_in_every_card(thread: AsyncThread):
    assert shown(await thread.get_context_card(query="kites")) == NEVER
    card = await thread.get_context_card(query="kites", include_guidelines=True)
    assert shown(card) == [*NEVER, "Speak plainly."]


async def test_layers_that_are_asked_for_stand_in_the_card(thread: AsyncThread):
    card = await thread.get_context_card(query="kites", layers=["rule"], include_guidelines=True)
    assert shown(card) == [*NEVER, "Speak plainly.", "Rule one."]
    assert card.content.index("Never 0.") < card.content.index("Speak plainly.")


async def test_their_own_budget_cuts_everything_but_critical(thread: AsyncThread):
    for budget in (0, 100):
        card = await thread.get_context_card(
            query="kites",
            layers=["rule"],
            include_guidelines=True,
            always_on_token_budget=budget,
        )
        assert shown(card) == NEVER


async def test_bad_layers_and_budgets_are_refused_by_name(thread: AsyncThread):
    with pytest.raises(ValidationError, match="`layers`"):
        await thread.get_context_card(layers=["top"])  # type: ignore[list-item]
    with pytest.raises(ValidationError, match="`always_on_token_budget`"):
        await thread.get_context_card(always_on_token_budget=-1)
