"""Ask all questions, and print score, calls and tokens: ``python -m dev.evals [FOLDER...]``."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.evals import naive
from dev.evals.made_runs import make_runs
from dev.evals.mosaic_calls import MosaicError
from dev.evals.mosaic_score import GRADES, Scored, ask_mosaic
from dev.evals.questions import Question, files_of, is_near, is_right, read_questions
from dev.evals.scripted import Result, ask_all

SAMPLES = Path(__file__).parents[2] / "sample_snapshots"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print what came of it, and return 0 if every answer is right."""
    parser = argparse.ArgumentParser(prog="python -m dev.evals", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="with recordings, beside the samples")
    parser.add_argument(
        "--client",
        help="a command that answers {question} with the servers in {config};"
        " by default a client without a model, which follows the guide",
    )
    parser.add_argument(
        "--mosaic",
        metavar="CHECKOUT",
        type=Path,
        help="ask Mosaic's tools as well: a checkout of github.com/facebookresearch/mosaic, with"
        " what it requires in its .venv",
    )
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        make_runs(Path(made))
        folders = [SAMPLES, Path(made), *given.folders]
        try:
            return _ask(given, folders)
        except MosaicError as error:
            parser.error(str(error))


def _ask(given: argparse.Namespace, folders: Sequence[Path]) -> int:
    known = read_questions()
    questions = [each for each in known if files_of(each, folders) is not None]
    scored = None if given.mosaic is None else ask_mosaic(given.mosaic, questions, folders)
    if given.client is None:
        results = ask_all(questions, folders)
    else:
        from dev.evals.any_client import ask_each

        results = ask_each(given.client, questions, folders)
    _report(results)
    if scored is not None:
        _report_mosaic(scored)
    _report_naive(questions, folders)
    if len(questions) < len(known):
        left = len(known) - len(questions)
        print(f"{left} questions were not asked: their recordings are in none of the folders.")
    return 0 if all(each.right for each in results) else 1


def _report(results: Sequence[Result]) -> None:
    for each in results:
        if not each.right:
            print(f"wrong: {each.question.asked}")
            print(f"  said {each.said[-200:]!r}, right is {each.question.answer!r}")
    calls = [each.calls for each in results]
    tokens = [sum(each.tokens) for each in results]
    print(f"{sum(each.right for each in results)} of {len(results)} right")
    if results:
        print(f"calls: {max(calls)} at most, {sum(calls) / len(calls):.1f} on average")
        average = sum(tokens) / len(tokens)
        print(f"tokens of replies: {max(tokens):,} at most, {average:,.0f} on average")


def _report_mosaic(scored: Sequence[Scored]) -> None:
    """Print what Mosaic's tools say, and each question that they get wrong or fail at."""
    counts = {grade: sum(each.grade == grade for each in scored) for grade in GRADES}
    answered = sum(counts[grade] for grade in GRADES[:3])
    told = ", ".join(f"{count} {grade}" for grade, count in counts.items())
    near = sum(each.grade == "wrong" and is_near(each.question, each.said) for each in scored)
    print(f"Mosaic's tools: {answered} of {len(scored)} answered; {told}")
    print(f"  {near} of the wrong are within 1 %")
    for each in scored:
        if each.grade in ("wrong", "crashed"):
            print(f"  {each.grade}: {each.question.asked}")
            print(f"    {each.said[-200:]}; right is {each.question.answer}")


def _report_naive(questions: Sequence[Question], folders: Sequence[Path]) -> None:
    """Print how far a short script gets that loads the pickles and adds up."""
    said = []
    for each in questions:
        found = files_of(each, folders)
        assert found is not None
        answer = naive.answer(each, *found)
        if answer is not None:
            said.append((each, answer))
    right = sum(is_right(*each) for each in said)
    near = sum(is_near(*each) for each in said if not is_right(*each))
    print(
        f"pickle.load and a running sum: {len(said)} of {len(questions)} answered,"
        f" {right} right, {near} of the wrong within 1 %"
    )


if __name__ == "__main__":
    raise SystemExit(main())
