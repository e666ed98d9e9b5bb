"""From what a user writes to the model that is meant.

May import: the other modules of this room, protocols, errors.
"""

from __future__ import annotations

from agentmemory.errors import ConfigurationError
from agentmemory.protocols import IEmbedder, ILlm


def resolve_embedder(value: IEmbedder | str | None) -> IEmbedder | None:
    """Turn the `embedder` argument of a client into an embedder.

    Args:
        value: An object with the methods of `IEmbedder`, which is returned as it is; `"local"` or
            `"local/wordllama"` for the embedder of the `local` extra; `"provider/name"` for one
            that is called over HTTP with the key in the environment; None for no embedder.

    Returns:
        The embedder, or None. One that was made here from a name may have an `aclose()`.

    Raises:
        ConfigurationError: The name is not one of these, a key or the extra is missing.
    """
    if value is None:
        return None
    if isinstance(value, str):
        name = value.strip()
        if name == "local" or name.startswith("local/"):
            from agentmemory.models.local import LocalEmbedder

            return LocalEmbedder(name.removeprefix("local").removeprefix("/") or "wordllama")
        from agentmemory.models.embedder import Embedder

        return Embedder(name)
    if isinstance(value, IEmbedder):
        return value
    raise ConfigurationError(
        f"`embedder` must be an object with `embed` and `fingerprint`, a model name or None, "
        f"not {value!r}"
    )


def resolve_llm(value: ILlm | str | None) -> ILlm | None:
    """Turn the `llm` argument of a client into a language model.

    Args:
        value: An object with the method of `ILlm`, which is returned as it is; `"provider/name"`
            for one that is called over HTTP with the key in the environment; None for none.

    Raises:
        ConfigurationError: It is none of these, or a key is missing.
    """
    if value is None:
        return None
    if isinstance(value, str):
        from agentmemory.models.llm import Llm

        return Llm(value)
    if isinstance(value, ILlm):
        return value
    raise ConfigurationError(
        f"`llm` must be an object with `generate`, a model name or None, not {value!r}"
    )
