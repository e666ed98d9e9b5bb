"""From messages to memories: what to remember of a conversation, and the durable work on it.

May import retrieval, stores, models, text and below.
"""
