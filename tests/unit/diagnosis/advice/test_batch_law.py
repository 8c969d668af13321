"""Recordings at several sizes: the peak at others, and the largest that fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.simulator.settings import AllocatorSettings
from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer
from snapreport.diagnosis.advice.batch import (
    doubt_of,
    find_growth,
    find_laws,
    match_recordings,
    put_together,
)
from snapreport.figures.curves import find_curves
from snapreport.model.answers import LARGEST_BATCH, BatchGrowth
from snapreport.model.history import History
from tests.builders import MIB, frame, history_of, trace
from tests.unit.diagnosis.advice.test_program_changes import BACK, BLOCK, BUILD, STEP

CONVOLUTION = [frame("conv2d", "functional.py"), *BLOCK]


def at_batch(batch: int, turns: int = 2, step: int = 10, odd: int = 0) -> Any:
    """A weight of 4 MiB, a MiB a sample for backward, and an optimizer's temporary of 10."""
    made = trace().alloc("weight", 4 * MIB, frames=BUILD)
    for turn in range(turns):
        made.alloc(f"kept{turn}", batch * MIB, frames=BLOCK)
        if odd:
            made.alloc(f"odd{turn}", odd, frames=[frame("odd", "model.py", 9), *BLOCK])
        made.free(f"kept{turn}", frames=BACK)
        made.alloc(f"step{turn}", step * MIB, frames=STEP).free(f"step{turn}", frames=STEP)
    return made


def growth(
    files: dict[int, History], target: int | None = None, at: Sequence[int] = ()
) -> BatchGrowth:
    several = put_together([(size, file, file.devices[0]) for size, file in files.items()])
    return find_growth(several, target, at)


def test_the_peak_moves_from_the_step_to_the_backward_pass_as_the_batch_grows() -> None:
    files = {size: at_batch(size).file() for size in (2, 4)}
    found = growth(files, 18 * MIB, at=(10, 11, 16))
    # 4 + the larger of 10 and the batch.
    assert [(each.batch, each.expected // MIB) for each in found.peaks] == [
        (2, 14), (4, 14), (10, 14), (11, 15), (14, 18), (15, 19), (16, 20),
    ]  # fmt: skip
    assert [each.recorded for each in found.peaks[:3]] == [14 * MIB, 14 * MIB, None]
    assert found.fits == 14
    assert [(each.role, each.fixed, each.each, each.square) for each in found.roles] == [
        ("activation", 0, MIB, 0),
        ("parameter", 4 * MIB, 0, 0),
    ]
    assert found.doubt == "extrapolated"


def test_only_what_lies_beyond_the_recorded_sizes_is_extrapolated() -> None:
    files = {size: at_batch(size).file() for size in (2, 4, 12)}
    assert growth(files, 14 * MIB + 1, at=(8,)).doubt == ""
    assert growth(files, at=(1,)).doubt == growth(files, at=(13,)).doubt == "extrapolated"
    same = {size: at_batch(1).file() for size in (2, 4)}
    assert (growth(same, 18 * MIB).fits, growth(same, 18 * MIB).doubt) == (None, "extrapolated")
    assert growth(same).doubt == ""


def test_where_nothing_grows_every_batch_fits_and_where_all_is_too_much_none_does() -> None:
    same = growth({size: at_batch(1).file() for size in (2, 4)}, 18 * MIB)
    assert same.fits is None
    none = growth({size: at_batch(size).file() for size in (2, 4)}, 13 * MIB)
    assert none.fits == 0
    assert none.peaks[0].batch == 1


def test_no_batch_is_so_large_that_its_peak_is_no_number() -> None:
    files = {size: at_batch(size, odd=size * size << 30).file() for size in (2, 4)}
    found = growth(files, 1 << 50, at=(LARGEST_BATCH,))
    assert all(each.expected > 0 for each in found.peaks)
    assert found.fits == 724  # two of 724 ** 2 GiB are 1023.8 TiB


def test_sizes_that_follow_no_law_are_said() -> None:
    files = {size: at_batch(size, odd=odd).file() for size, odd in ((2, 30 * MIB), (4, 29 * MIB))}
    assert growth(files).doubt == "no law"


def test_a_program_whose_sizes_may_depend_on_more_than_the_batch_is_said() -> None:
    def doubt(make: Any) -> str:
        return growth({size: make(size).file() for size in (2, 4)}).doubt

    assert doubt(lambda size: at_batch(size, turns=1)) == "one step"
    assert doubt(lambda size: at_batch(size, turns=2)) == ""
    assert doubt(_with_data) == "data"
    assert doubt(lambda size: at_batch(size).alloc("x", MIB, frames=CONVOLUTION)) == "convolutions"


def _with_data(size: int) -> Any:
    """In each of four steps another number of samples is chosen, of which some are fewer."""
    made = at_batch(size, turns=1)
    for turn in range(1, 4):
        made.alloc(f"chosen{turn}", turn * size * MIB, frames=BLOCK)
        made.free(f"chosen{turn}", frames=BACK)
    return made


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("conv2d", True),
        ("conv_transpose1d", True),
        ("_conv_forward", True),
        ("ConvolutionBackward0", True),
        ("aten::convolution_backward", True),
        ("at::native::cudnn_convolution(at::Tensor const&)", True),
        ("convert_tokens", False),
        ("conversation", False),
        ("forward", False),
    ],
)
def test_convolutions_are_told_by_their_names(name: str, is_one: bool) -> None:
    found = trace().alloc("a", MIB, frames=[frame(name)]).file()
    assert (doubt_of(found, found.devices[0]) == "convolutions") == is_one


def test_another_number_of_steps_is_matched_by_call_stacks() -> None:
    found = growth({2: at_batch(2, turns=2).file(), 4: at_batch(4, turns=5).file()}, at=(16,))
    assert found.doubt == "other work"
    assert found.peaks[-1].expected == 20 * MIB


def test_what_the_other_recording_lacks_is_as_its_role_does() -> None:
    """The larger batch makes something kept for backward, and a temporary of a step, anew."""
    small, large = at_batch(2), at_batch(4, step=3)
    large.alloc("new", 8 * MIB, frames=[frame("new", "model.py", 99), *BLOCK])
    large.free("new", frames=BACK)
    large.alloc("other", 2 * MIB, frames=[frame("other", "step.py", 99), *STEP])
    large.free("other", frames=[frame("other", "step.py", 99), *STEP])
    found = growth({2: small.file(), 4: large.file()}, at=(8,))
    assert found.peaks[-1].expected == (4 + 2 * 8) * MIB


def test_frees_with_nothing_between_them_may_go_in_any_order() -> None:
    files = []
    for order in ("ab", "ba"):
        made = trace().alloc("a", MIB, frames=BLOCK).alloc("b", 2 * MIB, frames=BLOCK)
        for place in order:
            made.free(place, frames=BACK)
        files.append(made.file())
    matched = match_recordings([(file, file.devices[0]) for file in files])
    assert matched.exact
    assert matched.rows.tolist() == [[0, 1], [0, 1]]


def test_which_script_was_started_does_not_count() -> None:
    def started(script: str, line: int, function: str = "main") -> History:
        made = trace()
        for kib, inner in ((1, [*BLOCK, frame(function, "job.py", 5)]), (2, [])):
            run = frame("run", script, 7)  # a function of the script's own
            made.alloc(f"{kib}", kib * MIB, frames=[*inner, run, frame("<module>", script, line)])
        return made.file()

    def matched(*files: History) -> list[int]:
        found = match_recordings([(file, file.devices[0]) for file in files])
        return [int(row) for row in found.rows[0]]

    small = started("batch_of_4.py", 9)
    assert matched(small, started("batch_of_8.py", 12)) == [0, 1]
    # Of another function nothing is known.
    assert matched(small, started("batch_of_8.py", 12, "other")) == [-1, 1]


def test_what_stays_from_before_the_recording_is_matched_by_size() -> None:
    files = []
    for sizes in ((2, 3), (3, 2)):
        blocks = [(size * MIB, size * MIB, "live") for size in sizes]
        files.append(trace().segment("old", 20 * MIB, *blocks).alloc("new", MIB).file())
    matched = match_recordings([(file, file.devices[0]) for file in files])
    assert matched.exact
    first, last = (file.devices[0].allocations.size for file in files)
    assert first[matched.rows[0]].tolist() == last.tolist()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((100, 100), 100),
        ((20, 40), 80),
        ((50, 70), 110),
        # 4 * b ** 2: a line through 16 and 64 begins at -32, more than one sample's 24 below 0.
        ((16, 64), 256),
        # 2 * b + 3 * b ** 2, likewise.
        ((16, 56), 208),
        # 8 * (b - 1), as of sequences without their last token; 2 * b + b ** 2 is 8, 24 as well.
        ((8, 24), 56),
    ],
)
def test_the_law_of_one_size(sizes: tuple[int, int], expected: int) -> None:
    laws = find_laws(np.array([2, 4]), np.array(sizes)[:, None])
    assert laws.regular.all()
    assert laws.expected(8).tolist() == [expected]


def test_a_square_with_a_fixed_part_needs_three_sizes() -> None:
    """Of attention over sequences with 32 learned tokens before them, and with one cut off."""
    sizes = np.array([8, 16, 32])
    for offset in (32, -1):
        squares = 4 * (sizes[:, None] + offset) ** 2
        of_three = find_laws(sizes, squares)
        assert of_three.law[2].all()
        assert of_three.expected(128).tolist() == [4 * (128 + offset) ** 2]
        assert not find_laws(sizes[:2], squares[:2]).law[2].any()


def test_a_threshold_is_no_square() -> None:
    """Flat up to 16 and even from there on: c * b ** 2 + a * b + d would fall at first."""
    laws = find_laws(np.array([8, 16, 24]), np.array([[1024], [1024], [1536]]))
    assert not laws.regular.any()
    assert laws.expected(32).tolist() == [2048]


@pytest.mark.parametrize("sizes", [(40, 20), (10, 13), (10, 90)])
def test_no_law_fits_sizes_that_shrink_or_are_no_whole_numbers_of_samples(
    sizes: tuple[int, int],
) -> None:
    assert not find_laws(np.array([2, 4]), np.array(sizes)[:, None]).regular.any()


def test_a_third_recording_can_contradict_a_law() -> None:
    batches = np.array([2, 4, 8])
    assert find_laws(batches, np.array([[20], [40], [80]])).regular.all()
    bent = find_laws(batches, np.array([[20], [50], [80]]))
    assert not bent.regular.any()
    assert [int(bent.expected(size)[0]) for size in (2, 3, 4, 6, 8, 12)] == [
        20,
        35,
        50,
        65,
        80,
        110,
    ]


coefficients = st.integers(0, 1 << 20)
batches = st.lists(st.integers(1, 64), min_size=2, max_size=4, unique=True).map(sorted)


@settings(deadline=None)
@given(batches, st.lists(st.tuples(coefficients, coefficients), min_size=1, max_size=5),
       st.integers(1, 200))  # fmt: skip
def test_a_line_is_found_again(sizes: list[int], lines: list[tuple[int, int]], at: int) -> None:
    def of(batch: int) -> list[int]:
        return [fixed + each * batch for fixed, each in lines]

    laws = find_laws(np.array(sizes), np.array([of(size) for size in sizes]))
    assert laws.regular.all()
    assert not laws.law[2].any()
    assert laws.expected(at).tolist() == of(at)
    fixed, each, squared = laws.coefficients(at)
    assert np.allclose(fixed + each * at + squared * at**2, laws.expected(at))


@settings(deadline=None)
@given(batches.filter(lambda sizes: len(sizes) > 2),
       st.lists(st.tuples(coefficients, coefficients, coefficients), min_size=1, max_size=5),
       st.integers(1, 200))  # fmt: skip
def test_what_grows_with_the_square_is_found_again_from_three_sizes(
    sizes: list[int], curves: list[tuple[int, int, int]], at: int
) -> None:
    def of(batch: int) -> list[int]:
        return [fixed + each * batch + squared * batch**2 for fixed, each, squared in curves]

    laws = find_laws(np.array(sizes), np.array([of(size) for size in sizes]))
    assert laws.regular.all()
    assert laws.expected(at).tolist() == of(at)
    fixed, each, squared = laws.coefficients(at)
    assert np.allclose(fixed + each * at + squared * at**2, laws.expected(at))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 80), st.integers(0, 30))
def test_the_peak_of_a_program_that_does_the_same_is_told_at_any_batch(
    one: int, other: int, at: int, step: int
) -> None:
    if one == other:
        return
    files = {size: at_batch(size, step=step).file() for size in sorted((one, other))}
    found = next(each for each in growth(files, at=(at,)).peaks if each.batch == at)
    assert found.expected == (4 + max(at, step)) * MIB


@pytest.mark.parametrize("expandable", [False, True])
def test_what_the_allocator_gives_is_near_what_is_told(expandable: bool) -> None:
    def recorded(batch: int) -> History:
        simulator = Simulator(AllocatorSettings(expandable_segments=expandable), seed=1)
        model = Transformer(layers=2, width=512, heads=8, vocabulary=16_000, batch=batch)
        run = TrainingRun(simulator, model)
        run.build()
        simulator.start_recording()
        run.train(2)
        return history_of(simulator.snapshot())

    sizes = (1, 2, 5, 9, 16)
    for pair in ((2, 5), (5, 9), (1, 16)):
        found = growth({size: recorded(size) for size in pair}, at=sizes)
        assert found.doubt in ("", "extrapolated")
        for each in found.peaks:
            curve = find_curves(recorded(each.batch).devices[0])["allocated"]
            assert abs(each.expected - curve.max()) < (1 if expandable else 0.02 * curve.max())
