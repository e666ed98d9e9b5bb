"""What models write instead of the JSON they were asked for, through `ScriptedLlm`.

`cases/model_output.jsonl` holds the shared cases. Beside them, here: fences of every kind, thinking
with and without its first tag, text around, byte-order marks and white space, two values, double
encoding, wrappers too many and too few, other letter case, Python literals, single, curly and
unescaped quotes, comments, missing and trailing commas, missing brackets, cuts at every character,
numbers and booleans as text, nulls, extra and missing keys, echoes of the schema, empty values,
NaN, lone surrogates, deep nesting, and prose in braces.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentmemory.errors import BadModelOutput
from agentmemory.telemetry import Event
from agentmemory.testing import ScriptedLlm

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "model_output.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "memories": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1},
                    "type": {"type": "string", "enum": ["fact", "preference", "guideline"]},
                    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                    "source": {"type": ["string", "null"]},
                },
                "required": ["text", "type"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["memories"],
    "additionalProperties": False,
}
ITEM = {"text": "User is vegetarian.", "type": "preference"}
GOOD = {"memories": [ITEM]}
TEXT = json.dumps(GOOD)


async def outcome(raw: str) -> Any:
    llm = ScriptedLlm(raw, raw)
    try:
        response = await llm.generate("Extract.", response_json_schema=SCHEMA)
    except BadModelOutput as error:
        return BadModelOutput if (error.raw, len(llm.calls)) == (raw, 2) else error
    return response.value if len(llm.calls) == 1 else llm.calls


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
async def test_shared_cases(case: dict[str, Any]) -> None:
    expected = BadModelOutput if case.get("error") else case["value"]
    assert await outcome(case["raw"]) == expected


@pytest.mark.parametrize(
    "raw",
    [
        f"```\n{TEXT}\n```",
        f"```JSON\n{TEXT}\n```\n",
        f"Here you are:\n\n```json\n{TEXT}\n```\n\nShall I go on?",
        f"``` json\n{TEXT}",
        f"<think>\nhm {{}}\n</think>\n\n{TEXT}",
        f"hm, maybe {{}} then\n</think>{TEXT}",
        f"<thinking>[]</thinking>{TEXT}",
        f"\ufeff \n\t{TEXT}\n\n",
        f"The answer is {TEXT}. It has one memory.",
        json.dumps(TEXT),
        json.dumps([GOOD]),
        json.dumps({"result": GOOD}),
        json.dumps(ITEM),
        json.dumps([ITEM]),
        json.dumps({"memories": ITEM}),
        json.dumps({"Memories": [{"Text": ITEM["text"], "TYPE": " Preference "}]}),
        json.dumps({"memories": [{**ITEM, "mood": "happy"}], "notes": "none"}),
        json.dumps({"memories": [{**ITEM, "confidence": None}]}),
        json.dumps({"memories": [{**ITEM, "confidence": float("nan")}]}),
        TEXT.replace('"', "'"),
        re.sub('"([^"]*)"', r"“\1”", TEXT),
        TEXT.replace('"memories"', "memories"),
        TEXT.replace("}]", ",},]"),
        TEXT[:-1],
        TEXT[:-2],
        TEXT[:-3],
        TEXT.replace("[", "[ // one\n"),
        TEXT.replace('",', '"'),
        f"{TEXT}\n{TEXT}",
    ],
)
async def test_answers_with_one_sensible_reading(raw: str) -> None:
    assert await outcome(raw) == GOOD


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"confidence": "0.5"}, {"confidence": 0.5}),
        ({"confidence": 1}, {"confidence": 1}),
        ({"source": None}, {"source": None}),
        ({"source": 12}, {"source": "12"}),
        ({"text": 'He said "no" to meat.'}, {"text": 'He said "no" to meat.'}),
        ({"text": "我不吃肉 \U0001f600"}, {"text": "我不吃肉 \U0001f600"}),
        ({"text": 7}, {"text": "7"}),
    ],
)
async def test_values_are_mended_only_as_far_as_they_are_clear(given: Any, kept: Any) -> None:
    assert await outcome(json.dumps({"memories": [{**ITEM, **given}]})) == {
        "memories": [{**ITEM, **kept}]
    }


@pytest.mark.parametrize(
    "raw",
    [
        " ",
        "null",
        "true",
        "0",
        '""',
        "{}",
        "[[]]",
        "```json\n```",
        "<think>" + TEXT,
        "{not json}",
        "I would say {memories}: none.",
        '{"memories"',
        '{"memories": ',
        '{"memories": null}',
        '{"memories": "none"}',
        '{"memories": ["User is vegetarian."]}',
        '{"memories": [null]}',
        '{"memories": {}}',
        '{"memories": 3}',
        json.dumps({"memories": [{"text": "  ", "type": "fact"}]}),
        json.dumps({"memories": [{"text": "x"}]}),
        json.dumps({"memories": [{"text": "x", "type": None}]}),
        json.dumps({"memories": [{"text": ["x"], "type": "fact"}]}),
        json.dumps({"memories": [{**ITEM, "confidence": 3}]}),
        json.dumps({"memories": [{**ITEM, "confidence": "high"}]}),
        json.dumps({"memories": [{**ITEM, "confidence": True}]}),
        json.dumps(SCHEMA),
        json.dumps({"items": [ITEM], "more": [ITEM]}),
        json.dumps({"error": "I cannot help with that."}),
        "[" * 5000,
        '{"a":' * 500,
    ],
)
async def test_answers_without_a_sensible_reading(raw: str) -> None:
    assert await outcome(raw) is BadModelOutput


async def test_a_cut_at_any_place_never_makes_up_or_silently_loses_a_memory() -> None:
    second = {"text": "Prefers quiet places.", "type": "preference"}
    whole = json.dumps({"memories": [ITEM, second]})
    for end in range(len(whole)):
        value = await outcome(whole[:end])
        if value is BadModelOutput:
            assert end < whole.index("Prefers"), whole[:end]
        elif value == {"memories": []}:
            pytest.fail(f"an empty result for {whole[:end]!r}")
        else:
            assert value["memories"] in ([ITEM], [ITEM, second])


async def test_lone_surrogates_are_replaced() -> None:
    value = await outcome('{"memories": [{"text": "a\\ud800b", "type": "fact"}]}')
    assert value == {"memories": [{"text": "a\ufffdb", "type": "fact"}]}


async def test_the_second_answer_is_asked_for_with_the_reason_and_counts() -> None:
    llm = ScriptedLlm("Nothing found.", GOOD)
    response = await llm.generate("Extract.", response_json_schema=SCHEMA)
    assert response.value == GOOD
    assert response.usage.calls == 2
    assert "holds no JSON value" in llm.calls[1].text
    assert "Nothing found." in llm.calls[1].text


async def test_rejected_items_are_handed_over_and_told(events: list[Event]) -> None:
    wrong = {"text": "x", "type": "critical"}
    response = await ScriptedLlm({"memories": [wrong, ITEM, 3]}).generate(
        "Extract.", response_json_schema=SCHEMA
    )
    assert response.value == GOOD
    assert response.rejected == (wrong, 3)
    assert [(event.name, event.level) for event in events] == [("model.items_rejected", "warning")]
    assert events[0].attributes["count"] == 2


async def test_errors_do_not_show_what_the_model_wrote() -> None:
    raw = json.dumps({"memories": [{"text": "a private matter", "type": "secret kind"}]})
    with pytest.raises(BadModelOutput) as caught:
        await ScriptedLlm(raw, raw).generate("Extract.", response_json_schema=SCHEMA)
    assert "private" not in str(caught.value)
    assert "secret kind" not in str(caught.value)
    assert "memories[0].type must be one of 'fact', 'preference', 'guideline'" in str(caught.value)
