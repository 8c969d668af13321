"""The program with its widgets: what it draws is what the screens say, and it ends well."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from rich.style import Style

from snapreport.commands.explorer.app import (
    ROLES,
    THEMES,
    ExplorerApp,
    fitting_theme,
    strip_of,
    style_of,
)
from snapreport.commands.explorer.lines import Line, Run
from snapreport.commands.explorer.opening import OpenedFile
from snapreport.ground.errors import InputError
from snapreport.ground.progress import Progress
from tests import hostile_text
from tests.explorer.exploring_tools import LARGE, SMALL, Explored, open_here

Result = TypeVar("Result")


def program(*paths: Path, look: str = "dark") -> ExplorerApp:
    def open_files(progress: Progress, cancelled: threading.Event) -> Sequence[OpenedFile]:
        progress("Reading", 0.5)
        return [open_here(path) for path in paths]

    return ExplorerApp(open_files, look=look)


async def settled(app: ExplorerApp) -> None:
    """Wait until the files are open and everything beside the screen is done."""
    while app.widget.panes is None and app.failure is None:
        await asyncio.sleep(0.01)
    while app.widget.panes and app.widget.panes.desk.shown.name == "overview":
        if app.widget.panes.desk.shown.diagnosis is not None:  # type: ignore[attr-defined]
            break
        await asyncio.sleep(0.01)


def shown(app: ExplorerApp) -> list[str]:
    return [app.widget.render_line(y).text.rstrip() for y in range(app.widget.size.height)]


def finish(run: Coroutine[Any, Any, Result]) -> Result:
    """Run it in a thread of its own: browser tests leave an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run).result()


@pytest.mark.parametrize(("look", "size"), [*((each, SMALL) for each in THEMES), ("dark", LARGE)])
def test_the_program_draws_what_the_screens_say(
    look: str, size: tuple[int, int], samples: Path
) -> None:
    keys = ("2", "p", "+", "enter", "h", "]")
    path = samples / "training_step.pickle"
    plain = Explored(path, size=size)

    async def run() -> None:
        app = program(path, look=look)
        async with app.run_test(size=size) as pilot:
            await settled(app)
            await pilot.pause()
            assert "\n".join(shown(app)) == plain.text()
            for key in keys:
                await pilot.press({"+": "plus", "]": "right_square_bracket"}.get(key, key))
                plain.press(key)
            assert "\n".join(shown(app)) == plain.text()
            picture = app.export_screenshot()
            assert "training_step" in picture
            await pilot.resize_terminal(60, 15)
            plain.size = (60, 15)
            await pilot.pause()
            assert "\n".join(shown(app)) == plain.text()
            await pilot.press("Q")
        assert app.failure is None

    finish(run())


def test_another_theme_changes_colours_and_no_letter(samples: Path) -> None:
    async def run() -> None:
        app = program(samples / "two_streams.pickle")
        async with app.run_test(size=SMALL) as pilot:
            await settled(app)
            await pilot.press("2")
            before, style = shown(app), app.widget.render_line(0)
            await pilot.press("T")
            assert shown(app) == before
            assert app.widget.render_line(0) != style

    finish(run())


def test_a_file_that_cannot_be_opened_ends_the_program_with_its_error() -> None:
    def open_files(progress: Progress, cancelled: threading.Event) -> Sequence[OpenedFile]:
        raise InputError("no such thing")

    async def run() -> ExplorerApp:
        app = ExplorerApp(open_files, look="dark")
        async with app.run_test(size=SMALL):
            await settled(app)
        return app

    assert isinstance(finish(run()).failure, InputError)


def test_opening_is_cancelled_by_a_key() -> None:
    begun, seen = threading.Event(), []

    def open_files(progress: Progress, cancelled: threading.Event) -> Sequence[OpenedFile]:
        progress("Reading the snapshot", 0.25)
        begun.set()
        cancelled.wait(10)
        seen.append(cancelled.is_set())
        return []

    async def run() -> None:
        app = ExplorerApp(open_files, look="dark")
        async with app.run_test(size=SMALL) as pilot:
            await asyncio.to_thread(begun.wait, 10)
            await pilot.pause()
            assert any("Reading the snapshot" in line for line in shown(app))
            assert any("█████" in line for line in shown(app))
            await pilot.press("escape")

    finish(run())
    while not seen:
        pass
    assert seen == [True]


def test_every_role_has_a_style_in_every_theme() -> None:
    for look in THEMES:
        for role in ROLES:
            for mark in ("", "cursor", "match", "bar"):
                assert isinstance(style_of(f"{role}|{mark}" if mark else role, look), Style)


def test_the_theme_fits_the_terminal() -> None:
    assert fitting_theme({"TERM": "xterm-256color"}) == "dark"
    assert fitting_theme({"TERM": "xterm", "COLORTERM": "truecolor"}) == "dark"
    assert fitting_theme({"TERM": "linux"}) == "terminal"
    assert fitting_theme({"TERM": "xterm-256color", "NO_COLOR": "1"}) == "terminal"
    assert fitting_theme({"WT_SESSION": "1"}) == "dark"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "x.pickle"
    path.write_bytes(pickle.dumps(hostile_text.snapshot(), 4))
    return path


def test_nothing_of_a_hostile_file_drives_the_terminal_or_is_markup(hostile: Path) -> None:
    explored = Explored(hostile, size=(300, 40))
    texts = []
    for screen in explored.panes.desk.screens:
        for key in ("", "e", "end", "enter"):
            explored.panes.desk.show(screen.name)
            lines = explored.press(key).lines() if key else explored.lines()
            for line in lines:
                strip = strip_of(line, 300, "dark")
                assert strip.text.isprintable()
                assert strip.cell_length == 300
            texts.append("\n".join(line.text for line in lines))
    shown = "\n".join(texts)
    assert "\ufffd[2J" in shown, "what was there can be read"
    assert "[bold" in shown or "[x](javascript:1)" in shown, "markup is text"


def test_the_last_way_to_the_terminal_lets_nothing_through() -> None:
    """Even a line that was made without care."""
    for text in hostile_text.attacks().values():
        strip = strip_of(Line((Run(text),)), 500, "dark")
        assert all(segment.text.isprintable() for segment in strip)


def test_a_hostile_file_is_shown_by_the_program(hostile: Path) -> None:
    async def run() -> None:
        app = program(hostile)
        async with app.run_test(size=LARGE) as pilot:
            await settled(app)
            for number in "13":
                await pilot.press(number, "e")
                assert all(line.isprintable() for line in shown(app))

    finish(run())


def test_a_mistake_beside_the_screen_ends_the_program_with_its_traceback(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("snapreport.api.device.diagnose", lambda *_: broken(None))

    async def run() -> ExplorerApp:
        app = program(samples / "two_streams.pickle")
        async with app.run_test(size=SMALL):
            while app.failure is None:
                await asyncio.sleep(0.01)
        return app

    assert isinstance(finish(run()).failure, ZeroDivisionError)
