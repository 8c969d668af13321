"""Judge and say whether an allocator setting would have served a request that failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from snapreport.allocator.factual import model_device
from snapreport.allocator.failed_settings import FailedSettings, settings_for_failed
from snapreport.diagnosis.oom.verdict_types import OomVerdict
from snapreport.ground.memoize import once_for_both
from snapreport.ground.units import format_bytes, format_count, list_of
from snapreport.history.block_sizes import split_rules
from snapreport.history.live_floor import live_at
from snapreport.model.diagnoses import Figure, Suggestion
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History

_PROBABLY = {False: "", True: "probably "}
"""Keyed by whether memory was allocated before the recording began."""


@dataclass(frozen=True)
class SettingVerdict:
    """What allocator settings could have done for a request that failed."""

    needed: int
    """Bytes of all live requests and the failed one: no setting needs less."""
    there: int | None
    """Bytes that PyTorch could have had; None if not known."""
    replayed: FailedSettings | None
    """The answer of a model of the allocator; None if it is not exact, or not needed."""

    @property
    def hopeless(self) -> bool:
        """Whether no setting could have helped."""
        return self.there is not None and self.needed > self.there

    @property
    def known(self) -> bool:
        """Whether it is known what settings could have done."""
        return self.hopeless or self.replayed is not None

    def may_help(self, setting: str) -> bool:
        """Say whether nothing known speaks against a setting."""
        if self.hopeless or self.replayed is None:
            return not self.hopeless
        if self.replayed.serve:
            return any(setting in each for each in self.replayed.serve)
        return not any(setting in each for each in self.replayed.fail)


def judge_settings(tables: History, device: DeviceFigures, verdict: OomVerdict) -> SettingVerdict:
    """Say what settings could have done for a request.

    Args:
        verdict: on the request.
    """
    divided = bool(split_rules(tables.settings).divisions)
    # With roundup_power2_divisions the recorded size is rounded, to less than twice the request.
    size = verdict.size // 2 if divided else verdict.size
    needed = live_at(device.history, verdict.event) + size
    # Older files do not say what the driver had left.
    there = verdict.ceiling if verdict.device_free > 0 else None
    found = SettingVerdict(needed, there, None)
    first = device.ooms[0].event == verdict.event
    # If others' memory came and went, or the driver refused what it had, no capacity is known.
    known = verdict.missing > 0 and not verdict.foreign and verdict.cause != "unclear"
    if there is None or found.hopeless or not (first and known) or verdict.pool != "default":
        return found
    return replace(found, replayed=_replay_for_first(device, tables))


@once_for_both
def _replay_for_first(device: DeviceFigures, tables: History) -> FailedSettings | None:
    """Replay up to the first failed request, with what PyTorch could have had then."""
    modelled, first = model_device(tables, device.history), device.ooms[0]
    if modelled is None:
        return None
    return settings_for_failed(modelled, first.event, (first.reserved or 0) + first.device_free)


def settings_words(of: SettingVerdict) -> str:
    """Say what settings could have done, as sentences; ``""`` if nothing is known."""
    if of.there is not None and of.hopeless:
        return _hopeless(of.needed, of.there)
    replayed = of.replayed
    if replayed is None or not (replayed.serve or replayed.fail):
        return ""
    by = (
        "By a model of the allocator, which puts all"
        f" {format_count(replayed.allocations)} allocations where they were recorded,"
    )
    if not replayed.serve:
        others = list_of(replayed.fail, " or ")
        return f"{by} this request would probably have failed under {others} as well."
    first, *rest = replayed.serve
    text = f"{by} {first} would {_PROBABLY[replayed.late]}have served this request"
    if rest:
        text += f", and so would {list_of(rest)}"
    if replayed.late:
        text += "; where memory from before the recording would have been is not known"
        return f"{text}, nor what the program would have asked for next."
    return f"{text}. What the program would have asked for next is not known."


def settings_figure(of: SettingVerdict) -> Figure:
    """Return the figure that shows whether any setting could have helped."""
    return Figure(
        "needed under any setting",
        of.needed,
        meaning="live requests with the failed one, each rounded to 512 bytes",
    )


def settings_that_serve(of: SettingVerdict) -> Iterator[Suggestion]:
    """Yield the settings that would have served the request, by the model."""
    if of.replayed is None or of.there is None:
        return
    for settings in of.replayed.serve:
        yield Suggestion(
            "allocator-setting",
            f"Set {settings}: by the model of the allocator, this request would"
            f" {_PROBABLY[of.replayed.late]}have been served with the {format_bytes(of.there)} that"
            " PyTorch could have had. This has not been measured.",
            f"export PYTORCH_CUDA_ALLOC_CONF={settings}",
        )


def _hopeless(needed: int, there: int) -> str:
    needs, has = format_bytes(needed), format_bytes(there)
    if needs == has:
        more = format_bytes(needed - there)
        return f"No setting could have helped: {has} were available, {more} less than needed."
    return f"No setting could have helped: {needs} were needed, {has} were available."
