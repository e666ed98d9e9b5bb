"""Layered memory: vocabulary, intent, routing, retrieval by layer, compression, lifecycle.

What must never be missed stands in a layer of its own and is always there; the other layers are
matched by the words of the intent. May import retrieval, stores, text, config and below.
"""
