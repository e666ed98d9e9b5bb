"""`python -m agentmemory`; may import cli."""

from __future__ import annotations

import sys

from agentmemory.cli import main

if __name__ == "__main__":
    sys.exit(main())
