"""Look for inputs that crash us, led by what of the code they reach: ``make fuzz``.

The native library is fuzzed by libFuzzer: ``harnesses`` has a program for each of its files,
``native`` compiles and runs them, and ``corpora`` makes what they begin with. The readers in Python
are fuzzed by atheris: ``targets`` has them, ``seeds`` what they begin with, and ``one`` runs one.
"""

from pathlib import Path

CRASHES = Path(__file__).parents[2] / "tests" / "crashes"
"""Every input that crashed us once, each as ``TARGET-what-it-is``; tests replay them."""

SAMPLES = Path(__file__).parents[2] / "sample_snapshots"
