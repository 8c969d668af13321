"""Well-known packages, whose names say nothing about who uses them."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


LIBRARIES = words(
    """
    IPython PIL _pytest absl accelerate aiohttp albumentations alembic anyio apex apscheduler
    asyncssh attr attrs audiocraft auto_gptq autoawq av awq axolotl backoff beartype
    bitsandbytes boto3 botocore bs4 cachetools causal_conv1d certifi charset_normalizer cleanfid
    click clip cloudpickle colossalai comet_ml composer compressed_tensors controlnet_aux
    coverage ctranslate2 cupy cv2 dask datasets debugpy decord decorator deepspeed dgl diffusers
    dill distrax docker einops einx ema_pytorch encodec equinox espnet espnet2 evaluate
    exllamav2 fairscale fairseq fairseq2 faiss fastai fastapi fastcore fire flair flash_attn
    flash_attn_2_cuda flashinfer flask flax flwr fsspec ftfy fugashi functorch fvcore gensim git
    google gpytorch gradio grpc gym gymnasium h5py httpcore httpx huggingface_hub hydra hyperopt
    idna ignite imageio inflect invisible_watermark ipykernel ipykernel_launcher ipywidgets jax
    jaxlib jaxtyping jinja2 joblib jsonschema jupyter jupyter_client jupyter_core jupyterlab
    k_diffusion keras kornia langchain langchain_core librosa liger_kernel lightgbm lightning
    lightning_fabric lightning_utilities litellm litgpt llama_cpp llama_index llvmlite lm_eval
    loguru lora_diffusion lpips lxml mamba_ssm marshmallow math_verify matplotlib megatron
    mistral_common ml_collections mlflow mmcv mmdet mmengine mmseg monai mosaicml mpi4py
    multiprocess mypy nbclient nbconvert nemo networkx nltk notebook numba numexpr numpy nvidia
    nvtx omegaconf onnx onnxruntime open_clip openai openpyxl opt_einsum optax optimum optuna
    opacus orjson outlines packaging pandas parso pathos peft pillow pip pkg_resources
    platformdirs playwright pluggy polars prompt_toolkit protobuf psutil psycopg2 pyarrow
    pybind11 pycocotools pydantic pydantic_core pydevd pydub pygments pymongo pynvml pyro pytest
    pytest_asyncio pytorch3d pytorch_forecasting pytorch_lightning pytorch_metric_learning
    pytorch_msssim pytorch_optimizer ray redis regex requests rich rouge_score s3fs sacrebleu
    safetensors scipy seaborn segment_anything sentence_transformers sentencepiece sentry_sdk
    setproctitle setuptools sglang shapely simpletuner six skimage sklearn smart_open snapreport
    sockeye soundfile spacy speechbrain sqlalchemy stable_baselines3 starlette statsmodels
    streamlit submitit sympy tensorboard tensorboardX tensordict tensorflow tensorrt
    tensorrt_llm tenacity thop threadpoolctl tifffile tiktoken timm tinygrad tokenizers toolz
    torch torch_cluster torch_ema torch_fidelity torch_geometric torch_scatter torch_sparse
    torch_spline_conv torch_tensorrt torchao torchaudio torchdata torchdiffeq torchgen
    torchmetrics torchrec torchrl torchsde torchsnapshot torchtext torchtitan torchtune
    torchvision torchx tornado tqdm traitlets transformer_engine transformer_lens transformers
    triton trl trlx turbomind typer typing_extensions ultralytics umap unsloth unsloth_zoo
    urllib3 uvicorn uvloop vector_quantize_pytorch verl visdom vllm wandb watchdog webdataset
    websockets werkzeug wheel whisper whisperx xformers xgboost xlstm yacs yaml yarl zmq
    """
)
"""Top-level names as they are imported. A package that is missing counts as someone's own."""
