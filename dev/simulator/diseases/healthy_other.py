"""Inference, data and streams with nothing wrong: a finding to act on is a false alarm."""

from __future__ import annotations

import random

from dev.simulator.diseases.case import MID_WAY, NEVER, Case
from dev.simulator.diseases.program import SIDE_STREAM, Program, draw_program, healthy
from dev.simulator.settings import MIB, AllocatorSettings
from dev.simulator.workloads import Config, simulate


def generation(seed: int) -> Case:
    """Text written token by token, with keys and values kept until it is done."""
    rng = random.Random(f"generation {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    for _ in range(rng.randrange(1, 4)):
        _write(program, rng, rng.randrange(30, 80))
    return healthy("generation", seed, program, "fragmentation", "unused-reserved", "slack")


def generation_cut(seed: int) -> Case:
    """The same, and the file is written before the text is done."""
    rng = random.Random(f"generation cut {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    _write(program, rng, rng.randrange(30, 80), end=False)
    also = ("fragmentation", "unused-reserved", "slack", "dumped-early")
    return healthy("generation-cut", seed, program, *also)


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


def inference(seed: int) -> Case:
    """Batches of one shape, forward only."""
    rng = random.Random(f"inference {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    program.evaluate(rng.randrange(5, 30))
    return healthy("inference", seed, program)


def collected(seed: int) -> Case:
    """Evaluations that collect their outputs, and free them when they are done."""
    rng = random.Random(f"collected {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    size = MIB * rng.randrange(1, 4)
    for number in range(rng.randrange(2, 5)):
        program.train(1, first=number)
        for _ in range(rng.randrange(6, 20)):
            program.evaluate(1)
            program.keep("outputs", 33, size)
        program.release("outputs")
    return healthy("collected", seed, program, "fragmentation", "unused-reserved")


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
    return healthy("loading", seed, program, "outlives-step", "held-across-stages")


def data_in_parts(seed: int) -> Case:
    """Data on the GPU, a part at a time, each in the place of the last."""
    rng = random.Random(f"data in parts {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    every = rng.randrange(2, 4)
    for number in range(every * rng.randrange(2, 5)):
        if number % every == 0:
            program.release("load_part")
            program.keep("load_part", 8, MIB * rng.randrange(5, 60))
        program.train(1, first=number)
    also = ("fragmentation", "unused-reserved", "outlives-step", "held-across-stages")
    return healthy("data-in-parts", seed, program, *also)


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
    return healthy("two-streams", seed, program)


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
    return healthy("graphs", seed, program, "locked-pool", "unused-reserved")


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
        [*MID_WAY, "fragmentation", "unused-reserved", "slack", "pending-free", "dumped-early",
         "held-across-stages", "outlives-step"]
    )  # fmt: skip
    return Case("random-work", seed, simulate(config).snapshot(), (), also, NEVER)


OTHER = (
    generation, generation_cut, inference, collected, loading, data_in_parts, two_streams,
    graphs, random_work,
)  # fmt: skip
