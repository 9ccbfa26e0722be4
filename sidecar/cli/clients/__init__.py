"""The AI clients that `connect` sets up.

One record a client (`known`), the places of their files by system (`places`),
one editor a syntax (`jsonc`, `toml_text`), the file itself (`settings_file`),
the one entry that is ours among others (`entries`), and the trial of a
connection (`check_http`, `check_stdio`). Nothing here prints.
"""
