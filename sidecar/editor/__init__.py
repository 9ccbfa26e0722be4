"""What an editor's plugin asks of the daemon that it started: methods, events and refusals over a pipe.

`bridge/pipe-protocol.schema.json` is the law for both sides. How lines travel
is `bridge.pipe`'s business; which vault, settings and lock, the command's.
"""
