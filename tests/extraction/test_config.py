"""The configuration of extraction: what is accepted, and whose word counts."""

from __future__ import annotations

import json

import pytest

from agentmemory import MemoryExtractionConfig
from agentmemory.errors import ValidationError
from agentmemory.extraction_config import (
    DEFAULT_EXTRACTION,
    BackgroundExtractionQueueFullBehavior,
    ExtractionMode,
    check_extraction_config,
    resolve_extraction,
    settings_from,
    to_stored,
)


def test_the_call_counts_more_than_the_thread_and_the_thread_more_than_the_client():
    client = MemoryExtractionConfig(
        memory_extraction_window=1, memory_extraction_frequency=1, max_message_token_length=1
    )
    thread = MemoryExtractionConfig(memory_extraction_window=2, memory_extraction_frequency=2)
    call = MemoryExtractionConfig(memory_extraction_window=3)
    settings = resolve_extraction(call, to_stored(thread), client)
    assert settings.memory_extraction_window == 3
    assert settings.memory_extraction_frequency == 2
    assert settings.max_message_token_length == 1
    assert settings.memory_extraction_token_limit == 100_000
    assert resolve_extraction(None, None, None) == DEFAULT_EXTRACTION


def test_none_is_a_word_that_counts():
    client = MemoryExtractionConfig(memory_extraction_custom_instructions="In verse.")
    call = MemoryExtractionConfig(memory_extraction_custom_instructions=None)
    assert resolve_extraction(call, None, client).memory_extraction_custom_instructions is None


def test_settings_survive_being_stored_as_json():
    config = MemoryExtractionConfig(
        extraction_mode="INLINE",
        memory_extraction_inherit_message_metadata=["topic"],
        background_extraction_queue_full_behavior="wait_then_drop",
        background_extraction_queue_put_timeout_seconds=0.5,
    )
    settings = settings_from(json.loads(json.dumps(to_stored(config))))
    assert settings.extraction_mode is ExtractionMode.INLINE
    assert settings.memory_extraction_inherit_message_metadata == ["topic"]
    assert (
        settings.background_extraction_queue_full_behavior
        is BackgroundExtractionQueueFullBehavior.WAIT_THEN_DROP
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("extract_memories", 1),
        ("detect_instructions", "yes"),
        ("extraction_mode", "later"),
        ("memory_extraction_window", 1.5),
        ("memory_extraction_frequency", True),
        ("memory_extraction_token_limit", "many"),
        ("memory_extraction_custom_instructions", ""),
        ("enable_context_summary", None),
        ("context_summary_update_frequency", "often"),
        ("memory_extraction_inherit_message_metadata", "topic"),
        ("memory_extraction_inherit_message_metadata", [1]),
        ("memory_extraction_image_context", "memory"),
        ("memory_link_extraction_mode", "sometimes"),
        ("memory_link_extraction_token_limit", None),
        ("background_extraction_queue_full_behavior", "explode"),
        ("background_extraction_queue_put_timeout_seconds", 0),
        ("background_extraction_queue_put_timeout_seconds", float("nan")),
        ("max_message_token_length", "long"),
    ],
)
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(ValidationError, match=f"`{name}") as caught:
        MemoryExtractionConfig(**{name: value})
    assert caught.value.argument.startswith(name)


def test_anything_but_a_configuration_is_refused():
    with pytest.raises(ValidationError, match="memory_extraction_config"):
        check_extraction_config({"extract_memories": True})
