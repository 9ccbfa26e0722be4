"""The vault as files: which paths are notes, how they are opened, what they say, when they change.

paths.py     texts from outside become a checked `VaultPath` here
jail.py      the only way to a file; nothing outside the vault can be reached through it
ignore.py    the rules of `.kpignore`
blocks.py    lines of Markdown
frontmatter.py, markdown.py, notes.py   bytes become a `Note`
watch.py     events become paths to look at again

Indexes, tools and transports are other rooms' business.
"""
