"""Expressions of Oracle Text, and what is remembered of a large store."""

from __future__ import annotations

import re

import pytest

from agentmemory.layering import LayerWord
from agentmemory.records import Layer
from agentmemory.requests import QueryTerm, RecordFilter
from agentmemory.scope import DimensionMatch, ScopeFilter
from agentmemory.stores.bm25 import Corpus
from agentmemory.stores.index_fields import agent_token, thread_token, user_token, user_type_token
from agentmemory.stores.oracle import layers
from agentmemory.stores.oracle.lexical import (
    COMMON,
    LARGE_STORE,
    MAX_QUERY_BYTES,
    REMEMBERED_S,
    ChunkRows,
    TermCounts,
    expressions,
    needle,
    pattern,
    scope_words,
)
from agentmemory.stores.oracle.schema import Tables
from agentmemory.stores.oracle.text_tokens import encode_scope_token, indexed_text
from agentmemory.stores.oracle.trips import Trip
from tests.stores.oracle.samples_reading import NOW

LARGE = Corpus(LARGE_STORE, 10 * LARGE_STORE)
TERMS = ["kite", "c++", "v2.3.1", "user_name", "凧", "zebra", "and", "near"]


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class TestCounts:
    @pytest.fixture
    def clock(self):
        return Clock()

    @pytest.fixture
    def counts(self, clock):
        return TermCounts(clock)

    def test_a_small_store_is_counted_anew_each_time(self, counts):
        counts.remember(Corpus(LARGE_STORE - 1, 5), {"a": COMMON})
        assert (counts.corpus, counts.frequency("a")) == (None, None)

    def test_of_a_large_one_common_words_are_remembered_for_a_minute(self, counts, clock):
        counts.remember(LARGE, {"a": COMMON, "rare": COMMON - 1})
        clock.now += REMEMBERED_S
        assert (counts.corpus, counts.frequency("a")) == (LARGE, COMMON)
        assert counts.frequency("rare") is None
        clock.now += 0.1
        assert (counts.corpus, counts.frequency("a")) == (None, None)

    def test_what_a_scan_counted_is_remembered_however_rare_it_is(self, counts):
        counts.remember(LARGE, {"rare": 0}, rare=True)
        assert counts.frequency("rare") == 0

    def test_a_word_that_is_counted_later_is_good_for_longer(self, counts, clock):
        counts.remember(LARGE, {"a": COMMON})
        clock.now += REMEMBERED_S / 2
        counts.remember(None, {"b": COMMON})
        clock.now += REMEMBERED_S / 2 + 1
        assert (counts.frequency("a"), counts.frequency("b")) == (None, COMMON)

    def test_a_store_that_has_become_small_is_forgotten(self, counts):
        counts.remember(LARGE, {"a": COMMON})
        counts.remember(Corpus(1, 1), {})
        assert (counts.corpus, counts.frequency("a")) == (None, None)

    def test_what_is_remembered_is_bounded(self, counts):
        for start in range(0, 120_000, 20_000):
            numbers = range(start, start + 20_000)
            counts.remember(LARGE, {str(number): COMMON for number in numbers})
        assert len(counts._held) <= 50_000
        assert counts.frequency("119999") == COMMON


class TestExpressions:
    def test_patterns_hold_no_operator_and_nothing_to_escape(self):
        for text in TERMS:
            assert re.fullmatch(r"\{x[a-z0-9]+\}", pattern(QueryTerm(text)))
            assert re.fullmatch(r"x[a-z0-9]+%", pattern(QueryTerm(text, prefix=True)))

    def test_a_needle_finds_words_that_are_whole_or_begin_so(self):
        words = indexed_text(["kites fly", "", "c++ 凧揚"], "u1")
        assert needle(QueryTerm("kites")) in words
        assert needle(QueryTerm("kite")) not in words
        assert needle(QueryTerm("kite", prefix=True)) in words
        assert needle(QueryTerm("凧", prefix=True)) in words
        assert needle(QueryTerm("u1")) not in words

    def test_words_add_up_within_the_scope_whose_word_takes_no_score(self):
        assert expressions(["{xa}", "xb%"], ["qu", "qv"]) == [
            "({xa} ACCUM xb%) AND (DEFINESCORE(qu, DISCRETE) OR DEFINESCORE(qv, DISCRETE))"
        ]
        assert expressions(["{xa}"], []) == ["({xa})"]

    @pytest.mark.parametrize("scope", [[], ["q" + "s" * 59] * 8])
    def test_a_long_query_becomes_several_that_a_bind_holds(self, scope):
        patterns = [pattern(QueryTerm(f"凧{number:03}" * 8)) for number in range(256)]
        found = expressions(patterns, scope)
        assert len(found) > 3
        assert max(map(len, found)) <= MAX_QUERY_BYTES
        named = [item for text in found for item in re.findall(r"\{\w+\}", text)]
        assert named == patterns

    def test_the_narrowest_dimension_narrows(self):
        def words(record_types=None, **scope):
            matched = {name: DimensionMatch(*match) for name, match in scope.items()}
            record_filter = RecordFilter(
                scope=ScopeFilter(**matched), now=NOW, record_types=record_types
            )
            return scope_words(record_filter)

        def encoded(*tokens):
            return [encode_scope_token(token) for token in tokens]

        user, thread, agent = (True, "ada"), (True, "t"), (True, "g")
        assert words(user=user, thread=thread, agent=agent) == encoded(thread_token("t"))
        assert words(user=user, agent=agent) == encoded(user_token("ada"))
        assert words(("fact", "message"), user=user) == encoded(
            user_type_token("ada", "fact"), user_type_token("ada", "message")
        )
        assert words(user=(True, None), thread=(True, None)) == encoded(user_token(None))
        assert words(agent=agent) == encoded(agent_token("g"))
        assert words(user=(False, "ada"), thread=(False, "t")) == words() == []

    def test_a_keyword_is_one_pattern_of_its_forms(self):
        word = LayerWord(
            text="credit limit",
            forms=((QueryTerm("credit"), QueryTerm("limit")), (), (QueryTerm("信用"),)),
        )
        (found,) = layers.word_patterns(word)
        assert found == (f"(({{xcredit}} AND {{xlimit}}) OR ({pattern(QueryTerm('信用'))}))")
        assert layers.word_patterns(LayerWord(text="empty", forms=((),))) == []

    def test_a_keyword_longer_than_a_bind_is_cut_so_that_more_is_found(self):
        long = tuple(QueryTerm(f"凧{number:03}" * 8) for number in range(100))
        forms = (long, tuple(reversed(long)), (QueryTerm("short"),))
        found = layers.word_patterns(LayerWord(text="long", forms=forms))
        assert len(found) == 3
        assert found[2] == "({xshort})"
        assert found[0].startswith(f"({pattern(long[0])} AND ")
        assert max(map(len, found)) <= MAX_QUERY_BYTES // 2 + 2


class TestChunkRows:
    T = Tables("DEFAULT")

    def test_whole_fields_need_no_second_trip(self):
        trip = Trip()
        rows = ChunkRows(self.T, [(7, 1, 3, "a b", None, None, "c", None, None, None)])
        rows.ask_long(trip)
        assert not trip
        assert list(rows.fields()) == [(7, ["a b", "", "", "c", "", "", ""])]

    def test_a_field_that_did_not_come_is_missed_by_its_tokens(self):
        trip = Trip()
        rows = ChunkRows(self.T, [(7, 1, 5, "a b", None, None, "c", None, None, None)])
        rows.ask_long(trip)
        assert trip
        assert list(rows.fields()) == []


def test_layers_have_a_word_of_their_own():
    record_filter = RecordFilter(scope=ScopeFilter(user=DimensionMatch(True, "ada")), now=NOW)
    rule, context = (layers._scope(record_filter, layer) for layer in (Layer.RULE, Layer.CONTEXT))
    assert len(rule) == len(context) == 1
    assert rule != context
    assert layers._scope(RecordFilter(scope=ScopeFilter(), now=NOW), Layer.RULE) == []
