"""What kernels allocate inside, each worked out by hand from PyTorch's sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import pytest

from snapreport.recorders.forecast.kernels import (
    MIB,
    Inside,
    Processor,
    cublas_workspace,
    cublaslt_workspace,
    flash_splits,
    inside,
    lasting_workspaces,
    results_on_card,
    takes_cublaslt,
    uses_cublas,
)

A100 = Processor((8, 0), 108, 2048, (2, 13))


@dataclass
class Tensor:
    """A tensor's metadata, in rows unless strides are given."""

    shape: tuple[int, ...]
    dtype: str = "torch.float32"
    steps: tuple[int, ...] = field(default=())

    def stride(self) -> tuple[int, ...]:
        if self.steps:
            return self.steps
        return tuple(prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))

    def storage_offset(self) -> int:
        return 0


def sizes_of(
    name: str, args: list[Any], outputs: list[Any], processor: Processor = A100, **kwargs: Any
) -> list[int]:
    found = inside(name, args, kwargs, outputs, processor)
    assert found is not None
    return [each.bytes for each in found]


def test_cublas_workspace_is_8_mib_and_an_eighth_and_32_mib_on_hopper() -> None:
    assert cublas_workspace((8, 0), environment={}).bytes == 8_519_680
    assert cublas_workspace((9, 0), environment={}).bytes == 32 * MIB
    assert cublas_workspace((10, 0), (2, 11), {}).bytes == 8_519_680
    assert cublas_workspace((10, 0), (2, 13), {}).bytes == 32 * MIB
    assert (
        cublas_workspace((8, 9), (2, 13), {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}).bytes == 32 * MIB
    )
    assert cublas_workspace((8, 0), environment={}).lasts


def test_cublaslt_has_a_mebibyte_of_its_own_until_it_shares() -> None:
    of_2_6 = cublaslt_workspace((8, 0), (2, 6), {})
    assert (of_2_6.bytes, of_2_6.shared, of_2_6.lasts) == (MIB, False, False)
    of_2_11 = cublaslt_workspace((9, 0), (2, 11), {})  # as an H200 showed
    assert (of_2_11.bytes, of_2_11.shared, of_2_11.lasts) == (MIB, False, True)
    assert cublaslt_workspace((9, 0), (2, 11), {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "1"}).shared
    later = cublaslt_workspace((8, 0), (2, 13), {})
    assert (later.bytes, later.shared) == (8_519_680, True)
    alone = cublaslt_workspace((8, 0), (2, 13), {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"})
    assert (alone.bytes, alone.shared, alone.lasts) == (MIB, False, True)
    assert cublaslt_workspace((8, 0), (2, 6), {"CUBLASLT_WORKSPACE_SIZE": "2048"}).bytes == 2 * MIB


def test_a_handle_keeps_both_workspaces_until_they_are_one() -> None:
    out, bias, first, second = Tensor((4, 8)), Tensor((8,)), Tensor((4, 16)), Tensor((16, 8))

    def kept(torch: tuple[int, int]) -> list[int | None]:
        processor = Processor((9, 0), torch=torch)
        found = lasting_workspaces("aten::addmm", [out], [bias, first, second], {}, processor)
        return [None if each is None else each.bytes for each in found]

    assert kept((2, 6)) == [32 * MIB, None]
    assert kept((2, 11)) == [32 * MIB, MIB]
    assert kept((2, 13)) == [32 * MIB, None]
    assert kept((2, 14)) == [None, None]  # each call has its own


def test_cublaslt_takes_a_bias_of_one_dimension() -> None:
    bias, first, second = Tensor((8,)), Tensor((4, 16)), Tensor((16, 8))
    assert takes_cublaslt("aten::addmm", [bias, first, second], {})
    assert not takes_cublaslt("aten::addmm", [Tensor((4, 8)), first, second], {})
    assert not takes_cublaslt("aten::addmm", [bias, first, second], {"beta": 0})
    assert not takes_cublaslt("aten::mm", [first, second], {})


def test_a_product_asks_for_cublas_unless_it_is_empty() -> None:
    full, none = Tensor((4, 4)), Tensor((0, 4))
    assert uses_cublas("aten::mm", [full], [full, full])
    assert not uses_cublas("aten::mm", [none], [none, full])
    assert not uses_cublas("aten::add.Tensor", [full], [full, full])


def test_a_matrix_that_blas_cannot_read_is_copied() -> None:
    plain, turned = Tensor((4, 8)), Tensor((8, 4), steps=(1, 8))
    strided = Tensor((4, 8), steps=(32, 2))
    result = Tensor((4, 4))
    assert sizes_of("aten::mm", [plain, turned], [result]) == []
    assert sizes_of("aten::mm", [strided, turned], [result]) == [4 * 8 * 4]


def test_elementwise_operators_allocate_nothing_and_strangers_are_unknown() -> None:
    value = Tensor((4,))
    assert inside("aten::add.Tensor", [value, value], {}, [value], A100) == []
    assert inside("aten::add_.Tensor", [value, value], {}, [value], A100) == []
    assert inside("aten::_foreach_addcdiv_.ScalarList", [[value]], {}, [], A100) == []
    assert inside("mine::kernel", [value], {}, [value], A100) is None


def test_a_full_sum_leaves_a_float_for_each_block() -> None:
    # A block is 512 wide and 1 high, so a thread alone would add 32,768 values; 4 such blocks fit
    # on each of 108 multiprocessors, and 432 leave at least 16 values for each thread.
    value, result = Tensor((1 << 24,)), Tensor(())
    assert sizes_of("aten::sum", [value], [result]) == [432 * 4, 4]


def test_a_sum_over_rows_leaves_a_row_for_each_of_32_blocks() -> None:
    # 2,048 rows of 1,024: a thread takes 4 columns, a block 32 threads wide and 4 high. Each thread
    # has 512 rows, so 32 blocks share them at 16 rows each, 8 beside one another. As recorded.
    value, result = Tensor((4, 512, 1024)), Tensor((1, 1, 1024))
    found = sizes_of("aten::sum.dim_IntList", [value, [0, 1], True], [result])
    assert found == [4 * 1024 * 32 * 32 * 4, 8 * 4]
    assert found[0] == 16_777_216


def test_a_sum_over_columns_of_few_values_needs_no_buffer() -> None:
    assert sizes_of("aten::sum.dim_IntList", [Tensor((64, 64)), [0]], [Tensor((64,))]) == []


def test_a_sum_of_booleans_is_of_int64_first() -> None:
    value, result = Tensor((10, 10), "torch.bool"), Tensor((), "torch.int64")
    assert sizes_of("aten::sum", [value], [result]) == [800]
    assert (
        sizes_of("aten::mean", [Tensor((10,), "torch.bfloat16")], [Tensor((), "torch.bfloat16")])
        == []
    )


def test_backward_of_softmax_holds_the_gradient_times_the_output() -> None:
    scores = Tensor((2, 8, 16, 16), "torch.bfloat16")
    args = [scores, scores, -1, "torch.bfloat16"]
    assert sizes_of("aten::_softmax_backward_data", args, [scores]) == [2 * 8 * 16 * 16 * 2]
    assert sizes_of("aten::_log_softmax_backward_data", args, [scores]) == []


def test_few_indices_of_an_embedding_need_nothing_more_are_sorted() -> None:
    rows, result = 1000, Tensor((1000, 64))
    few = [Tensor((3072, 64)), Tensor((3072,), "torch.int64"), rows, -1, False]
    assert sizes_of("aten::embedding_dense_backward", few, [result]) == []
    many = [Tensor((4096, 64)), Tensor((4, 1024), "torch.int64"), rows, -1, False]
    many[0] = Tensor((4, 1024, 64))
    found = inside("aten::embedding_dense_backward", many, {}, [result], A100)
    assert found is not None
    by_role = {each.role: each for each in found}
    assert by_role["sorted indices"] == Inside(4096 * 8, "sorted indices", before=True)
    # 4096 // 10 + min(4096, 1000) parts of 64 floats.
    assert by_role["partial sums of the rows"].bytes == (409 + 1000) * 64 * 4
    assert not by_role["CUB's sort of the indices"].exact


def test_index_put_sorts_only_where_it_accumulates() -> None:
    value, index, source = Tensor((100, 8)), Tensor((50,), "torch.int64"), Tensor((50, 8))
    assert sizes_of("aten::index_put_", [value, [index], source, False], [value]) == []
    found = inside("aten::index_put_", [value, [index], source, True], {}, [value], A100)
    assert found is not None
    # In this order on a card, too: wrapped, as one number, sorted, where from, positions, sort.
    assert [each.bytes for each in found] == [400, 400, 400, 400, 400, 1]
    assert [each.outlives for each in found] == [1, None, None, None, 1, 0]


def test_norms_of_many_tensors_take_a_number_for_each_chunk_of_the_longest() -> None:
    tensors = [Tensor((65_537,), "torch.bfloat16"), Tensor((10,), "torch.bfloat16")]
    outputs = [Tensor((), "torch.bfloat16")] * 2
    assert sizes_of("aten::_foreach_norm.Scalar", [tensors, 2], outputs) == [2 * 2 * 4]


def test_layer_norm_sums_in_parts_where_rows_are_many_and_columns_few() -> None:
    rows, columns = 131_072, 256
    value, weight = Tensor((rows, columns)), Tensor((columns,))
    args = [
        value,
        value,
        [columns],
        Tensor((rows, 1)),
        Tensor((rows, 1)),
        weight,
        weight,
        [True] * 3,
    ]
    outputs = [value, weight, weight]
    # 32,768 blocks over 8 columns of blocks: 4,096 parts, as many as 131,072 / 32 rows.
    assert sizes_of("aten::native_layer_norm_backward", args, outputs) == [4096 * 256 * 4] * 2
    of_2_6 = Processor((8, 0), 108, 2048, (2, 6))
    assert sizes_of("aten::native_layer_norm_backward", args, outputs, of_2_6) == []


def test_group_norm_holds_scale_and_shift_in_float() -> None:
    value, weight = Tensor((2, 64, 8, 8), "torch.bfloat16"), Tensor((64,), "torch.bfloat16")
    args = [value, weight, weight, 2, 64, 64, 8, 1e-5]
    assert sizes_of("aten::native_group_norm", args, [value]) == [512, 512]


def test_flash_attention_splits_keys_where_heads_are_few() -> None:
    assert flash_splits(1000, 216, 64, 4096) == 1
    # One block of 64 queries of one head, 16 blocks of 256 keys: one block each is 16 of 216.
    assert flash_splits(1, 216, 64, 4096) == 16


def test_flash_attentions_backward_holds_the_queries_gradient_in_float() -> None:
    value = Tensor((2, 4, 100, 72), "torch.bfloat16", (28_800, 72, 288, 1))
    lse = Tensor((2, 4, 100))
    args = [value, value, value, value, value, lse]
    found = sizes_of("aten::_scaled_dot_product_flash_attention_backward", args, [value] * 3)
    assert found == [2 * 4 * 128 * 4, 2 * 128 * 4 * 96 * 4]
    grouped = Tensor((2, 1, 100, 72), "torch.bfloat16")
    args = [value, value, grouped, grouped, value, lse]
    found = sizes_of("aten::_scaled_dot_product_flash_attention_backward", args, [value] * 3)
    assert found[2:] == [2 * 100 * 4 * 72 * 2] * 2


def test_a_fake_seed_is_not_always_on_the_card() -> None:
    value = Tensor((2, 4, 128, 64), "torch.bfloat16")
    flash = "aten::_scaled_dot_product_flash_attention"
    assert results_on_card(flash, [value] * 3, {}, A100) == {}
    of_2_6 = Processor((8, 0), 108, 2048, (2, 6))
    assert list(results_on_card(flash, [value] * 3, {}, of_2_6)) == [6, 7]
    efficient = "aten::_scaled_dot_product_efficient_attention"
    assert {
        index: each.bytes
        for index, each in results_on_card(efficient, [value] * 3, {}, A100).items()
    } == {2: 0, 3: 0}
    cudnn = "aten::_scaled_dot_product_cudnn_attention"
    assert results_on_card(cudnn, [value, value, value, None, True], {}, A100) == {}
    assert list(results_on_card(cudnn, [value, value, value, None, False], {}, A100)) == [1]


def test_binary_cross_entropys_one_number_keeps_the_memory_of_all() -> None:
    value = Tensor((8, 100))
    name = "aten::binary_cross_entropy"
    assert results_on_card(name, [value, value], {}, A100)[0].bytes == 3200
    assert results_on_card(name, [value, value, None, 0], {}, A100) == {}


@pytest.mark.parametrize("name", ["aten::convolution", "aten::cudnn_convolution"])
def test_a_convolutions_workspace_is_a_range_from_nothing(name: str) -> None:
    value, weight = Tensor((2, 3, 8, 8)), Tensor((4, 3, 3, 3))
    found = inside(name, [value, weight, None], {}, [Tensor((2, 4, 8, 8))], A100)
    assert found is not None
    assert [(each.bytes, each.least) for each in found] == [(0, 0)]


def test_sorting_is_in_place_up_to_4096() -> None:
    value = Tensor((8, 4096))
    assert sizes_of("aten::sort", [value], [value, value]) == [4096 * 8]
    # 200 rows of 5,000: CUB's segmented sort, positions first.
    value = Tensor((200, 5000))
    assert sizes_of("aten::sort", [value], [value, value])[0] == 200 * 5000 * 8


def test_what_fsdp_gathered_is_taken_apart_by_addresses_on_the_card() -> None:
    # Of 64 ranks' chunks, 4 and 8 tiles of 2 KiB; 768 tiles in all, which fit at once.
    whole = Tensor((64, 12_288), "torch.bfloat16")
    parts = [Tensor((64, 4096), "torch.bfloat16"), Tensor((64, 8192), "torch.bfloat16")]
    name = "aten::split_with_sizes_copy.out"
    assert sizes_of(name, [whole, [4096, 8192], 1], [], out=parts) == [8 * (4 * 2 + 1 + 12)]
    # 262,144 tiles are 76 times as many as fit: each block copies 9 tiles of 9 chunks.
    whole = Tensor((64, 1 << 22), "torch.bfloat16")
    assert sizes_of(name, [whole, [1 << 22], 1], [], out=[whole]) == [8 * (4 + 1 + 456)]


def test_what_fsdp_reduces_is_put_together_by_addresses_on_the_card() -> None:
    # In float32 a quarter of the first is one tile of 2 KiB, and two rows of the second are less.
    gradients = [Tensor((128, 16), "torch.bfloat16"), Tensor((7,), "torch.bfloat16")]
    together = Tensor((4, 514))
    assert sizes_of("aten::_chunk_cat.out", [gradients, 0, 4], [], out=together) == [
        8 * (6 * 2 + 2 + 2)
    ]
