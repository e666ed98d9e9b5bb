"""Secrets are blacked out wherever they stand, and ordinary text stays as it is."""

from __future__ import annotations

import pytest

from agentmemory.text.redaction import REDACTED, redact_secrets

KEYS = [
    "sk-" + "a1B2" * 6,
    "sk_live_" + "a1B2" * 6,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "xoxb-" + "1234-abcd" * 2,
    "AKIA" + "ABCD1234" * 2,
    "AIza" + "a1B2c" * 7,
    "hf_" + "a1B2c" * 7,
    "SG." + "a1B2" * 5 + "." + "a1B2" * 5,
    "eyJ" + "a1B2" * 4 + "." + "a1B2" * 4 + "." + "a1B2" * 4,
    "4111 1111 1111 1111",
    "4111111111111111",
    "5500-0000-0000-0004",
    "378282246310005",
]

ORDINARY = [
    "My phone number is +49 30 1234567.",
    "Order 1234567890123456 arrived.",
    "Call 0000 0000 0000 0000 for nothing.",
    "The password is short.",
    "She passed the secret garden.",
    "The access token expired yesterday.",
    "sk-short",
    "2026-03-01T12:00:00Z and 550e8400-e29b-41d4-a716-446655440000",
    "密码学很有趣。",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("use ", " please"), ("钥匙", "。"), ("カード", "です"), ("(", ")")],
)
def test_a_secret_is_blacked_out_whatever_stands_beside_it(key, before, after):
    assert redact_secrets(f"{before}{key}{after}") == f"{before}{REDACTED}{after}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my password is hunter2!", "my password is [redacted]"),
        ("api_key=abc123def, ok", "api_key=[redacted], ok"),
        ("密码是abc12345。", "密码是[redacted]。"),
        ("パスワードはabc12345、です", "パスワードは[redacted]、です"),
        ("Authorization: Bearer abcdef123456789", "Authorization: Bearer [redacted]"),
    ],
)
def test_what_is_called_a_secret_by_its_name_is_blacked_out_and_the_name_stays(text, expected):
    assert redact_secrets(text) == expected


def test_a_private_key_goes_as_a_whole():
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----"
    assert redact_secrets(f"Here: {key} thanks") == "Here: [redacted] thanks"
    assert redact_secrets(f"Here: {key[:40]}") == "Here: [redacted]"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text):
    assert redact_secrets(text) == text
