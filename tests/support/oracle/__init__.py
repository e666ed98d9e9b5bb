"""An Oracle database for tests, without Oracle.

Three layers, of which the first is the real thing:

- python-oracledb itself: its classes, its binding of values, its pools and pipelines. Only its
  network layer is replaced (`driver`, `pools`, `trips`, `lobs`), so that connections reach a
  `server.OracleServer`, which counts round trips, plans faults (`faults`) and notes what the driver
  forbids, such as using a connection whose break was never acknowledged.
- The database behind the server: `scripted.Script` answers from a script; `database.OracleDatabase`
  runs SQL on an embedded PostgreSQL (`postgres`) with pgvector, one database for each test.
- A translation of the Oracle SQL that the store writes (`translate`, `translate_ddl`, `blocks`,
  `contains`, `emulation.sql`); what no rule knows fails the test.

Kept as Oracle has it: empty text is NULL, times without zone, numbers of JSON as decimals, names in
capitals, texts compared by their bytes, a failed statement leaves the transaction open, a definition
commits, READ COMMITTED, waiting for locks and deadlocks, error codes, rows of temporary tables,
privileges of a reader.

Not emulated, so nothing here proves it: plans and speed, the approximation of vector indexes, the
scores of Oracle Text and when its index is brought up to date, limits of CLOB in comparisons (the
linter refuses those), PL/SQL beyond the known blocks, jobs, memory of vectors, and whether a real
database accepts the SQL at all. `store` has what tests begin with.
"""
