"""The HTTP edge: who may come in, which route answers, and the limits of size and time.

Knows no tool and no protocol message. MCP paths are mounted by the composition
root; this room reads their bodies and leaves the rest to them.
"""
