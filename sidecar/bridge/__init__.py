"""How other processes find this daemon and prove themselves to it, or it to them.

Token and local key, endpoint file, lock, identity proof, and the folder they
lie in. Knows neither HTTP serving nor notes.
"""
