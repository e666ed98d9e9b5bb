"""What a thread does with layered memory; may import layered, the ontology room and below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentmemory.handles.base import ThreadHandle
from agentmemory.layered import change_confidence, record_outcome, retrieve
from agentmemory.ontology.compression import DEFAULT_BUDGETS, LayerBudgets
from agentmemory.ontology.intent import MAX_KEYWORDS
from agentmemory.ontology.lifecycle import DEFAULT_DELTA, OutcomeReceipt
from agentmemory.ontology.result import RetrievalResult
from agentmemory.ontology.retrieve import BACKGROUND_LIMIT, CONTEXT_LIMIT, RULE_LIMIT
from agentmemory.ontology.routing import Route
from agentmemory.protocols import ILlm
from agentmemory.records import Layer, Tier


class ThreadLayers(ThreadHandle):
    """Layered memory of a thread's user and agent."""

    async def retrieve(
        self,
        intent: str,
        *,
        layers: Sequence[Layer | Literal["critical", "rule", "context", "background"]]
        | None = None,
        rule_limit: int = RULE_LIMIT,
        context_limit: int = CONTEXT_LIMIT,
        background_limit: int = BACKGROUND_LIMIT,
        token_budget: int | None = None,
        budgets: LayerBudgets | None = DEFAULT_BUDGETS,
        vectors: bool | None = None,
        count_hits: bool = False,
        tiers: Sequence[Tier | Literal["hot", "warm", "cold", "archived", "deprecated"]]
        | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        max_keywords: int = MAX_KEYWORDS,
        routes: Sequence[Route] | None = None,
        llm: ILlm | None = None,
    ) -> RetrievalResult:
        """Return what an intent needs of the memories of this thread's user and agent.

        Args:
            intent: What somebody wants, in any language.
            layers: The layers to look at, instead of what the routing table says.
            rule_limit: Most RULE memories, 0 to 100.
            context_limit: Most CONTEXT memories, 0 to 100.
            background_limit: Most BACKGROUND memories, 0 to 100; they come when the intent asks
                for them, and else when more than 100 tokens are left.
            token_budget: What all layers may cost together, in the proportions of `budgets`.
            budgets: What each layer may cost; None for no limit.
            vectors: Whether vectors order what tags and content let through; default from 1,000
                active memories in scope on.
            count_hits: Whether what is returned, CRITICAL aside, counts as used.
            tiers: Only these tiers; default all but "archived" and "deprecated".
            metadata_filter: A metadata filter.
            max_keywords: Most keywords, 1 to 100.
            routes: The routing table; default `DEFAULT_ROUTES`.
            llm: Reads intents that hold no word of the vocabulary and no cue; default nobody.

        Raises:
            LayerBudgetError: CRITICAL costs more than its share and `budgets` says to raise.
            ValidationError: An argument is not as described.
        """
        return await retrieve(
            self._parts,
            intent,
            scope=self._memory_scope,
            layers=layers,
            rule_limit=rule_limit,
            context_limit=context_limit,
            background_limit=background_limit,
            token_budget=token_budget,
            budgets=budgets,
            vectors=vectors,
            count_hits=count_hits,
            tiers=tiers,
            metadata_filter=metadata_filter,
            max_keywords=max_keywords,
            routes=routes,
            llm=llm,
        )

    async def record_outcome(
        self,
        operation: str,
        *,
        rules: Sequence[str] = (),
        success: bool,
        used: Sequence[str] = (),
        content: str | None = None,
    ) -> OutcomeReceipt:
        """Remember how an operation went, as a memory of this thread.

        As RULE what worked, as CONTEXT what was refused. The memory is tagged with the operation,
        the rules and "success" or "rejected"; the same outcome is remembered once and then counts
        as a hit. A rejection lowers the confidence of what was used by 0.2.

        Args:
            operation: The operation's name.
            rules: Names of the rules that let it through or refused it.
            success: Whether it went through.
            used: Ids of the memories it rested on, of this thread's user and agent.
            content: What to remember; default the names in a sentence.

        Raises:
            NotFoundError: One of `used` is not in this scope; nothing is written then.
            ValidationError: An argument is not as described.
        """
        return await record_outcome(
            self._parts,
            operation,
            rules=rules,
            success=success,
            used=used,
            content=content,
            owner=(self.user_id, self.agent_id),
            thread_id=self.thread_id,
            scope=self._memory_scope,
        )

    async def lower_confidence(self, memory_id: str, delta: float = DEFAULT_DELTA) -> float:
        """Trust a memory of this thread less; return its confidence from now on.

        Args:
            memory_id: The memory.
            delta: How much less, 0.0 to 1.0.

        Raises:
            NotFoundError: There is none with this id in this thread.
        """
        return await change_confidence(self._parts, memory_id, delta, sign=-1, scope=self._scope)

    async def raise_confidence(self, memory_id: str, delta: float = DEFAULT_DELTA) -> float:
        """Trust a memory of this thread more, and bring it back if it was put away.

        Args:
            memory_id: The memory.
            delta: How much more, 0.0 to 1.0.

        Returns:
            Its confidence from now on, 0.0 to 1.0.

        Raises:
            NotFoundError: There is none with this id in this thread.
        """
        return await change_confidence(self._parts, memory_id, delta, sign=1, scope=self._scope)
