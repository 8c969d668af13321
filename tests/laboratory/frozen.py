"""Imported last by the Python that forks: no program looks for garbage among what was imported."""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
