"""The user's named agents: their files, who may run them, and the runs.

`definition` reads one file, `roster` the folder of them, `gates` says which may
be run by clients. `provider` and `conversation` are the way to the model,
`engagement` is one run over it, `run` a call until it has ended, `records` what
is kept of each, and `agents` puts them together.
"""
