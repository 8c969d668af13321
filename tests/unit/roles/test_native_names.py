"""What C++ functions are called: by what they do for the user, not by PyTorch's names."""

from __future__ import annotations

import pytest

from snapreport.model.findings import MACHINERY, NATIVE, NODE, OPERATOR
from snapreport.roles.frames import IN_CPP, native_kind, native_words, qualified_name

GENERATED = "torch::autograd::generated"
ARGUMENTS = "(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)"
ACCUMULATES = "gradient accumulation (AccumulateGrad)"


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        (f"{GENERATED}::DivBackward0::apply{ARGUMENTS}", NODE, "backward of div (DivBackward0)"),
        (
            f"{GENERATED}::MaxPool2DWithIndicesBackward0::apply{ARGUMENTS}",
            NODE,
            "backward of max_pool2d_with_indices (MaxPool2DWithIndicesBackward0)",
        ),
        (
            f"{GENERATED}::GatherBackward0::release_variables()",
            NODE,
            "backward of gather (GatherBackward0)",
        ),
        (
            f"{GENERATED}::DivBackward0_apply_functional{ARGUMENTS}",
            NATIVE,
            "backward of div (DivBackward0)",
        ),
        ("MulBackward0", NODE, "backward of mul (MulBackward0)"),
        (f"torch::autograd::AccumulateGrad::apply{ARGUMENTS}", NODE, ACCUMULATES),
        ("torch::autograd::AccumulateGrad", NODE, ACCUMULATES),
        (
            "torch::autograd::(anonymous namespace)::AccumulateGrad_apply_impl(at::Tensor&)",
            NATIVE,
            ACCUMULATES,
        ),
        (
            "void torch::autograd::AccumulateGrad::accumulateGrad<void (at::Tensor&&)>(at::Tensor)",
            NATIVE,
            ACCUMULATES,
        ),
        (
            f"torch::autograd::CopySlices::apply{ARGUMENTS}",
            NODE,
            "backward of a write into a view (CopySlices)",
        ),
        (
            f"torch::autograd::CopyBackwards::apply{ARGUMENTS}",
            NODE,
            "backward of copy (CopyBackwards)",
        ),
        (
            f"torch::autograd::PyNode::apply{ARGUMENTS}",
            NODE,
            "backward of a custom autograd.Function (PyNode)",
        ),
        (
            f"torch::autograd::CppNode<(anonymous namespace)::RoiAlign>::apply{ARGUMENTS}",
            NODE,
            "backward of RoiAlign (CppNode)",
        ),
        (
            f"torch::autograd::Error::apply{ARGUMENTS}",
            NODE,
            "an operation without a backward (Error)",
        ),
        (
            "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::Node>&)",
            NATIVE,
            "backward pass (autograd's engine)",
        ),
        (
            "torch::autograd::InputMetadata::reduce_grad(at::Tensor&) const",
            NATIVE,
            "sum of a broadcast tensor's gradient (autograd)",
        ),
        (
            "torch::autograd::InputBuffer::add(unsigned long, at::Tensor&&)",
            NATIVE,
            "sum of a tensor's gradients (autograd)",
        ),
        (
            "void torch::autograd::validate_outputs_impl<torch::autograd::Edge>(std::vector<int>)",
            NATIVE,
            "gradient conversion (autograd)",
        ),
        (
            "c10d::Reducer::autograd_hook(unsigned long)",
            NATIVE,
            "gradient buckets of DDP (Reducer)",
        ),
        ("flash::mha_bwd(at::Tensor const&)", NATIVE, "flash::mha_bwd"),
        ("at::_ops::sum_dim_IntList::call(long)", OPERATOR, "operator sum_dim, called from C++"),
        ("at::mul(at::Tensor const&)", OPERATOR, "operator mul, called from C++"),
        ("aten::mm", NATIVE, "aten::mm"),
        ("aten::empty_strided", MACHINERY, "aten::empty_strided"),
        ("at::_ops::empty_strided::call(long)", MACHINERY, IN_CPP),
        ("at::Tensor at::_sum_to<c10::SymInt>(at::Tensor, bool)", MACHINERY, IN_CPP),
        ("void at::native::gpu_kernel<float, at::X<(bool)1> >(at::Tensor&)", MACHINERY, IN_CPP),
        (f"torch::autograd::Function<MyOp>::apply{ARGUMENTS}", MACHINERY, IN_CPP),
        (f"torch::autograd::Node::operator(){ARGUMENTS}", MACHINERY, IN_CPP),
        ("std::vector<at::Tensor, std::allocator<at::Tensor> >::~vector()", MACHINERY, IN_CPP),
        ("c10::TensorImpl::~TensorImpl() [clone .localalias]", MACHINERY, IN_CPP),
        ("PyType_FromModuleAndSpec", MACHINERY, IN_CPP),
        ("__clone", MACHINERY, IN_CPP),
        ("??", MACHINERY, IN_CPP),
    ],
)
def test_a_function_is_of_its_kind_and_called_by_what_it_does(
    name: str, kind: int, words: str
) -> None:
    assert native_kind(name) == kind
    assert native_words(name) == words


def test_a_name_is_told_from_its_types_and_arguments() -> None:
    assert qualified_name("std::tuple<a, b> at::native::f<int (x)>(a<b>)") == "at::native::f"
    assert qualified_name("my_operator<int>(x)") == "my_operator"
    assert qualified_name("A::operator<(A const&)") == "A::operator<"
    assert len(qualified_name("<" * 100_000 + "a" * 100_000)) < 10_000
