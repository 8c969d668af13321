"""What should not be in public is found, and what only looks like it is not."""

from __future__ import annotations

import hashlib

import pytest

from snapreport.names.file_strings import find_leaks
from snapreport.names.personal_data import Known
from snapreport.names.strings import Given

HERE = Known(frozenset({"annika"}), frozenset({"gpu-node-7"}))
NOBODY = Known(frozenset(), frozenset())


def leaks(text: str, kind: str = "text", known: Known = HERE) -> list[str]:
    return [leak.what for leak in find_leaks([Given(kind, text, 1)], known)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("/home/bob/x.py", "home directory"),
        ("--data=/Users/bob/x", "home directory"),
        ("see /root/x", "home directory"),
        (r"C:\Users\Bob Lee\x.py", "home directory"),
        ("C:\\\\Users\\\\bob\\\\x.py", "home directory"),
        ("../../home/bob/x.py", "home directory"),
        ("/mnt/data/annika/x.py", "user name"),
        ("/mnt/lustre/users/bob/x", "home directory"),
        ("/data/users/bob/x", "home directory"),
        ("/scratch/bob/x", "home directory"),
        ("/scratch2/bob", "home directory"),
        ("/mnt/nfs-7/bob/x", "home directory"),
        ("/gpfs/projects/bob/x", "home directory"),
        ("/lustre/fsw/portfolios/users/bob", "home directory"),
        ("/nfs/bob/x.py", "home directory"),
        ("/media/bob/disk/x.py", "home directory"),
        ("~bob/x", "home directory"),
        (r"\\server\share\x.py", "home directory"),
        ("vscode-remote/ssh-remote+server/x", "home directory"),
        ("vscode-remote/ssh-remote%2Bserver/x", "home directory"),
        ("authorization: bearer abcdef", "token"),
        ("WANDB_API_KEY=abcdef", "token"),
        ("run of Annika", "user name"),
        ("on gpu-node-7", "host name"),
        ("mail to bob.lee@example.org", "e-mail address"),
        ("https://example.org/x", "URL"),
        ("www.example.org", "URL"),
        ("hf_" + "aB3" * 10, "token"),
        ("ghp_" + "aB3" * 12, "token"),
        ("sk-ant-" + "aB3" * 12, "token"),
        ("AKIAIOSFODNN7EXAMPLE", "token"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "token"),
        ("-----BEGIN RSA PRIVATE KEY-----", "token"),
        ("--api-key=hunter2hunter2", "token"),
        ("0123456789abcdef0123456789abcdef01234567", "token"),
        ("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY9", "token"),
    ],
)
def test_what_should_not_be_in_public_is_found(text: str, what: str) -> None:
    assert what in leaks(text)


@pytest.mark.parametrize(
    "text",
    [
        "~/x.py",
        "torch/nn/modules/module.py",
        "home/views/x.py",
        "app/users/views.py",
        "/app/users",
        "/mnt/data/datasets",
        "/scratch",
        "~/x",
        "c10::TensorImpl::~TensorImpl()",
        "D:\\\\x\\\\y",
        "--wandb-key=HIDDEN",
        "Authorization: Bearer HIDDEN",
        "basic training",
        "annikas.py",
        "pthread_create@GLIBC_2.34",
        "operator@@Version",
        "torchinductor_~/ik/cikcecxcrlok4stxbybhhbunxzxxqbqw675ooprrkziohs52ixsi.py",
        "## Call CompiledFxGraph fvzpnju2bqs23iq7yrfyertjhqy5rldkmbks6msbdrecuxsd2kzt ##",
        "_ZN2at6native12_GLOBAL__N_125CatArrayBatchedCopyE10OpaqueTypeILj2EE",
        "method_vectorcall_NOARGS.llvm.7574463793130541339",
        "at::native::(anonymous namespace)::mul_kernel_cuda(at::TensorIteratorBase&)",
        "scaled_dot_product_efficient_attention_backward_cuda_kernel_launcher",
        "tmpxft_00007b82_00000000-6_RangeFactories.compute_90.cudafe1.cpp",
        "default-src 'none'; style-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
        "Source: `snap.pickle`, SHA-256 `" + hashlib.sha256(b"x").hexdigest() + "`",
        "project/3f9a12bc/77aa0011.py",
        "",
    ],
)
def test_what_only_looks_like_it_is_not(text: str) -> None:
    assert leaks(text) == []


def test_the_hash_of_the_source_is_ours_and_another_is_not() -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    assert leaks(digest, "hash") == []
    assert leaks(digest) == ["token"]


def test_a_user_whose_home_is_named_is_found_elsewhere() -> None:
    given = [Given("file", "/home/bertha/x.py", 1), Given("stage", "eval for bertha", 1)]
    found = {(leak.what, leak.text) for leak in find_leaks(given, NOBODY)}
    assert ("user name", "eval for bertha") in found
    assert not leaks("eval for bertha", known=NOBODY)


def test_names_that_anyone_has_are_no_names() -> None:
    given = [Given("file", "/home/ubuntu/x.py", 1), Given("stage", "ubuntu root", 1)]
    assert [leak.what for leak in find_leaks(given, NOBODY)] == ["home directory"]


def test_a_token_is_not_shown_whole() -> None:
    (leak,) = find_leaks([Given("text", "hf_" + "aB3" * 10, 1)], NOBODY)
    assert leak.found == "hf_aB3…"


def test_markdown_is_read_as_it_will_be_shown() -> None:
    assert leaks("mail bob@\u200bexample\\.org", "line") == ["e-mail address"]
    assert set(leaks(r"`C:\\Users\\bob\\x`", "line")) == {"home directory", "user name"}
