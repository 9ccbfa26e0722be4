"""MCP over stdin and stdout: a relay to the vault's daemon.

`relay` passes messages on and answers where the daemon can't, `link` finds or
starts the daemon, `post` is one request to it, `messages` knows what a message
needs on its way, `lines` is the pipe, `stand_in` answers from the catalogue
while no daemon can be had.

Imported when a client starts, so all but the stand-in keep to the standard
library: the SDK alone would take longer to import than a relay takes to start.
"""
