"""Turns text into vectors, offline.

`facts` is what the daemon may know of an embedder; everything else is for the
process that embeds, and loads its libraries only there. An embedder is got by
`choose.choose`. `e5` is put together here from a file of weights, `use` comes
whole in its package, `hash` stands in for both in tests.
"""
