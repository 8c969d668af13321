"""Ask all questions, and print score, calls and tokens: ``python -m evals [FOLDER...]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from evals import naive
from evals.questions import Question, files_of, is_right, read_questions
from evals.scripted import Result, ask_all

SAMPLES = Path(__file__).parent.parent / "sample_snapshots"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print what came of it, and return 0 if every answer is right."""
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="with recordings, beside the samples")
    parser.add_argument(
        "--client",
        help="a command that answers {question} with the servers in {config};"
        " by default a client without a model, which follows the guide",
    )
    given = parser.parse_args(arguments)
    folders = [SAMPLES, *given.folders]
    known = read_questions()
    questions = [each for each in known if files_of(each, folders) is not None]
    if given.client is None:
        results = ask_all(questions, folders)
    else:
        from evals.any_client import ask_each

        results = ask_each(given.client, questions, folders)
    _report(results)
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


def _report_naive(questions: Sequence[Question], folders: Sequence[Path]) -> None:
    """Print how far a short script gets that loads the pickles and adds up."""
    said = []
    for each in questions:
        found = files_of(each, folders)
        assert found is not None
        answer = naive.answer(each, *found)
        if answer is not None:
            said.append(is_right(each, answer))
    print(
        f"pickle.load and a running sum: {len(said)} of {len(questions)} answered,"
        f" {sum(said)} right"
    )


if __name__ == "__main__":
    raise SystemExit(main())
