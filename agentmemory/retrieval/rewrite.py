"""A hypothetical answer in place of the question, for the vector arm only.

Source: Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels" (HyDE, 2022). The
lexical arm keeps the real query, so that a wrong guess costs no exact word; a query that asks for
something by its exact name is not rewritten at all. May import protocols.
"""

from __future__ import annotations

import re
from typing import Final

import anyio

from agentmemory.errors import ModelError, ModelTimeoutError
from agentmemory.protocols import ILlm

_INSTRUCTIONS: Final = (
    "Write the passage that would answer the question below, as it might stand in a conversation "
    "or a note, in the language of the question, in at most three sentences. Do not say that you "
    "are guessing."
)

_READ_CHARS: Final = 2_000
"""How much of a query is looked through for exact names."""

_EXACT: Final = (
    (
        "a quoted term",
        re.compile(
            r"\"[^\"]+\"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|‘[^’]+’|「[^」]+」|『[^』]+』|《[^》]+》|`[^`]+`"
            r"|(?<!\w)'[^']+'(?!\w)"
        ),
    ),
    (
        "a version",
        re.compile(r"(?<![\w.,])[vV]?\d+(?:\.\d+)+|\b[vV]\d+\b"),
    ),
    (
        "an identifier",
        re.compile(
            r"\b\w+://\S+"  # address
            r"|\b[\w.+-]+@[\w-]+\.\w+"  # mail address
            r"|\b\w+_\w+"  # snake_case
            r"|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*"  # camelCase
            r"|\b[A-Za-z_]\w+\.[A-Za-z_]\w+"  # dotted.path, file.name
            r"|(?<!\w)[~.]?/[\w.-]+"  # path
            r"|\b[A-Za-z]+-?\d\w*(?:-\w+)*"  # ORA-12154, gpt4, T1000
            r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b"  # hash
            r"|#\d+\b|\b\w+\(\)"  # issue, call
        ),
    ),
)


def reason_to_keep(query: str) -> str | None:
    """Return why a query has to stay as it is, or None if it may be rewritten.

    What is quoted, a version or an identifier is looked for as it stands; a passage that a model
    makes up around it leads away from it.
    """
    for what, pattern in _EXACT:
        found = pattern.search(query, 0, _READ_CHARS)
        if found is not None:
            return f"the query holds {what}: {found.group()!r}"
    return None


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
