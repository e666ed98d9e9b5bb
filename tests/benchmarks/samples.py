"""Fictional conversations in the formats of the benchmarks' data."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-a",
        "conversation": {
            "speaker_a": "Nora",
            "speaker_b": "Tomas",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Nora", "dia_id": "D1:1", "text": "I adopted a parrot named Figaro."},
                {
                    "speaker": "Tomas",
                    "dia_id": "D1:2",
                    "text": "Lovely! Can the bird talk already?",
                },
                {
                    "speaker": "Nora",
                    "dia_id": "D1:3",
                    "text": "Only one word so far. Look at this!",
                    "img_url": ["https://pictures.example/1.jpg"],
                    "blip_caption": "a photo of a green bird on a bookshelf",
                    "query": "green parrot bookshelf",
                },
            ],
            "session_2_date_time": "12:05 am on 21 June, 2023",
            "session_2": [
                {
                    "speaker": "Tomas",
                    "dia_id": "D2:1",
                    "text": "I moved to Lisbon for the new job.",
                },
                {"speaker": "Nora", "dia_id": "D2:2", "text": "Is the flat close to the river?"},
            ],
            "session_3_date_time": "9:00 am on 1 July, 2023",
            "session_3": [],
            "session_4_date_time": "9:00 am on 2 July, 2023",
        },
        "qa": [
            {
                "question": "What is the name of Nora's parrot?",
                "answer": "Figaro",
                "evidence": ["D1:1"],
                "category": 4,
            },
            {
                "question": "When did Tomas move to Lisbon?",
                "answer": "June 2023",
                "evidence": ["D2:1; D1:02"],
                "category": 2,
            },
            {
                "question": "Which bird is in Nora's photo, and where did Tomas move for his job?",
                "answer": "green; Lisbon",
                "evidence": ["D:1:3", "D2:1", "D9:99"],
                "category": 1,
            },
            {"question": "Would Nora like an aviary?", "evidence": ["D"], "category": 3},
            {
                "question": "What did Tomas call his parrot?",
                "evidence": ["D1:1"],
                "category": 5,
                "adversarial_answer": "Figaro",
            },
        ],
        "event_summary": {},
        "observation": {},
        "session_summary": {},
    },
    {
        "sample_id": "conv-b",
        "conversation": {
            "speaker_a": "Ivo",
            "speaker_b": "Greta",
            "session_10_date_time": "7:30 pm on 3 March, 2024",
            "session_10": [
                {
                    "speaker": "Greta",
                    "dia_id": "D10:1",
                    "text": "Our parrot exhibition was a success.",
                }
            ],
            "session_2_date_time": "7:30 pm on 1 March, 2024",
            "session_2": [
                {"speaker": "Ivo", "dia_id": "D2:1", "text": "I bake rye bread every Sunday."},
                {"speaker": "Greta", "dia_id": "D2:2", "text": "Keep a loaf for me, please."},
            ],
        },
        "qa": [
            {
                "question": "What does Ivo bake on Sundays?",
                "answer": "rye bread",
                "evidence": ["D2:1"],
                "category": 4,
            }
        ],
    },
]

BEAM: list[dict[str, Any]] = [
    {
        "id": "chat-1",
        "recs": [
            {
                "id": 0,
                "sess": 1,
                "turn": 0,
                "role": "user",
                "time": "March-15-2024",
                "text": "I want to paint the fence green before the autumn fair.",
            },
            {
                "id": 1,
                "sess": 1,
                "turn": 0,
                "role": "assistant",
                "time": None,
                "text": "Good idea. Sand it first, then use two thin coats of paint.",
            },
            {
                "id": 2,
                "sess": 2,
                "turn": 1,
                "role": "user",
                "time": "April-05-2024",
                "text": "I changed my mind: the fence becomes blue.",
            },
            {
                "id": 3,
                "sess": 2,
                "turn": 1,
                "role": "assistant",
                "time": None,
                "text": "Blue it is. You will need a primer.",
            },
        ],
        "qa": [
            {
                "question": "Which colour will the fence have?",
                "type": "knowledge_update",
                "ev": [2, 0],
                "answer": "blue",
            },
            {
                "question": "Who will help me with the fence?",
                "type": "abstention",
                "ev": [],
                "answer": "unknown",
            },
            {
                "question": "How many coats of paint were advised?",
                "type": "information_extraction",
                "ev": [1, 77],
                "answer": "two",
            },
        ],
    }
]


def write_locomo(directory: Path) -> Path:
    path = directory / "locomo.json"
    path.write_text(json.dumps(LOCOMO), encoding="utf-8")
    return path


def write_beam(directory: Path) -> Path:
    path = directory / "beam.json.gz"
    path.write_bytes(gzip.compress(json.dumps(BEAM).encode()))
    return path


def locomo_copy() -> list[dict[str, Any]]:
    """Return data that a test may damage."""
    return copy.deepcopy(LOCOMO)
