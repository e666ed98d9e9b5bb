"""The one error tree of the library; imports nothing of the package.

::

    AgentMemoryError
    ├── ConfigurationError (ValueError)      options that cannot work together or at all
    │   └── EmbedderMismatchError            vectors of another embedder are stored
    ├── ValidationError (ValueError)         a bad argument; `.argument` names it
    │   ├── ScopeError                       a scope is missing, ambiguous or refused
    │   └── FilterError                      a metadata filter that has no meaning
    ├── LayerBudgetError                     CRITICAL memories cost more than their share
    ├── NotFoundError (LookupError)          no such thing in the scope that was given
    ├── ConflictError                        an id that is taken
    │   ├── StaleReadError                   somebody else wrote between read and write
    │   └── LeaseLostError                   another worker took the job over
    ├── ClosedError (RuntimeError)           used after `close()`
    ├── UsageError (RuntimeError)            called from a place that cannot work
    ├── StoreError                           the database
    │   ├── StoreUnavailableError            cannot be opened or reached
    │   ├── StoreBusyError                   locked by others for longer than the busy timeout
    │   ├── StoreTimeoutError (TimeoutError) an operation outlived its deadline
    │   ├── StoreFullError                   disk or quota is full
    │   ├── StoreCorruptError                the file is damaged
    │   ├── SchemaMismatchError              not our database, or another version of it
    │   └── CapabilityMissingError           the database cannot do what was asked
    ├── ModelError                           an LLM, embedder or reranker
    │   ├── ModelUnavailableError            connection fault, 408, 5xx
    │   ├── ModelTimeoutError (TimeoutError) a deadline passed
    │   ├── RateLimitedError                 429; `.retry_after` seconds if told
    │   ├── AuthenticationError              401, 403
    │   ├── ModelRequestError                the provider refused the request (other 4xx)
    │   │   ├── ContextLengthError           the input is too long for the model
    │   │   └── InputRejectedError           some of many inputs; `.indexes`, `.vectors`
    │   └── BadModelOutput                   an answer that could not be understood; `.raw`
    └── WaitTimeoutError (TimeoutError)      waiting for background work took too long

Every error has a machine-readable `code` and says with `retryable` whether the same call may
succeed later.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AgentMemoryError(Exception):
    """Root of every error this library raises on purpose."""

    code: ClassVar[str] = "agentmemory"
    retryable: bool = False


class ConfigurationError(AgentMemoryError, ValueError):
    """Options that cannot work together or at all."""

    code = "configuration"


class EmbedderMismatchError(ConfigurationError):
    """The database holds vectors of another embedder; call `reembed` or pass that embedder."""

    code = "embedder_mismatch"


class ValidationError(AgentMemoryError, ValueError):
    """A bad argument; nothing was written.

    Args:
        message: What is wrong and what would be accepted.
        argument: The name of the argument at fault.
    """

    code = "validation"

    def __init__(self, message: str, *, argument: str) -> None:
        super().__init__(message)
        self.argument = argument


class ScopeError(ValidationError):
    """A scope is missing, ambiguous or refused."""

    code = "scope"


class FilterError(ValidationError):
    """A metadata filter that has no meaning."""

    code = "filter"

    def __init__(self, message: str, *, argument: str = "metadata_filter") -> None:
        super().__init__(message, argument=argument)


class NotFoundError(AgentMemoryError, LookupError):
    """No such thing in the scope that was given."""

    code = "not_found"


class ConflictError(AgentMemoryError):
    """An id that is taken, or a write that collides with another."""

    code = "conflict"


class StaleReadError(ConflictError):
    """What was read has changed before the write that rests on it; read again and retry."""

    code = "stale_read"
    retryable = True


class LeaseLostError(ConflictError):
    """A job's lease ran out and another worker took it over; its work counts, not this one's."""

    code = "lease_lost"


class LayerBudgetError(AgentMemoryError):
    """CRITICAL memories cost more than their share, and the caller chose to be told."""

    code = "layer_budget"


class ClosedError(AgentMemoryError, RuntimeError):
    """The object was used after `close()`."""

    code = "closed"


class UsageError(AgentMemoryError, RuntimeError):
    """The call was made from a place where it cannot work."""

    code = "usage"


class StoreError(AgentMemoryError):
    """The database failed."""

    code = "store"


class StoreUnavailableError(StoreError):
    """The database cannot be opened or reached."""

    code = "store_unavailable"
    retryable = True


class StoreBusyError(StoreError):
    """Other processes held the database lock for longer than the busy timeout."""

    code = "store_busy"
    retryable = True


class StoreTimeoutError(StoreError, TimeoutError):
    """An operation outlived its deadline and was interrupted."""

    code = "store_timeout"
    retryable = True


class StoreFullError(StoreError):
    """The disk or a quota is full; nothing of the operation was kept."""

    code = "store_full"


class StoreCorruptError(StoreError):
    """The database file is damaged."""

    code = "store_corrupt"


class SchemaMismatchError(StoreError):
    """The database is not ours, or is of a version this release cannot use."""

    code = "schema_mismatch"


class CapabilityMissingError(StoreError):
    """The database cannot do what was asked."""

    code = "capability_missing"


class ModelError(AgentMemoryError):
    """An LLM, embedder or reranker failed.

    Args:
        message: What happened; never holds a key or a body.
        status: HTTP status, if there was an answer.
        request_id: The provider's id of the request, if it gave one.
        retryable: Whether the same call may succeed later; default as the class says.
    """

    code = "model"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        if retryable is not None:
            self.retryable = retryable


class ModelUnavailableError(ModelError):
    """The model could not be reached or failed on its side."""

    code = "model_unavailable"
    retryable = True


class ModelTimeoutError(ModelError, TimeoutError):
    """A model did not answer within its deadline."""

    code = "model_timeout"
    retryable = True


class RateLimitedError(ModelError):
    """The provider limits the rate; `retry_after` is in seconds, None if it did not say."""

    code = "rate_limited"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = 429,
        request_id: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id, retryable=retryable)
        self.retry_after = retry_after


class AuthenticationError(ModelError):
    """The provider does not accept the credentials."""

    code = "authentication"


class ModelRequestError(ModelError):
    """The provider refused the request as it is."""

    code = "model_request"


class ContextLengthError(ModelRequestError):
    """The input is too long for the model; the same call can never succeed."""

    code = "context_length"


class InputRejectedError(ModelRequestError):
    """A model refused some of the texts it was to embed, and embedded the others.

    Args:
        message: What happened.
        indexes: The places of the refused texts.
        vectors: Float32 rows of all texts; those of refused texts are zero.
    """

    code = "input_rejected"

    def __init__(
        self,
        message: str,
        *,
        indexes: tuple[int, ...],
        vectors: Any,
        status: int | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id, retryable=retryable)
        self.indexes = indexes
        self.vectors = vectors


class BadModelOutput(ModelError):
    """A model's answer could not be understood even after repair and one re-ask.

    Args:
        message: What was wrong with the answer.
        raw: The text the model gave.
    """

    code = "bad_model_output"

    def __init__(
        self,
        message: str,
        *,
        raw: str,
        status: int | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, status=status, request_id=request_id, retryable=retryable)
        self.raw = raw


class WaitTimeoutError(AgentMemoryError, TimeoutError):
    """Waiting for background work took longer than the timeout."""

    code = "wait_timeout"
    retryable = True
