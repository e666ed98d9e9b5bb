"""The default store: one SQLite file, spoken to through apsw.

Everything SQLite-specific lives in this package. May import `agentmemory.stores.filters` and what
lies below the stores; never another store.
"""
