"""A hypothetical answer in place of the question, for the vector arm only.

Source: Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels" (HyDE, 2022). The
lexical arm keeps the real query, so that a wrong guess costs no exact word. May import protocols.
"""

from __future__ import annotations

from typing import Final

import anyio

from agentmemory.errors import ModelError, ModelTimeoutError
from agentmemory.protocols import ILlm

_INSTRUCTIONS: Final = (
    "Write the passage that would answer the question below, as it might stand in a conversation "
    "or a note, in the language of the question, in at most three sentences. Do not say that you "
    "are guessing."
)


async def hypothetical_answer(llm: ILlm, query: str, *, deadline_s: float) -> str:
    """Return a passage that might answer a query.

    Raises:
        ModelError: The model failed, or answered nothing.
    """
    try:
        with anyio.fail_after(deadline_s):
            response = await llm.generate(
                [
                    {"role": "system", "content": _INSTRUCTIONS},
                    {"role": "user", "content": query},
                ],
                max_tokens=200,
            )
        text = response.text.strip()
    except ModelError:
        raise
    except TimeoutError as error:
        msg = f"the rewriter did not answer within {deadline_s:g} s"
        raise ModelTimeoutError(msg) from error
    except Exception as error:
        msg = f"the rewriter failed: {type(error).__name__}: {error}"
        raise ModelError(msg) from error
    if not text:
        msg = "the rewriter answered nothing"
        raise ModelError(msg)
    return text
