"""The Oracle store: one schema for many processes and machines; needs Oracle AI Database 26ai.

The only folder that knows the driver. Rooms: `statement` (SQL as values), `schema`, `where` and
other builders of statements, `engine` (connections, transactions, retries), `store`. They import
one another, the pure modules beside this folder and what lies below them.
"""
