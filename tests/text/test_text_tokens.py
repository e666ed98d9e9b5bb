"""Token counters: the estimate against the truth, and tiktoken without a network."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import importlib.resources
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmemory.errors import ConfigurationError, ValidationError
from agentmemory.protocols import TokenCounter
from agentmemory.text import tokens
from agentmemory.text.tokens import (
    EstimatingTokenCounter,
    TiktokenCounter,
    default_token_counter,
    encoding_at_hand,
)

ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
FILE_NAME = hashlib.sha1(ADDRESS.encode()).hexdigest()
ENGLISH = (
    "I am vegetarian and I don't like loud places. Could you find a quiet restaurant for Friday "
    "evening, ideally near the central station? Last time we paid $42.50 for two, which was fine."
)
CODE = (
    "def add(self, items: list[str]) -> None:\n    for item in items:\n"
    '        self._rows.append({"id": item, "count": 0})\n'
)
# Counted with o200k_base.
TRUTHS = {
    ENGLISH: 41,
    CODE: 34,
    "用户偏好素食餐厅，周五晚上订位，最好离车站近一点，价格不要太高。": 26,
    "저녁 식사는 조용한 레스토랑에서 하고 싶어요. 금요일 저녁에 두 명을 예약해 주세요.": 27,
    "認証規則の有効期間は30日です。期限が切れる前に更新してください。": 22,
    "Ich esse vegetarisch und möchte am Freitagabend in einem ruhigen Restaurant sitzen.": 16,
    "Я вегетарианец и хотел бы в пятницу вечером поужинать в тихом ресторане у вокзала.": 28,
    "Je suis végétarien et j'aimerais dîner vendredi soir dans un restaurant calme.": 16,
}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    tokens._say_estimated.cache_clear()


@pytest.fixture
def cached_encoding(tmp_path: Path) -> Path:
    """Put o200k_base where tiktoken looks for it; another package on the test machine has it."""
    pytest.importorskip("bpe_openai", reason="no copy of the encoding is installed")
    packed = importlib.resources.files("bpe_openai") / "data" / "o200k_base.tiktoken.gz"
    path = tmp_path / FILE_NAME
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


@pytest.mark.parametrize("text", TRUTHS, ids=[text[:12] for text in TRUTHS])
def test_estimate_is_near_the_truth(text: str) -> None:
    truth = TRUTHS[text]
    assert 0.8 * truth <= EstimatingTokenCounter().count(text) <= 1.45 * truth


def test_estimate_of_english_is_within_a_tenth() -> None:
    assert abs(EstimatingTokenCounter().count(ENGLISH) - TRUTHS[ENGLISH]) <= 4


def test_chinese_and_korean_cost_three_tokens_for_four_characters() -> None:
    assert EstimatingTokenCounter().count("素食餐厅" * 25) == 75
    assert EstimatingTokenCounter().count("레스토랑" * 25) == 75


def test_japanese_costs_a_token_for_each_han_and_for_two_kana() -> None:
    assert EstimatingTokenCounter().count("食べる" * 25) == 50


LONG_CHINESE = (
    "供应商在提交认证申请以后，采购部门会先检查资料是否齐全，再安排现场审核。审核通常在三十天之内完成，"
    "如果供应商没有按时补交文件，申请就会自动失效，需要重新开始。通过认证的供应商可以获得信用额度，"
    "额度的高低取决于过去一年的交货情况、质量记录以及财务状况。单笔采购金额超过五十万元的时候，"
    "必须由两名主管共同批准，并且在系统里面保留完整的审批记录。我们建议每一位新同事先阅读这份说明，"
    "遇到不清楚的地方可以随时提问，不要凭经验猜测。上周有一家公司因为地址变更没有及时通知我们，"
    "结果货物被送到了旧仓库，双方都花了不少时间才把问题解决。所以从现在开始，请在每次下单之前核对地址、"
    "联系人和电话号码，并把核对结果写在备注里面。以后如果客户要求加急，请先确认库存，再告诉客户预计的到货时间。"
)
LONG_KOREAN = (
    "저는 채식을 하기 때문에 저녁 식사는 조용한 식당에서 하고 싶어요. 금요일 저녁에 두 명 자리를 예약해 주시고, "
    "가능하면 역에서 가까운 곳으로 부탁드립니다. 지난번에 갔던 곳은 음식은 좋았지만 너무 시끄러워서 대화를 "
    "나누기가 어려웠어요. 앞으로는 예약하기 전에 가격과 메뉴를 먼저 알려 주세요. 그리고 회의가 끝나는 시간이 "
    "자주 바뀌니까 예약 시간을 바꿀 수 있는지도 확인해 주시면 좋겠습니다. 다음 주에는 부산에서 친구가 오기 "
    "때문에 네 명이 앉을 수 있는 자리가 필요합니다. 친구는 해산물을 못 먹으니까 그 점도 꼭 기억해 주세요. "
    "예약이 끝나면 주소와 전화번호를 문자로 보내 주시고, 당일 아침에 한 번 더 알려 주시면 고맙겠습니다. "
    "혹시 자리가 없으면 토요일 점심으로 바꿔도 괜찮고, 그 경우에는 근처에 있는 작은 미술관도 함께 찾아봐 주세요."
)


def _long_texts() -> dict[str, str]:
    root = Path(__file__).parents[2]
    return {
        "English": (root / "README.md").read_text("utf-8"),
        "guide": (root / "docs" / "design.md").read_text("utf-8"),
        "code": (root / "agentmemory" / "client.py").read_text("utf-8"),
        "pure code": (root / "agentmemory" / "text" / "json_repair.py").read_text("utf-8"),
        "JSON": (root / "tests" / "cases" / "budgets.jsonl").read_text("utf-8"),
        "Chinese": LONG_CHINESE,
        "Korean": LONG_KOREAN,
    }


@pytest.mark.parametrize(
    "kind", ["English", "guide", "code", "pure code", "JSON", "Chinese", "Korean"]
)
def test_estimate_of_texts_of_200_tokens_is_within_a_quarter(
    kind: str, cached_encoding: Path
) -> None:
    exact, estimate = TiktokenCounter(), EstimatingTokenCounter()
    parts: list[str] = [""]
    for line in _long_texts()[kind].splitlines(keepends=True):
        if exact.count(parts[-1]) >= 200:
            parts.append("")
        parts[-1] += line
    shares = {
        part: estimate.count(part) / truth for part in parts if (truth := exact.count(part)) >= 200
    }
    assert shares
    assert {part: share for part, share in shares.items() if abs(share - 1) > 0.25} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("tea", 1),
        ("don't", 1),
        ("green tea", 2),
        ("2026", 2),
        ("a\n\n\nb", 3),
        ("=" * 40, 1),
        ("🙂", 2),
        ("\x00", 1),
        ("ብ", 2),
    ],
)
def test_estimate_of_small_texts(text: str, count: int) -> None:
    assert EstimatingTokenCounter().count(text) == count


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters()), st.text(st.characters()))
def test_estimate_counts_every_text_and_grows_with_it(first: str, second: str) -> None:
    counter = EstimatingTokenCounter()
    assert (counter.count(first) > 0) == bool(first)
    assert counter.count(first) <= 4 * len(first)
    assert counter.count(first + "\n\n" + second) >= counter.count(first + "\n\n") - 1


def test_both_are_token_counters(cached_encoding: Path) -> None:
    counters: list[TokenCounter] = [EstimatingTokenCounter(), TiktokenCounter()]
    assert all(isinstance(counter, TokenCounter) for counter in counters)
    assert repr(counters[0]) == "EstimatingTokenCounter()"


def test_tiktoken_counts_from_its_cache(cached_encoding: Path) -> None:
    counter = TiktokenCounter()
    assert {text: counter.count(text) for text in TRUTHS} == TRUTHS


def test_special_tokens_and_lone_surrogates_are_text(cached_encoding: Path) -> None:
    counter = TiktokenCounter()
    assert counter.count("<|endoftext|>") > 1
    assert counter.count("\ud800") > 0
    assert counter.count("") == 0
    assert counter.encoding == "o200k_base"
    assert repr(counter) == "TiktokenCounter('o200k_base')"


def test_encoding_at_hand_makes_tiktoken_the_default(cached_encoding: Path) -> None:
    assert isinstance(default_token_counter(), TiktokenCounter)


def test_encoding_not_at_hand_is_refused_without_asking_the_network(tmp_path: Path) -> None:
    assert not encoding_at_hand()
    with pytest.raises(ConfigurationError, match="`encoding` 'o200k_base' is not in tiktoken's"):
        TiktokenCounter()
    assert list(tmp_path.iterdir()) == []


def test_damaged_file_is_not_at_hand_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"damaged")
    assert not encoding_at_hand()
    assert path.read_bytes() == b"damaged"


def test_disabled_cache_has_nothing_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not encoding_at_hand()


def test_other_cache_directories_are_looked_at_in_tiktokens_order(
    cached_encoding: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    assert encoding_at_hand()
    monkeypatch.delenv("DATA_GYM_CACHE_DIR")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    assert not encoding_at_hand()
    (tmp_path / "tmp" / "data-gym-cache").mkdir(parents=True)
    cached_encoding.rename(tmp_path / "tmp" / "data-gym-cache" / FILE_NAME)
    assert encoding_at_hand()


def test_unknown_encoding_is_refused_by_name() -> None:
    for call in (encoding_at_hand, TiktokenCounter):
        with pytest.raises(ValidationError, match=r"`encoding` is 'o300k'.*o200k_base") as caught:
            call("o300k")
        assert caught.value.argument == "encoding"


def test_default_estimates_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="agentmemory"):
        assert isinstance(default_token_counter(), EstimatingTokenCounter)
        assert isinstance(default_token_counter(), EstimatingTokenCounter)
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("agentmemory", "INFO")
    ]
    assert "o200k_base" in caplog.text


def test_files_are_those_that_tiktoken_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def load_bpe(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
        asked.append((address, expected_hash))
        return {}

    def load_gpt2(**files: str) -> dict[bytes, int]:
        names = ("vocab_bpe", "encoder_json")
        asked.extend((files[f"{name}_file"], files[f"{name}_hash"]) for name in names)
        return {}

    module = importlib.import_module("tiktoken_ext.openai_public")
    monkeypatch.setattr(module, "load_tiktoken_bpe", load_bpe)
    monkeypatch.setattr(module, "data_gym_to_mergeable_bpe_ranks", load_gpt2)
    assert tokens._FILES.keys() == module.ENCODING_CONSTRUCTORS.keys()
    for name, construct in module.ENCODING_CONSTRUCTORS.items():
        asked.clear()
        construct()
        assert tuple(asked) == tokens._FILES[name]
