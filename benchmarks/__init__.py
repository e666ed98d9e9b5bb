"""Benchmarks, run from the checkout: `python -m benchmarks --help`. Not part of the wheel."""

from __future__ import annotations
