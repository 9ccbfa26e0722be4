"""Tool families. Adding one is a folder here and a line below."""

from sidecar.contract import Surface
from sidecar.surfaces.notes import SURFACE as NOTES

SURFACES: tuple[Surface, ...] = (NOTES,)
