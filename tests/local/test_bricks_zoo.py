"""Bricks of the zoo predict its models on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.quiet import require_quiet

_MODELS = (
    "classification/resnet18",
    "classification/resnet34",
    "classification/mobilenet_v2",
    "classification/densenet121",
    "classification/vgg11",
    "text/minilm_l6",
)
