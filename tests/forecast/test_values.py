"""Values that do not exist: those that follow from data on the CPU, and those assumed."""

from __future__ import annotations

from tests.forecast.forecasts import forecast
from tests.needed import needed

torch = needed("torch")

HERE = "test_values.py"


def test_what_came_from_the_cpu_is_known_on_the_card() -> None:
    with forecast() as seen:
        lengths = torch.tensor([3, 1, 2]).cuda()
        assert lengths.sum().item() == 6
        assert (lengths > 1).tolist() == [True, False, True]
        assert torch.repeat_interleave(lengths).shape == (6,)
        assert torch.bincount(lengths).shape == (4,)
    assert not seen.assumed


def test_lists_that_are_written_into_stay_known_or_become_unknown() -> None:
    with forecast() as seen:
        steps = [torch.tensor(0.0, device="cuda") for _ in range(2)]
        torch._foreach_add_(steps, 1)
        torch._foreach_add_(steps, torch.tensor(1.0), alpha=2)
        assert [each.item() for each in steps] == [3, 3]
        assert not seen.assumed
        torch._foreach_mul_(steps, torch.randn((), device="cuda"))
        assert [each.item() for each in steps] == [0.5, 0.5]
    assert seen.assumed == {("float", HERE): 2}


def test_an_optimizer_made_on_the_card_counts_its_steps() -> None:
    # With a default device PyTorch 2.11 keeps Adam's step there, and divides by what follows of it.
    with forecast() as seen:
        weight = torch.nn.Parameter(torch.randn(4, device="cuda"))
        weight.grad = torch.randn(4, device="cuda")
        adam = torch.optim.Adam([weight], foreach=True)
        adam.step()
        adam.state[weight]["step"] = adam.state[weight]["step"].cuda()
        adam.step()
        assert adam.state[weight]["step"].item() == 2
    assert not seen.assumed


def test_a_loop_over_a_known_mask_ends_with_it() -> None:
    with forecast() as seen:
        mask, count = torch.tensor([True, False, True, True]).cuda(), 0
        while mask.any():
            mask[mask.nonzero()[0]] = False
            count += 1
    assert count == 3
    assert not seen.assumed


def test_generation_ends_at_its_longest_length_whatever_the_tokens_are() -> None:
    with forecast():
        going, length, ended = torch.ones(4, dtype=torch.long, device="cuda"), 0, False
        while not ended:
            length += 1
            tokens = torch.randn(4, 9, device="cuda").argmax(-1)
            done = torch.full((4,), length >= 5, device="cuda") | (tokens == 2)
            going = going & ~done
            ended = going.max() == 0
    assert length == 5


def test_nothing_is_infinite_and_nothing_is_not_a_number() -> None:
    with forecast():
        x = torch.randn(10, device="cuda")
        assert torch.isfinite(x).all()
        assert not torch.isnan(x).any()
        assert not torch.isinf(x).any()
        assert torch.allclose(x, x * 2)
        assert not x.max() > 100


def test_what_is_counted_is_all_that_there_is() -> None:
    with forecast() as seen:
        x = torch.randn(8, 10, device="cuda")
        hits = (x.argmax(1) == torch.randn(8, 10, device="cuda").argmax(1)).sum().item()
        assert hits == 8 == x[x[:, 0] > 0].shape[0]
    assert seen.assumed == {("nonzero", HERE): 2}


def test_a_loop_that_waits_for_an_unknown_value_ends() -> None:
    with forecast() as seen:
        x, count = torch.randn(1, device="cuda"), 0
        while not (x > 100).item():
            count += 1
    assert 1000 <= count < 1020
    assert seen.assumed == {("bool", HERE): count + 1}


def test_loops_end_that_wait_for_numbers_or_ask_twice() -> None:
    with forecast() as seen:
        x, count = torch.randn(1, device="cuda"), 0
        while x.item() > 0.1 or x.sum().item() < 7:
            count += 1
        while True:
            if (x > 5).any():
                break
            if (x > 6).any():
                break
            count += 1
    assert count < 4000
    assert set(dict(seen.assumed)) == {("float", HERE), ("bool", HERE)}


def test_values_are_assumed_by_kind_and_by_place() -> None:
    line = test_values_are_assumed_by_kind_and_by_place.__code__.co_firstlineno + 4
    with forecast(assume={"float": 2.5, "nonzero": 0.25, f"{HERE}:{line}": 7}):
        x = torch.randn(100, device="cuda")
        assert x.sum().item() == 7
        assert x.sum().item() == 2.5
        assert x[x > 0].shape == (25,)


def test_the_programs_own_random_numbers_stay_what_they_would_be() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    with forecast():
        torch.manual_seed(3)
        torch.randint(0, 9, (50,), device="cuda")
        torch.randperm(9, device="cuda")
        assert torch.equal(torch.rand(4), expected)


def test_a_generator_says_that_it_is_on_the_card() -> None:
    with forecast():
        generator = torch.Generator("cuda").manual_seed(1)
        assert generator.device == torch.device("cuda:0")
        assert isinstance(torch.default_generator, torch.Generator)
        assert torch.randn(3, device="cuda", generator=generator).shape == (3,)
    assert torch.Generator().device == torch.device("cpu")
