"""The vault as files: which paths are notes, how they are opened, what they say, when they change.

paths.py         texts from outside become a checked `VaultPath` here
jail.py          the only way to a file; nothing outside the vault can be reached through it
door.py          what the jail asks of a system: jail_posix.py, jail_windows.py
files.py         the only way to change a note; with placing.py, temporary.py, resting.py and displaced.py
                 on folders held open: folder_posix.py, folder_windows.py
names.py         which names a new note may have
leftovers.py     clears away what a write left that was cut off
ignore.py        the rules of `.kpignore`
notes.py         bytes become a `Note`, with blocks.py, frontmatter.py, markdown.py and times.py
watch.py         events become paths to look at again: watch_inotify.py, watch_native.py

Indexes, tools and transports are other rooms' business.
"""
