"""The memory layer for AI agents."""
