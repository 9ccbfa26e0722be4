"""The command line: the only room that prints, and that reads the environment.

Each command is a module with `run(args) -> int`, imported when it is called,
so that `status` doesn't wait for what only `serve` needs.
"""
