"""Pure text: analysis for search, sentences, token counts, XML rendering, JSON repair.

Nothing here does I/O, except that `tokens` looks whether an encoding is in tiktoken's cache. The
room may import requests, protocols and errors. Its modules are imported one by one where they are
used, so that nobody pays for what he does not need.
"""
