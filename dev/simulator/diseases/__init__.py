"""Recordings made to have one known disease, or none: what is true of each is known beforehand.

A maker takes a seed, which decides the model, the sizes, the order, stages, streams and kinds of
segments, and returns a ``Case``. The truth comes from the making: nothing here analyses a
recording.
"""

from dev.simulator.diseases.case import SEVERITIES, Case, Expected
from dev.simulator.diseases.failures import FAILURES
from dev.simulator.diseases.healthy_other import OTHER
from dev.simulator.diseases.healthy_training import TRAINING
from dev.simulator.diseases.recordings import RECORDINGS
from dev.simulator.diseases.steps import STEPS

DISEASES = (*FAILURES, *RECORDINGS, *STEPS)
HEALTHY = (*TRAINING, *OTHER)

__all__ = ["DISEASES", "HEALTHY", "SEVERITIES", "Case", "Expected"]
