"""What programs allocate on a card that is not there, counted by hand."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest

from tests.forecast.forecasts import forecast
from tests.needed import needed

torch = needed("torch")

KIB, MIB = 1024, 1024 * 1024


def test_an_index_of_truth_values_is_turned_into_numbers_first() -> None:
    mask = torch.arange(1000) < 300
    with forecast() as seen:
        x, on_card = torch.empty(1000, 16, device="cuda"), mask.cuda()
        seen.mark()
        found = x[on_card]
        sizes = seen.sizes()
    # how many there are; the numbers of 300 rows (int64); CUB's selection; the rows
    assert (sizes[0], sizes[1], sizes[-1]) == (4, 300 * 8, 300 * 16 * 4)
    assert found.shape == (300, 16)
    assert not seen.assumed


def test_of_an_unknown_mask_everything_is_assumed_to_be_true() -> None:
    with forecast() as seen:
        x = torch.randn(100, 4, device="cuda")
        seen.mark()
        found = x[x > 0]
        sizes = seen.sizes()
    assert found.shape == (400,)
    assert 2 * 400 * 8 in sizes  # a row and a column for each
    assert seen.assumed == {("nonzero", "test_allocations.py"): 1}


def test_filling_where_a_mask_is_true_allocates_nothing() -> None:
    with forecast() as seen:
        x = torch.randn(100, 4, device="cuda")
        mask = x > 0
        seen.mark()
        x.masked_fill_(mask, 0.0)
        assert seen.sizes() == []


def test_a_transposed_tensor_shares_its_memory() -> None:
    with forecast() as seen:
        x = torch.empty(3, 5, device="cuda")
        seen.mark()
        x.transpose_(0, 1)
        x.unsqueeze_(0)
        assert (x.shape, x.stride(), seen.sizes()) == ((1, 5, 3), (5, 1, 5), [])


def test_a_scaler_allocates_its_scale_and_what_it_found() -> None:
    with forecast(steps=0) as seen:
        weight = torch.nn.Parameter(torch.ones(256, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        loss = weight.sum()
        seen.mark()
        scaler.scale(loss)
        assert seen.sizes() == [4, 4, 4]  # the scale, the growth tracker, the product
        weight.grad = torch.ones_like(weight)
        seen.mark()
        scaler.unscale_(optimizer)
        # the scale's inverse by way of float64, whether something was not finite, copies of both
        assert sorted(seen.sizes()) == [4, 4, 4, 4, 8, 8]
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 65536.0


def test_checkpoints_lower_the_peak_by_the_activations() -> None:
    def peak(checkpointed: bool | None) -> int:
        with forecast() as seen:
            x: Any = torch.randn(256, 1024, device="cuda", requires_grad=True)  # 1 MiB
            seen.mark()
            for _ in range(8):
                if checkpointed is None:
                    x = x.exp().sin().exp()
                else:
                    x = torch.utils.checkpoint.checkpoint(
                        lambda y: y.exp().sin().exp(), x, use_reentrant=checkpointed
                    )
            return seen.live // MIB

    # A block's backward needs what both exp() return, or else its input alone.
    assert peak(None) == 1 + 8 * 2
    assert peak(True) == peak(False) == 1 + 8


def test_checkpoints_run_backward_as_well() -> None:
    for reentrant in (True, False):
        with forecast() as seen:
            layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).cuda()
            x = torch.randn(4, 64, device="cuda", requires_grad=True)
            torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
            assert x.grad.shape == x.shape
            assert layer[0].weight.grad.shape == (64, 64)
        assert not seen.assumed


def test_activations_saved_on_the_cpu_are_not_on_the_card() -> None:
    for pinned in (False, True):
        with forecast() as seen:
            x = torch.randn(256, 1024, device="cuda", requires_grad=True)
            with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
                y = x.exp().exp().exp()
            assert seen.live == 2 * MIB  # x and y
            y.sum().backward()


def test_a_copy_of_a_model_takes_its_memory_again() -> None:
    with forecast() as seen:
        model = torch.nn.Linear(1024, 256).cuda()
        plain = torch.ones(256, device="cuda")
        seen.mark()
        copied, again = copy.deepcopy(model), copy.deepcopy(plain)
        # weight, bias and tensor; PyTorch makes one of one element before it shares the copy
        assert seen.sizes() == [1024 * 256 * 4, 256 * 4, 256 * 4, 4]
        assert copied.weight.device.type == again.device.type == "cuda"


def test_weights_of_a_recurrent_network_lie_in_one_piece() -> None:
    with forecast() as seen:
        network = torch.nn.LSTM(16, 32)
        seen.mark()
        network.cuda()
        weights = [each.numel() * 4 for each in network.parameters()]
        assert seen.sizes() == [*weights, sum(weights)]
        assert seen.live == sum(weights)
        seen.mark()
        with torch.inference_mode():
            network(torch.empty(5, 2, 16, device="cuda"))
        # the input; two first states; the output and the last states; no copy of the weights
        assert seen.sizes()[:6] == [640, 256, 256, 1280, 256, 256]


def test_rms_norm_is_one_kernel_that_keeps_one_number_a_row() -> None:
    with forecast() as seen:
        norm = torch.nn.RMSNorm(64, device="cuda", dtype=torch.bfloat16)
        x = torch.empty(8, 64, device="cuda", dtype=torch.bfloat16)
        seen.mark()
        y = norm(x)
        assert seen.sizes() == [8 * 64 * 2, 8 * 4]
        y.sum().backward()
        assert norm.weight.grad.shape == (64,)


@pytest.mark.parametrize("mode", ["inference", "no_grad", "grad"])
def test_attention_never_makes_all_scores(mode: str) -> None:
    context = {
        "inference": torch.inference_mode, "no_grad": torch.no_grad, "grad": torch.enable_grad,
    }[mode]  # fmt: skip
    with forecast() as seen:
        shape = (2, 4, 512, 64)
        query = torch.empty(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        seen.mark()
        with context():
            torch.nn.functional.scaled_dot_product_attention(query, query, query)
        # the result, and for backward the logarithm of the sum of each row's exponentials
        assert max(seen.sizes()) == 2 * 4 * 512 * 64 * 2
        assert (2 * 4 * 512 * 4 in seen.sizes()) == (mode == "grad")


def test_batch_norm_and_convolutions_keep_the_format_of_their_input() -> None:
    with forecast():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).cuda()
        x = torch.empty(2, 3, 16, 16, device="cuda").to(memory_format=torch.channels_last)
        assert model(x).is_contiguous(memory_format=torch.channels_last)
        model.eval()
        assert model(x).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_zeros_of_forward_differentiation_take_no_memory() -> None:
    with forecast() as seen:
        x = torch.ones(1024, device="cuda")
        seen.mark()
        zeros = torch._efficientzerotensor((1 << 20,), device="cuda")
        assert (zeros.shape, seen.sizes()) == ((1 << 20,), [])
        torch.func.jvp(lambda a: a.sin(), (x,), (x,))


def test_a_program_can_ask_how_much_it_has_allocated() -> None:
    with forecast(card="80GB") as seen:
        kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
        small = torch.empty(100, dtype=torch.uint8, device="cuda")
        found = torch.cuda.memory_stats()
        assert found["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
        assert found["allocated_bytes.large_pool.current"] == 3 * MIB
        assert found["requested_bytes.small_pool.current"] == 100
        assert found["allocated_bytes.small_pool.current"] == 512
        assert found["segment.all.current"] == 2
        assert found["inactive_split_bytes.all.current"] == 20 * MIB - 3 * MIB + 2 * MIB - 512
        assert torch.cuda.mem_get_info()[0] <= 80 * 10**9 - 22 * MIB
        assert "CUDA OOMs: 0" in torch.cuda.memory_summary()
        del kept, small
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == seen.live == 0


def test_a_search_for_the_largest_batch_ends_at_what_fits() -> None:
    def largest(batch: int) -> int:
        while True:
            try:
                torch.empty(batch, 16 * MIB, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                batch //= 2
            else:
                return batch

    with forecast(card="1GiB") as seen:
        assert largest(256) == 32
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.25)
        assert largest(256) == 16
        with pytest.raises(RuntimeError, match="out of memory"):
            torch.zeros(1 << 40, device="cuda")
        assert torch.cuda.memory_stats()["num_ooms"] == 3 + 4 + 1
    assert not seen.assumed


def test_what_a_failed_step_held_is_free_once_its_error_is() -> None:
    def step(rows: int) -> None:
        x: Any = torch.empty(rows, 16 * MIB, dtype=torch.int8, device="cuda").float()
        x.requires_grad_()
        (x.exp().exp() * 2).sum().backward()

    gc.collect()
    gc.disable()  # so that reference cycles would stay
    try:
        with forecast(card="4GiB") as seen:
            for rows in (32, 16, 8):
                try:
                    step(rows)
                    break
                except torch.OutOfMemoryError:
                    torch.cuda.empty_cache()
            assert rows == 8  # 64 MiB a row, for x, what follows and its gradients
            assert seen.live == 0
    finally:
        gc.enable()


def test_tensors_on_several_devices_are_refused_as_on_a_card() -> None:
    with forecast(devices=2):
        layer = torch.nn.Linear(4, 4).cuda()
        ones = torch.ones(4, device="cuda")
        for other in (torch.ones(4), torch.ones(4, device="cuda:1")):
            with pytest.raises(RuntimeError, match="same device"):
                ones + other
            with pytest.raises(RuntimeError, match="same device"):
                layer(other)
        assert (ones * torch.tensor(2.0)).device.type == "cuda"
        assert ones[torch.tensor([0, 1])].shape == (2,)
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(3, device="cuda:2")


def test_a_failing_operation_says_what_pytorch_says() -> None:
    with forecast(), pytest.raises(RuntimeError, match=r"cannot be multiplied \(3x4 and 3x4\)"):
        torch.ones(3, 4, device="cuda") @ torch.ones(3, 4, device="cuda")


def test_a_model_is_spread_over_two_cards() -> None:
    with forecast(devices=2) as seen:
        model = torch.nn.DataParallel(torch.nn.Linear(64, 8, device="cuda:0"))
        model(torch.randn(6, 64, device="cuda:0")).sum().backward()
        assert model.module.weight.grad.device == torch.device("cuda:0")
        assert torch.cuda.max_memory_allocated(1) > 0
    assert not seen.assumed
