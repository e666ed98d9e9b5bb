"""Summaries and context cards; may import retrieval, stores and below."""
