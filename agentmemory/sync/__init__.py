"""The blocking twins of the async classes: generated delegators over one event loop in a thread.

May import client, thread, store and below. `client`, `thread` and `store` are written by
`python -m agentmemory.sync.generate`.
"""
