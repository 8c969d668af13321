"""Programs that nothing is wrong with, of many shapes: a finding to act on is a false alarm."""

from __future__ import annotations

import random
from dataclasses import replace

from simulator.diseases.case import Case
from simulator.diseases.program import SIDE_STREAM, Program, draw_program, vary_length
from simulator.settings import MIB, AllocatorSettings
from simulator.workloads import Config, simulate

_NEVER = frozenset(["oom", "leak"])
_MID_WAY = frozenset(["started-late", "missing-stacks", "unmatched-frees", "inferred-sizes"])


def training(seed: int) -> Case:
    """Training, of a small or a larger model."""
    rng = random.Random(f"training {seed}")  # noqa: S311
    program = draw_program(rng, large=rng.random() < 0.3)
    program.build()
    program.train(rng.randrange(2, 9))
    return _case("training", seed, program)


def warm_up(seed: int) -> Case:
    """Training with larger batches in its first steps, in which workspaces are tried out."""
    rng = random.Random(f"warm-up {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    model = program.model
    for number in range(rng.randrange(5, 10)):
        if number < 2:
            program.model = replace(model, batch=2 * model.batch)
            for _ in range(rng.randrange(3, 8)):
                program.keep("tune", 9, 2 * MIB * rng.randrange(5, 20))
                program.release("tune")
        elif number == 2:
            program.model = model
        program.train(1, first=number)
    return _case("warm-up", seed, program)


def accumulation(seed: int) -> Case:
    """Gradients gathered over several batches."""
    rng = random.Random(f"accumulation {seed}")  # noqa: S311
    program = draw_program(rng)
    program.micro_batches = rng.randrange(2, 5)
    program.build()
    program.train(rng.randrange(3, 6))
    return _case("accumulation", seed, program)


def with_evaluation(seed: int) -> Case:
    """Training with an evaluation every few steps."""
    rng = random.Random(f"evaluation {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    every = rng.randrange(2, 4)
    for number in range(3 * every):
        program.train(1, first=number)
        if number % every == every - 1:
            program.evaluate(rng.randrange(1, 4))
    return _case("with-evaluation", seed, program)


def variable_length(seed: int) -> Case:
    """Training on batches of varying length."""
    rng = random.Random(f"variable length {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    for number in range(rng.randrange(6, 14)):
        vary_length(program, rng)
        program.train(1, first=number)
    # Segments of other lengths are in nobody's use: that is the price, and true.
    return _case("variable-length", seed, program, "fragmentation", "unused-reserved", "slack")


def growing_length(seed: int) -> Case:
    """A curriculum: every batch is longer than the last, all is freed in time."""
    rng = random.Random(f"growing length {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    for number in range(rng.randrange(6, 10)):
        program.model = replace(program.model, length=64 + 16 * number)
        program.train(1, first=number)
    also = ("fragmentation", "unused-reserved", "slack", "dumped-early")
    return _case("growing-length", seed, program, *also)


def generation(seed: int) -> Case:
    """Text written token by token, with keys and values kept until it is done."""
    rng = random.Random(f"generation {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    for _ in range(rng.randrange(1, 4)):
        _write(program, rng, rng.randrange(30, 80))
    return _case("generation", seed, program, "fragmentation", "unused-reserved", "slack")


def generation_cut(seed: int) -> Case:
    """The same, and the file is written before the text is done."""
    rng = random.Random(f"generation cut {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    _write(program, rng, rng.randrange(30, 80), end=False)
    also = ("fragmentation", "unused-reserved", "slack", "dumped-early")
    return _case("generation-cut", seed, program, *also)


def inference(seed: int) -> Case:
    """Batches of one shape, forward only."""
    rng = random.Random(f"inference {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    program.evaluate(rng.randrange(5, 30))
    return _case("inference", seed, program)


def loading(seed: int) -> Case:
    """Training while the next batch is copied on another stream."""
    rng = random.Random(f"loading {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    allocator = program.simulator.allocators[0]
    size = MIB * rng.randrange(1, 12)
    for number in range(rng.randrange(4, 9)):
        program.stream = SIDE_STREAM
        with program.stage("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            for block in program.keep(f"prefetch_{number % 2}", 15, size):
                allocator.record_stream(block, 0)
        program.stream = 0
        program.train(1, first=number)
        program.release(f"prefetch_{(number + 1) % 2}")
        allocator.pass_events(0)
    return _case("loading", seed, program, "outlives-step", "held-across-stages")


def two_streams(seed: int) -> Case:
    """Training with communication on a stream of its own."""
    rng = random.Random(f"two streams {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    allocator = program.simulator.allocators[0]
    for number in range(rng.randrange(4, 9)):
        program.train(1, first=number)
        program.stream = SIDE_STREAM
        for _ in range(rng.randrange(2, 6)):
            program.keep("all_reduce", 22, MIB * rng.randrange(1, 8))
            allocator.record_stream(program.kept["all_reduce"][-1], 0)
        program.release("all_reduce")
        program.stream = 0
        allocator.pass_events(0)
    return _case("two-streams", seed, program)


def graphs(seed: int) -> Case:
    """Forward passes captured as CUDA graphs, whose pool nobody else may use."""
    rng = random.Random(f"graphs {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    program.evaluate(rng.randrange(2, 4))
    allocator = program.simulator.allocators[0]
    for number in range(rng.randrange(1, 4)):
        allocator.begin_pool((number + 1, 0))
        program.evaluate(1)
        program.keep("static_output", 18, program.model.logits)
        allocator.end_pool()
    program.evaluate(rng.randrange(3, 8))
    return _case("graphs", seed, program, "locked-pool", "unused-reserved")


def deep(seed: int) -> Case:
    """One or two steps of a deep model, whose layers come one after the other, all alike."""
    rng = random.Random(f"deep {seed}")  # noqa: S311
    program = draw_program(rng)
    program.model = replace(program.model, layers=rng.randrange(16, 33))
    program.build()
    program.train(rng.randrange(1, 3))
    return _case("deep", seed, program)


def mid_way(seed: int) -> Case:
    """Recording switched on while the program trains."""
    rng = random.Random(f"mid-way {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.build()
    program.train(rng.randrange(1, 4))
    program.simulator.start_recording()
    program.train(rng.randrange(3, 7), first=4)
    return _case("mid-way", seed, program, *_MID_WAY)


def random_work(seed: int) -> Case:
    """Allocations and frees without any plan."""
    rng = random.Random(f"random work {seed}")  # noqa: S311
    config = Config(
        seed=rng.randrange(10**6),
        operations=rng.randrange(200, 1500),
        settings=AllocatorSettings(expandable_segments=rng.random() < 0.4),
        streams=rng.randrange(1, 3),
        largest=rng.choice([8, 32, 64]) * MIB,
        target=rng.randrange(10, 60),
        annotations=rng.random() < 0.5,
        empty_cache=False,
        record_from=rng.choice([0, 0, 100]),
    )
    also = frozenset(
        [*_MID_WAY, "fragmentation", "unused-reserved", "slack", "pending-free", "dumped-early",
         "held-across-stages", "outlives-step"]
    )  # fmt: skip
    return Case("random-work", seed, simulate(config).snapshot(), (), also, _NEVER)


HEALTHY = (
    training, warm_up, accumulation, with_evaluation, variable_length, growing_length, generation,
    generation_cut, inference, loading, two_streams, graphs, deep, mid_way, random_work,
)  # fmt: skip


def _write(program: Program, rng: random.Random, tokens: int, *, end: bool = True) -> None:
    """Write a text: a key and a value of each layer are made anew, longer, for each token."""
    model, token = program.model, 2 * program.model.width * program.model.batch
    past = rng.randrange(64, 512)
    caches = [program.keep(f"update_{k}", 31, past * token)[0] for k in range(2 * model.layers)]
    with program.call("<module>", "generate.py", 5), program.call("generate", "generate.py", 22):
        for number in range(1, tokens):
            with program.stage("decode"):
                for k, old in enumerate(caches):
                    with program.call("update", "kv_cache.py", 40 + k % 2):
                        caches[k] = program.new((past + number) * token, "at::_ops::cat::call")
                        program.drop(old)
                    with program.call("forward", "model/attention.py", 33):
                        mixed = program.new(token, "at::_ops::bmm::call")
                        program.drop(mixed)
                logits = program.new(model.batch * model.vocabulary * 4, "at::_ops::linear::call")
                program.drop(logits)
        if end:
            program.drop(*caches)


def _case(name: str, seed: int, program: Program, *also: str) -> Case:
    return Case(name, seed, program.simulator.snapshot(), (), frozenset(also), _NEVER)
