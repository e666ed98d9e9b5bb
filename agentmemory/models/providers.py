"""Who serves models: addresses, keys and habits of the providers that a model name can name.

May import: secrets of this room, checks, errors. A name is `"provider/model"`; a name without a
known provider goes to the `api_base` that comes with it, as an OpenAI-compatible endpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agentmemory.checks import check_text
from agentmemory.errors import ConfigurationError
from agentmemory.models.secrets import Secret

ApiType: TypeAlias = Literal["chat_completions", "responses", "messages"]
EmbeddingForm: TypeAlias = Literal["openai", "cohere", "jina", "voyage"]
RerankForm: TypeAlias = Literal["cohere", "jina", "voyage", "tei", "vllm"]
Rung: TypeAlias = Literal["json_schema", "json_object", "tool", "prompt"]
Bounds: TypeAlias = Literal["none", "counts", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What is known about a provider.

    Args:
        name: The prefix of its models.
        base_url: Where its API begins; None if every customer has an own address.
        base_url_variable: Environment variable that may hold that address.
        key_variables: Environment variables that may hold the key, first one first.
        key_header: The header that carries the key; `authorization` carries it as a bearer.
        needs_key: Whether a call without a key is pointless.
        api_type: The form its language models speak.
        rungs: Ways to ask for JSON, best first.
        shows_schema: Whether the model itself gets to read the schema it is held to; servers that
            only constrain what it writes leave it to guess the meaning of the fields.
        strict_bounds: Which bounds a strict schema may state: none, the counts of items, or all.
        max_tokens_field: What it calls the limit of the answer in chat completions.
        stream_usage: Whether `stream_options` is understood.
        embedding_form: The form of its embedding endpoint.
        base64: Whether it can send vectors as base64.
        max_batch_items: Texts per embedding request.
        max_batch_tokens: Tokens per embedding request.
        rerank_form: The form of its rerank endpoint.
        rerank_url: Where reranking begins, if not at `base_url`.
        max_rerank_documents: Documents per rerank request.
    """

    name: str
    base_url: str | None = None
    base_url_variable: str | None = None
    key_variables: tuple[str, ...] = ()
    key_header: Literal["authorization", "x-api-key", "api-key"] = "authorization"
    needs_key: bool = True
    api_type: ApiType = "chat_completions"
    rungs: tuple[Rung, ...] = ("json_schema", "json_object", "tool", "prompt")
    shows_schema: bool = True
    strict_bounds: Bounds = "counts"
    max_tokens_field: str = "max_tokens"
    stream_usage: bool = True
    embedding_form: EmbeddingForm = "openai"
    base64: bool = True
    max_batch_items: int = 64
    max_batch_tokens: int = 32_000
    rerank_form: RerankForm = "jina"
    rerank_url: str | None = None
    max_rerank_documents: int = 1000


GENERIC = Provider(name="openai-compatible", needs_key=False, shows_schema=False)
"""An endpoint of which only the address is known."""

_KNOWN = (
    Provider(
        name="openai",
        base_url="https://api.openai.com/v1",
        base_url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        max_tokens_field="max_completion_tokens",
        max_batch_items=2048,
        max_batch_tokens=250_000,
    ),
    Provider(
        name="azure",
        base_url_variable="AZURE_OPENAI_ENDPOINT",
        key_variables=("AZURE_OPENAI_API_KEY",),
        key_header="api-key",
        max_tokens_field="max_completion_tokens",
        max_batch_items=2048,
        max_batch_tokens=250_000,
    ),
    Provider(
        name="anthropic",
        base_url="https://api.anthropic.com/v1",
        key_variables=("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        api_type="messages",
        rungs=("json_schema", "tool", "prompt"),
        strict_bounds="none",
    ),
    Provider(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base64=False,
        max_batch_items=100,
        max_batch_tokens=20_000,
    ),
    Provider(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        stream_usage=False,
        base64=False,
        max_batch_items=256,
        max_batch_tokens=15_000,
    ),
    Provider(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
    ),
    Provider(
        name="together",
        base_url="https://api.together.xyz/v1",
        key_variables=("TOGETHER_API_KEY",),
        rerank_form="cohere",
    ),
    Provider(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
    ),
    Provider(
        name="deepseek",
        base_url="https://api.deepseek.com/v1",
        key_variables=("DEEPSEEK_API_KEY",),
        rungs=("json_object", "tool", "prompt"),
    ),
    Provider(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
    ),
    Provider(name="xai", base_url="https://api.x.ai/v1", key_variables=("XAI_API_KEY",)),
    Provider(
        name="ollama",
        base_url="http://localhost:11434/v1",
        needs_key=False,
        shows_schema=False,
        strict_bounds="all",
    ),
    Provider(
        name="vllm",
        base_url="http://localhost:8000/v1",
        needs_key=False,
        shows_schema=False,
        max_batch_items=256,
        rerank_form="vllm",
    ),
    Provider(
        name="llamacpp",
        base_url="http://localhost:8080/v1",
        needs_key=False,
        shows_schema=False,
        strict_bounds="all",
    ),
    Provider(
        name="lmstudio",
        base_url="http://localhost:1234/v1",
        needs_key=False,
        shows_schema=False,
        strict_bounds="all",
    ),
    Provider(
        name="tei",
        base_url="http://localhost:8080",
        needs_key=False,
        max_batch_items=32,
        rerank_form="tei",
        max_rerank_documents=32,
    ),
    Provider(
        name="cohere",
        base_url="https://api.cohere.com/v2",
        key_variables=("COHERE_API_KEY", "CO_API_KEY"),
        embedding_form="cohere",
        base64=False,
        max_batch_items=96,
        rerank_form="cohere",
    ),
    Provider(
        name="jina",
        base_url="https://api.jina.ai/v1",
        key_variables=("JINA_API_KEY",),
        embedding_form="jina",
        max_batch_items=512,
        rerank_form="jina",
    ),
    Provider(
        name="voyage",
        base_url="https://api.voyageai.com/v1",
        key_variables=("VOYAGE_API_KEY",),
        embedding_form="voyage",
        max_batch_items=1000,
        max_batch_tokens=100_000,
        rerank_form="voyage",
    ),
)
_ALIASES = {
    "azure_openai": "azure",
    "claude": "anthropic",
    "google": "gemini",
    "together_ai": "together",
    "hosted_vllm": "vllm",
    "llama.cpp": "llamacpp",
    "lm_studio": "lmstudio",
    "huggingface-tei": "tei",
    "jina_ai": "jina",
}
PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _KNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which model of which provider is meant, and how to reach it.

    Args:
        provider: The provider's habits.
        model: The model's name as the provider knows it.
        name: The model's name with its provider.
        base_url: Where its API begins.
        key: The key, if there is one.
    """

    provider: Provider
    model: str
    name: str
    base_url: Secret
    key: Secret | None = field(default=None)


def find_target(model: str, *, api_base: str | None = None, api_key: str | None = None) -> Target:
    """Find the model that a name means.

    A key from the environment goes to the provider's own address only: an `api_base` gets the
    `api_key` that comes with it, or none. Providers without an address of their own (Azure) are
    the exception.

    Args:
        model: `"provider/model"`, or any name together with `api_base`.
        api_base: The address of the endpoint, as far as the part that all paths share
            (mostly `…/v1`); default is the provider's.
        api_key: The key; default is the provider's environment variable.

    Raises:
        ValidationError: `model` is no text.
        ConfigurationError: No such provider and no `api_base`, or no key where one is needed.
    """
    check_text(model, argument="model")
    prefix, _, rest = model.strip().partition("/")
    provider = PROVIDERS.get(_ALIASES.get(prefix.lower(), prefix.lower())) if rest else None
    if provider is None:
        if api_base is None:
            raise ConfigurationError(
                f"`model` {model!r} names no known provider and there is no `api_base`; accepted "
                f"is 'provider/model' with one of {', '.join(sorted(PROVIDERS))}, or any name "
                "together with `api_base`"
            )
        provider, rest = GENERIC, model.strip()
    base_url = api_base or _from_environment(provider.base_url_variable) or provider.base_url
    if base_url is None:
        raise ConfigurationError(
            f"`model` {model!r} needs `api_base`, or {provider.base_url_variable} in the "
            "environment"
        )
    key = api_key
    if key is None and (api_base is None or provider.base_url is None):
        key = next(filter(None, map(_from_environment, provider.key_variables)), None)
    if key is None and provider.needs_key and api_base is None:
        raise ConfigurationError(
            f"`model` {model!r} needs `api_key`, or {' or '.join(provider.key_variables)} in the "
            "environment"
        )
    return Target(
        provider=provider,
        model=rest,
        name=f"{provider.name}/{rest}" if provider is not GENERIC else rest,
        base_url=Secret(base_url),
        key=None if key is None else Secret(checked_key(key)),
    )


def checked_key(key: str) -> str:
    """Strip a key and make sure that a header can carry it; never shows it."""
    key = str(key).strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            "`api_key` must be printable ASCII without blanks; what was given is not shown"
        )
    return key


def _from_environment(variable: str | None) -> str | None:
    if variable is None:
        return None
    return os.environ.get(variable, "").strip() or None
