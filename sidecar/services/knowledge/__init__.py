"""The registry of skills and knowledge units: what clients contribute, judge and search. Nothing of it is sent."""
