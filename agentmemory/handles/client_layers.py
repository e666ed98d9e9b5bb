"""What a client does with layered memory; may import layered, the ontology room and below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentmemory.checks import check_bool, check_optional_id
from agentmemory.handles.base import ClientHandle, explicit_user
from agentmemory.layered import (
    change_confidence,
    load_ontology,
    record_outcome,
    retrieve,
    run_eviction,
)
from agentmemory.layering import EvictionPolicy, EvictionReport
from agentmemory.memories import exact_scope
from agentmemory.ontology.compression import DEFAULT_BUDGETS, LayerBudgets
from agentmemory.ontology.intent import MAX_KEYWORDS
from agentmemory.ontology.lifecycle import DEFAULT_DELTA, OntologyReceipt, OutcomeReceipt
from agentmemory.ontology.result import RetrievalResult
from agentmemory.ontology.retrieve import BACKGROUND_LIMIT, CONTEXT_LIMIT, RULE_LIMIT
from agentmemory.ontology.routing import Route
from agentmemory.ontology.vocabulary import Ontology
from agentmemory.protocols import ILlm
from agentmemory.records import Layer, Tier
from agentmemory.scope import NOT_SET_MARKER, OptionalId


class ClientLayers(ClientHandle):
    """Layered memory of a client."""

    async def retrieve(
        self,
        intent: str,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
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
        """Return what an intent needs: all CRITICAL memories, and of other layers the best.

        Args:
            intent: What somebody wants, in any language.
            user_id: The user, or None for memories without one; always needed.
            agent_id: Only memories of this agent, or None for those without one; default all.
            thread_id: Likewise for the thread.
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
            ScopeError: No `user_id`.
            LayerBudgetError: CRITICAL costs more than its share and `budgets` says to raise.
            ValidationError: An argument is not as described.
        """
        return await retrieve(
            self._parts,
            intent,
            scope=exact_scope(explicit_user(user_id), agent_id, thread_id),
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

    async def load_ontology(
        self,
        ontology: Ontology,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: str | None = None,
    ) -> OntologyReceipt:
        """Write the rules of a domain to memory, and read intents by its vocabulary from now on.

        Loading again changes what the ontology says otherwise by now and writes nothing else;
        memories that rest on a rule whose text changes leave with the next eviction. The
        vocabulary belongs to this client and is not stored.

        Args:
            ontology: The vocabulary and the rules.
            user_id: The user the rules belong to, or None for none; always needed.
            agent_id: The agent they belong to; default none.

        Returns:
            The ids of the memories that were added, changed and left as they were.

        Raises:
            ScopeError: No `user_id`.
            ValidationError: `ontology` is none.
        """
        return await load_ontology(
            self._parts,
            ontology,
            user_id=check_optional_id(explicit_user(user_id), argument="user_id"),
            agent_id=check_optional_id(agent_id, argument="agent_id"),
        )

    async def record_outcome(
        self,
        operation: str,
        *,
        rules: Sequence[str] = (),
        success: bool,
        used: Sequence[str] = (),
        content: str | None = None,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: str | None = None,
        thread_id: str | None = None,
    ) -> OutcomeReceipt:
        """Remember how an operation went: as RULE what worked, as CONTEXT what was refused.

        The memory is tagged with the operation, the rules and "success" or "rejected"; the same
        outcome is remembered once and then counts as a hit. A rejection lowers the confidence of
        what was used by 0.2.

        Args:
            operation: The operation's name.
            rules: Names of the rules that let it through or refused it.
            success: Whether it went through.
            used: Ids of the memories it rested on.
            content: What to remember; default the names in a sentence.
            user_id: The user, or None for none; always needed.
            agent_id: The agent; default none.
            thread_id: The conversation; default none.

        Raises:
            ScopeError: No `user_id`.
            NotFoundError: One of `used` is not in this scope; nothing is written then.
            ValidationError: An argument is not as described.
        """
        user = check_optional_id(explicit_user(user_id), argument="user_id")
        agent = check_optional_id(agent_id, argument="agent_id")
        return await record_outcome(
            self._parts,
            operation,
            rules=rules,
            success=success,
            used=used,
            content=content,
            owner=(user, agent),
            thread_id=check_optional_id(thread_id, argument="thread_id"),
            scope=exact_scope(user, agent_id if agent is not None else NOT_SET_MARKER),
        )

    async def lower_confidence(
        self,
        memory_id: str,
        delta: float = DEFAULT_DELTA,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> float:
        """Trust a memory less; below 0.3 the next eviction puts it away, CRITICAL ones aside.

        Args:
            memory_id: The memory.
            delta: How much less, 0.0 to 1.0.
            user_id: The user it has to belong to (None: to none); omitted: not checked.
            agent_id: Likewise for the agent.
            thread_id: Likewise for the thread.

        Returns:
            Its confidence from now on, 0.0 to 1.0.

        Raises:
            NotFoundError: No such memory in that scope.
        """
        scope = exact_scope(user_id, agent_id, thread_id)
        return await change_confidence(self._parts, memory_id, delta, sign=-1, scope=scope)

    async def raise_confidence(
        self,
        memory_id: str,
        delta: float = DEFAULT_DELTA,
        *,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
        thread_id: OptionalId = NOT_SET_MARKER,
    ) -> float:
        """Trust a memory more, and bring it back if it was put away.

        It is hot again and a mark for review ends, if its confidence is then 0.3 or more. The
        arguments are those of `lower_confidence`.

        Returns:
            Its confidence from now on, 0.0 to 1.0.

        Raises:
            NotFoundError: No such memory in that scope.
        """
        scope = exact_scope(user_id, agent_id, thread_id)
        return await change_confidence(self._parts, memory_id, delta, sign=1, scope=scope)

    async def run_eviction(
        self,
        *,
        dry_run: bool = False,
        policy: EvictionPolicy | None = None,
        user_id: OptionalId = NOT_SET_MARKER,
        agent_id: OptionalId = NOT_SET_MARKER,
    ) -> EvictionReport:
        """Move memories of layers to the tier that idle time, hits and confidence give them.

        Archived and deprecated memories leave retrieval, search and cards. Nothing is deleted:
        `raise_confidence` brings a memory back, and lists show it when `tiers` asks for it.

        Args:
            dry_run: Say what would move, and change nothing.
            policy: When memories move; default `EvictionPolicy()`.
            user_id: Only this user's memories (None: those of no user); omitted: everybody's.
            agent_id: Likewise for the agent.
        """
        return await run_eviction(
            self._parts,
            scope=exact_scope(user_id, agent_id),
            policy=policy,
            dry_run=check_bool(dry_run, argument="dry_run"),
        )
