"""An embedder whose model runs inside the database; may import engine, statement, checks, errors.

The model is one that was loaded with `DBMS_VECTOR.LOAD_ONNX_MODEL`. Text never leaves the
database for a provider, and no key is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio

from agentmemory.checks import check_bool, check_int, check_list, check_text
from agentmemory.errors import (
    BadModelOutput,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    StoreError,
    StoreTimeoutError,
    ValidationError,
)
from agentmemory.protocols import EmbedderFingerprint
from agentmemory.stores.oracle.engine import OracleEngine
from agentmemory.stores.oracle.statement import BindType, Statement, StatementKind, Transaction

if TYPE_CHECKING:
    from agentmemory.protocols import FloatMatrix

MAX_TEXT_BYTES: Final = 4000
"""How much of a text is embedded: what a VARCHAR2 holds, more than such models read."""

MAX_BATCH: Final = 1024

_NAME: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9_$#]{0,127}\.)?[A-Za-z][A-Za-z0-9_$#]{0,127}")

PLAN_NOTES: Final[Mapping[str, str]] = {"model.embed": "none: no table is read"}


def embed_texts(model: str, input_name: str, texts: Sequence[str]) -> Statement:
    """Embed texts, one vector a row in their order; names are checked, for they cannot be bound.

    One statement for all, because vectors are fetched in a trip of their own after each.
    """
    return Statement(
        name="model.embed",
        text=f"SELECT VECTOR_EMBEDDING({model} USING j.content AS {input_name}) "
        f"FROM JSON_TABLE(:texts, '$[*]' COLUMNS (place FOR ORDINALITY, "
        f"content VARCHAR2({MAX_TEXT_BYTES} BYTE) PATH '$')) j ORDER BY j.place",
        kind=StatementKind.QUERY,
        binds={"texts": list(texts)},
        types={"texts": BindType.JSON},
    )


class OracleDBEmbedder:
    """Embeds text with a model of the database, by its SQL function VECTOR_EMBEDDING.

    A blank text is a zero vector. Of a text longer than 4000 bytes the first 4000 are embedded.

    Args:
        connection: An `oracle://` URL, or a pool or connection of python-oracledb, async or sync.
        model: Name of the model in the database, as "ALL_MINILM_L12_V2" or "OWNER.MODEL".
        input_name: Name of the model's input, as its metadata has it. Default "DATA".
        embedding_dimension: Length of its vectors; None: one text is embedded to find out.
        normalize: Whether to scale vectors to unit length. Default True.
        query_prefix: Text to put before each query.
        document_prefix: Text to put before each stored text.
        batch_size: Texts in one statement, 1 to 1024. Default 64.
        engine_options: How connections are used; see `OracleEngine`.

    Raises:
        ValidationError: A name is none of the database's, or a number is out of range.
        ConfigurationError: `connection` is nothing we can use.
    """

    def __init__(
        self,
        connection: Any,
        model: str,
        *,
        input_name: str = "DATA",
        embedding_dimension: int | None = None,
        normalize: bool = True,
        query_prefix: str = "",
        document_prefix: str = "",
        batch_size: int = 64,
        **engine_options: Any,
    ) -> None:
        self._model = check_name(model, "model")
        self._input = check_name(input_name, "input_name")
        if embedding_dimension is not None:
            check_int(embedding_dimension, argument="embedding_dimension", minimum=1)
        self._dimension = embedding_dimension
        self._normalize = check_bool(normalize, argument="normalize")
        self._prefixes = {
            True: check_text(query_prefix, argument="query_prefix", allow_empty=True),
            False: check_text(document_prefix, argument="document_prefix", allow_empty=True),
        }
        self._batch = check_int(batch_size, argument="batch_size", minimum=1, maximum=MAX_BATCH)
        self._engine = OracleEngine(connection, **engine_options)
        self._opening = anyio.Lock()
        self._opened = False

    def __repr__(self) -> str:
        return f"OracleDBEmbedder(model={self._model!r})"

    @property
    def model(self) -> str:
        """Name of the model in the database, in capitals."""
        return self._model

    async def aclose(self) -> None:
        """Let go of the database; may be called twice."""
        await self._engine.close()

    async def fingerprint(self) -> EmbedderFingerprint:
        """Say what its vectors are; asks the model once if their length is not known.

        Raises:
            ModelError: The model was asked and failed.
        """
        if self._dimension is None:
            await self.embed(["dimension"])
        return EmbedderFingerprint(
            model=f"oracle/{self._model}",
            dimension=self._dimension or 0,
            normalized=self._normalize,
            query_prefix=self._prefixes[True],
            document_prefix=self._prefixes[False],
        )

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> FloatMatrix:
        """Embed texts.

        Args:
            texts: The texts, any number of any length.
            is_query: Whether they are queries rather than stored texts.

        Returns:
            Float32 rows in the order of the texts; blank texts are zero rows.

        Raises:
            ValidationError: `texts` is a single string or holds something else than strings.
            ModelError: The database cannot be reached, or refuses the model or a text.
        """
        import numpy as np

        items = check_list(texts, argument="texts", of="texts")
        for place, text in enumerate(items):
            check_text(text, argument=f"texts[{place}]", allow_empty=True)
        prefix = self._prefixes[is_query]
        sent = [place for place, text in enumerate(items) if text.strip()]
        rows: list[Any] = []
        for start in range(0, len(sent), self._batch):
            batch = sent[start : start + self._batch]
            rows += await self._ask([_cut(prefix + items[place]) for place in batch])
        if rows:
            self._learn({len(row) for row in rows})
        matrix = np.zeros((len(items), self._dimension or 0), dtype=np.float32)
        if rows:
            matrix[sent] = np.asarray(rows, dtype=np.float32)
        if self._normalize:
            lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
            matrix /= np.where(lengths == 0, 1, lengths)
        return matrix

    async def _ask(self, texts: list[str]) -> list[Any]:
        async def work(transaction: Transaction) -> list[Any]:
            (rows,) = await transaction.run(embed_texts(self._model, self._input, texts))
            return [row[0] for row in rows]

        try:
            async with self._opening:
                if not self._opened:
                    await self._engine.open()
                    self._opened = True
            vectors = await self._engine.read(work)
        except StoreTimeoutError as error:
            raise ModelTimeoutError(f"{self!r} did not answer in time: {error}") from error
        except StoreError as error:
            kind = ModelUnavailableError if error.retryable else ModelRequestError
            raise kind(f"{self!r} failed: {error}") from error
        if len(vectors) != len(texts) or any(vector is None for vector in vectors):
            raise BadModelOutput(f"{self!r} gave no vector for a text", raw="NULL")
        return vectors

    def _learn(self, lengths: set[int]) -> None:
        """Take the length of vectors from the first answer, and hold the model to it."""
        wanted = self._dimension or next(iter(lengths))
        if lengths != {wanted}:
            msg = (
                f"{self!r} gave vectors of length {sorted(lengths)}, and `embedding_dimension` "
                f"is {wanted}"
            )
            raise BadModelOutput(msg, raw=str(sorted(lengths)))
        self._dimension = wanted


def check_name(value: object, argument: str) -> str:
    """Accept the name of a model or of its input, which stands in SQL as it is.

    Raises:
        ValidationError: Anything else.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        msg = (
            f"`{argument}` is {value!r}; accepted: a name of the database, as 'MODEL' or "
            "'OWNER.MODEL', without quotes"
        )
        raise ValidationError(msg, argument=argument)
    return value.upper()


def _cut(text: str) -> str:
    data = text.encode()
    return text if len(data) <= MAX_TEXT_BYTES else data[:MAX_TEXT_BYTES].decode(errors="ignore")
