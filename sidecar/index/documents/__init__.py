"""Documents: from the bytes of a file to the passages that are found.

`read` knows the types of files; each has a module of its own. What other
people's parsers do happens in `worker`, a process with limits, that `readers`
starts, watches and ends.
"""
