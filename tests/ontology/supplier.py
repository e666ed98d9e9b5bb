"""The supplier domain of the tests: its vocabulary in English and Chinese."""

from __future__ import annotations

from agentmemory.ontology.vocabulary import Vocabulary

SUPPLIER = Vocabulary.from_mapping(
    {
        "entities": {
            "supplier": ["供应商", "vendor"],
            "certification": ["认证", "ISO", "证书", "有效期"],
            "purchase": ["采购", "订单", "order", "金额"],
            "credit": ["信用", "额度", "未结金额"],
            "rule": ["规则", "约束", "条件", "检查"],
        },
        "fields": ["阈值"],
        "rules": ["certification_validity", "credit_limit_check", "supplier_status"],
        "operations": ["CREATE_ORDER"],
        "values": ["30天", "S-ACME", "S-BETA"],
    }
)
