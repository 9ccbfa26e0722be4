"""Tool families. Adding one is a folder here and a line below."""

from sidecar.contract import Surface
from sidecar.surfaces.databases import SURFACE as DATABASES
from sidecar.surfaces.knowledge import SURFACE as KNOWLEDGE
from sidecar.surfaces.library import SURFACE as LIBRARY
from sidecar.surfaces.notes import SURFACE as NOTES

SURFACES: tuple[Surface, ...] = (NOTES, LIBRARY, DATABASES, KNOWLEDGE)
