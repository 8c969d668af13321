"""Recordings made to have one known disease, or none: what is true of each is known beforehand.

A maker takes a seed, which decides the model, the sizes, the order, stages, streams and kinds of
segments, and returns a ``Case``. The truth comes from the making: nothing here analyses a
recording.
"""

from simulator.diseases.case import SEVERITIES, Case, Expected
from simulator.diseases.failures import FAILURES
from simulator.diseases.healthy_other import OTHER
from simulator.diseases.healthy_training import TRAINING
from simulator.diseases.recordings import RECORDINGS
from simulator.diseases.steps import STEPS

DISEASES = (*FAILURES, *RECORDINGS, *STEPS)
HEALTHY = (*TRAINING, *OTHER)

__all__ = ["DISEASES", "HEALTHY", "SEVERITIES", "Case", "Expected"]
