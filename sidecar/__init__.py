"""Serves a folder of Markdown notes to AI clients over MCP, from this computer alone."""

__version__ = "0.1.0"
