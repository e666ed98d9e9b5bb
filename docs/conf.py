"""Sphinx configuration: Markdown pages, the API reference from docstrings."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "agentmemory"
author = "The agentmemory authors"
copyright = "The agentmemory authors"
release = version = installed_version("agentmemory")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
templates_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = True

html_theme = "furo"
html_title = f"agentmemory {release}"
