"""Whatever a caller asks for, his words are binds and the SQL depends on the shape alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.records import RECORD_TYPES, Layer, Tier
from agentmemory.requests import CandidateQuery, LinkQuery, ListQuery, QueryTerm, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.oracle import hybrid_index, lexical, links, listing, records, vectors
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.statement import Statement
from agentmemory.stores.oracle.text_tokens import encode_prefix, encode_token, indexed_text
from tests.support.oracle_lint import lint, schema_of

T = Tables("DEFAULT")
SCHEMA = schema_of(T)
HYBRID = hybrid_index.HybridSearch(filters=True, same_model=False)
NOW = datetime(2026, 5, 1, tzinfo=UTC)

# Two callers' words of one length; neither occurs in any statement of ours.
MARKS = ("q7z", "w9k")

ENDINGS = st.sampled_from(
    ["", "'", "' OR '1'='1", '"', ":a", "--", "/*", "%_", "ä" * 30, "京都", ";"]
)


@st.composite
def makes(draw) -> Callable[[str], RecordFilter]:
    """Draw a filter as a function of the word that all its values begin with."""
    ends = draw(st.lists(ENDINGS, min_size=12, max_size=12))
    picks = draw(st.lists(st.integers(0, 5), min_size=12, max_size=12))
    sizes = draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))

    def dimension(mark: str, place: int) -> DimensionMatch:
        kind = picks[place] % 3
        if kind == 0:
            return DimensionMatch()
        return DimensionMatch(exact=True, value=None if kind == 1 else mark + ends[place])

    def metadata(mark: str):
        if picks[3] == 0:
            return None
        key, value = mark + ends[3], mark + ends[4]
        operator = ("$eq", "$gt", "$lte", "$ne", "$in", "$exists")[picks[4]]
        operand = {"$in": [value, 3, True], "$exists": True}.get(operator, value)
        return {key: {operator: operand}, "$or": [{"a": value}, {"b": {"c": picks[5]}}]}

    def chosen(place: int, options):
        return None if picks[place] == 0 else tuple(options)[: picks[place]]

    def moment(place: int) -> datetime | None:
        return None if picks[place] % 2 == 0 else NOW + timedelta(days=picks[place])

    def make(mark: str) -> RecordFilter:
        return RecordFilter(
            scope=ScopeFilter(
                user=dimension(mark, 0), agent=dimension(mark, 1), thread=dimension(mark, 2)
            ),
            now=NOW,
            record_types=chosen(6, RECORD_TYPES),
            include_invalid=picks[7] % 2 == 0,
            metadata=metadata(mark),
            tiers=chosen(8, Tier) or (Tier.HOT,),
            layers=chosen(9, Layer),
            event_after=moment(7),
            valid_at=moment(10),
            ids=None if picks[10] == 0 else tuple(f"{mark}{n}{ends[5]}" for n in range(sizes[0])),
            exclude_ids=tuple(f"{mark}{n}{ends[6]}" for n in range(sizes[1])),
        )

    return make


def statements_for(record_filter: RecordFilter, mark: str) -> list[Statement]:
    """Return what is asked of the store with a filter."""
    query = CandidateQuery(
        filter=record_filter,
        pool=40,
        terms=(QueryTerm(f"{mark}word"), QueryTerm(f"{mark}++"), QueryTerm(mark[0], prefix=True)),
        vector=np.array([0.6, 0.8], dtype=np.float32),
    )
    found = [
        records.records_where(T, "reading.records", record_filter),
        listing.records_page(T, ListQuery(filter=record_filter, limit=20), 20),
        lexical.pool(T, query),
        lexical.pool_by_scan(T, query),
        hybrid_index.search_index(T, HYBRID, query),
        vectors.nearest(T, query),
        vectors.approximate(T, query),
    ]
    if record_filter.ids != ():
        found.append(links.list_links(T, LinkQuery(filter=record_filter, record_id=f"{mark}1")))
    return found


@settings(max_examples=60, deadline=None)
@given(makes())
def test_sql_is_the_same_for_other_words_and_passes_the_linter(make):
    first, second = (statements_for(make(mark), mark) for mark in MARKS)
    assert [item.text for item in first] == [item.text for item in second]
    for statement in first:
        assert lint(statement, SCHEMA) == []
        assert MARKS[0] not in statement.text


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 512))
def test_lists_of_similar_length_share_a_statement(count):
    def text(size: int) -> str:
        seqs = list(range(size))
        return records.records_at(T, "search.records", seqs).text

    longest = 1 << (count - 1).bit_length()
    assert text(count) == text(longest)
    assert lint(records.records_at(T, "search.records", list(range(count))), SCHEMA) == []


TOKENS = st.text(
    alphabet=st.characters(exclude_categories=("Cs", "Zs", "Cc")), min_size=1, max_size=40
).filter(lambda text: not any(character.isspace() for character in text))


@settings(max_examples=150, deadline=None)
@given(TOKENS, TOKENS)
def test_encoded_words_are_letters_and_digits_and_differ_as_tokens_do(first, second):
    for token in (first, second):
        word = encode_token(token)
        assert word.isascii()
        assert word.isalnum()
        assert word == word.lower()
        assert len(word) <= 60
    assert (encode_token(first) == encode_token(second)) == (first == second)


@settings(max_examples=150, deadline=None)
@given(TOKENS, st.integers(1, 3))
def test_a_prefix_of_a_token_is_one_of_its_word(token, length):
    assert encode_token(token).startswith(encode_prefix(token[:length]))


@settings(max_examples=150, deadline=None)
@given(TOKENS, TOKENS)
def test_short_prefixes_match_no_other_token(token, other):
    prefix = other[:2]
    assert encode_token(token).startswith(encode_prefix(prefix)) == token.startswith(prefix)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(TOKENS, max_size=6), min_size=1, max_size=3), st.lists(TOKENS, max_size=3))
def test_every_word_of_a_chunk_stands_between_spaces(fields, scope):
    text = indexed_text([" ".join(tokens) for tokens in fields], " ".join(scope))
    for tokens in fields:
        for token in tokens:
            assert f" {encode_token(token)} " in text
    assert len(text.split()) == sum(len(tokens) for tokens in fields) + len(scope)
