"""Modules of python-oracledb that are no public API, in one place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

thin_impl: Any = import_module("oracledb.thin_impl")
"""Connections, cursors and pools without Oracle's client libraries."""
